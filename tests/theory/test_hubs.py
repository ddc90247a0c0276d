from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import torch

from handful.graph import Graph
from handful.samplers.induced import induced_parts
from handful.theory.hubs import (
    HubShare,
    expected_copies,
    expected_edges,
    expected_mean_weights,
    helpers_met,
    largest_hubs,
)
from handful.theory.thinning import block_sizes, thinned_degree_law


def watched(present: np.ndarray, gradients: np.ndarray) -> HubShare:
    hubs = np.arange(present.shape[1]) + 100
    watch = HubShare(hubs)
    for row, gradient in zip(present, gradients, strict=True):
        nodes = np.concatenate([[3, 5], hubs[row]])
        watch.add(torch.from_numpy(nodes), torch.from_numpy(gradient))
    return watch


@pytest.mark.parametrize("seed", range(4))
def test_against_least_squares_on_stacked_gradients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    present = rng.random((40, 3)) < 0.4
    gradients = rng.normal(size=(40, 7)) + present @ rng.normal(size=(3, 7)) + 5
    design = np.c_[np.ones(40), present]
    fitted = design @ np.linalg.lstsq(design, gradients, rcond=None)[0]
    plain = 1 - ((gradients - fitted) ** 2).sum() / ((gradients - gradients.mean(0)) ** 2).sum()
    assert watched(present, gradients).share == pytest.approx(1 - (1 - plain) * 39 / 36)


def test_a_hub_that_is_always_there_explains_nothing() -> None:
    rng = np.random.default_rng(0)
    present = np.c_[np.ones(60, bool), rng.random(60) < 0.5]
    noise = rng.normal(size=(60, 400))
    assert watched(present, noise).share == pytest.approx(watched(present[:, 1:], noise).share)
    assert abs(watched(present, noise).share) < 0.02


def test_too_little_to_tell() -> None:
    assert np.isnan(watched(np.eye(3, dtype=bool), np.ones((3, 2))).share)
    assert np.isnan(watched(np.ones((3, 1), bool), np.ones((3, 2))).share)


def test_largest_hubs() -> None:
    star = Graph.from_edge_index(np.array([[4, 4, 4, 2, 2], [0, 1, 3, 0, 1]]), 6)
    assert largest_hubs(star, 2).tolist() == [4, 0]


# -- RNS with hubs, by every way to deal a small graph ----------------------------------------------------------------

N = 6
DIRECTED = Graph.from_edge_index([[0, 1, 0, 2, 3, 4, 5, 0, 2, 2, 1], [1, 0, 2, 0, 0, 3, 0, 0, 2, 4, 4]], N)


def deals(parts: int) -> list[np.ndarray]:
    label = np.repeat(np.arange(parts, dtype=np.uint8), block_sizes(N, parts))
    return [np.array(part) for part in sorted(set(permutations(label.tolist())))]


CHANCES = [[0] * N, [1, 0, 0, 0, 0, 0], [1, 0, 0.5, 0, 0.25, 0], [0.75, 0.5, 0.5, 0, 0, 1]]


def helper_sets(chances: list[float]) -> list[tuple[list[int], float]]:
    """Every set of helpers, and its probability."""
    sets = []
    for inside in product([False, True], repeat=len(chances)):
        chance = float(np.prod([c if there else 1 - c for c, there in zip(chances, inside, strict=True)]))
        if chance:
            sets.append(([v for v, there in enumerate(inside) if there], chance))
    return sets


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("chances", CHANCES)
def test_edges_of_an_epoch(parts: int, chances: list[float]) -> None:
    """Loops, both directions, fixed and drawn helpers, against the real parts of every deal and every draw."""
    every = deals(parts)
    edges, copies = 0.0, dict.fromkeys([(0, 1), (1, 4), (3, 5)], 0.0)
    for hubs, chance in helper_sets(chances):
        at, weight = np.array(hubs, np.int64), chance / len(every)
        for part in every:
            edges += weight * sum(a.num_edges for _, a in induced_parts(DIRECTED, part.astype(np.uint8), parts, at))
            for u, v in copies:
                copies[u, v] += weight * sum(
                    (part[u] == p or u in hubs) and (part[v] == p or v in hubs) for p in range(parts)
                )
    assert expected_edges(DIRECTED, parts, np.array(chances)) == pytest.approx(edges)
    for (u, v), found in copies.items():
        assert expected_copies(N, parts, chances[u], chances[v]) == pytest.approx(found)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("chances", [[0, 0, 0], [1, 0, 0], [1, 1, 1], [0.5, 0.25, 0], [1, 0.5, 0.125]])
def test_weights_in_the_mean(parts: int, chances: list[float]) -> None:
    """Node 0 has the neighbours 1, 2 and 3: how much each of them counts, over every deal and every draw."""
    weight = np.zeros(3)
    every = deals(parts)
    for helpers, chance in helper_sets(chances):
        for part in every:
            row = [u for u in range(3) if u in helpers or part[u + 1] == part[0]]
            weight[row] += chance / (max(1, len(row)) * len(every))
    assert np.allclose(expected_mean_weights(N, N // parts, chances), weight)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_degrees_with_drawn_helpers(parts: int) -> None:
    graph = Graph.from_edge_index([[0, 1, 0, 2, 0, 3, 3, 4], [1, 0, 2, 0, 3, 0, 4, 3]], N)
    near = [[int(u) for u, w in graph.edge_index.T.tolist() if w == v] for v in range(N)]
    chances, every = [0.5, 0.25, 1, 0, 0.5, 0], deals(parts)
    seen = np.zeros(int(graph.in_degree.max()) + 1)
    for helpers, chance in helper_sets(chances):
        for part in every:
            for v in range(N):
                seen[sum(u in helpers or part[u] == part[v] for u in near[v])] += chance / (len(every) * N)
    met = helpers_met(graph, np.array(chances))
    assert np.allclose(thinned_degree_law(graph.in_degree.numpy(), parts, met), seen, atol=1e-12)
