from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch

from handful.graph import Graph
from handful.samplers.induced import induced_parts
from handful.theory.hubs import HubShare, expected_copies, expected_edges, expected_mean_weights, largest_hubs
from handful.theory.thinning import block_sizes


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


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("hubs", [[], [0], [0, 4], [0, 1, 2]])
def test_edges_of_an_epoch(parts: int, hubs: list[int]) -> None:
    """Loops, both directions and every number of hubs at the ends, against the real parts of every deal."""
    at = np.array(hubs, np.int64)
    every = deals(parts)
    edges = [sum(a.num_edges for _, a in induced_parts(DIRECTED, part.astype(np.uint8), parts, at)) for part in every]
    assert expected_edges(DIRECTED, parts, at) == pytest.approx(np.mean(edges))
    for u, v in [(0, 1), (1, 4), (3, 5)]:
        copies = np.mean(
            [sum((part[u] == p or u in hubs) and (part[v] == p or v in hubs) for p in range(parts)) for part in every]
        )
        assert expected_copies(N, parts, (u in hubs) + (v in hubs)) == pytest.approx(copies)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("hubs", [set(), {1}, {1, 2}, {1, 2, 3}])
def test_weights_in_the_mean(parts: int, hubs: set[int]) -> None:
    """Node 0 has the neighbours 1, 2 and 3: how much each of them counts, over every deal."""
    weight = dict.fromkeys((1, 2, 3), Fraction(0))
    every = deals(parts)
    for part in every:
        row = [u for u in weight if u in hubs or part[u] == part[0]]
        for u in row:
            weight[u] += Fraction(1, len(row) * len(every))
    hub, other = expected_mean_weights(N, N // parts, degree=3, hubs=len(hubs))
    for u, found in weight.items():
        assert float(found) == pytest.approx(hub if u in hubs else other)
