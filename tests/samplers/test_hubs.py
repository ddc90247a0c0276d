"""Which nodes are hubs, and how many ``auto`` takes: by sorting and by counting, one node at a time."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful import Graph, RandomNodes
from handful.errors import SamplerError
from handful.samplers import hubs as hubs_module
from handful.samplers.hubs import (
    MORE_ROWS,
    checked_hubs,
    degree_tally,
    expected_share,
    hub_nodes,
    hubs_by_degree,
    inclusion,
    inclusion_factor,
)
from handful.theory.hubs import expected_edges
from samplers.conftest import any_graph


@given(any_graph(), st.integers(0, 12))
def test_the_largest_in_degrees_first_and_of_equals_the_smallest_ids(graph: Graph, count: int) -> None:
    degree = graph.in_degree.tolist()
    expected = sorted(range(graph.num_nodes), key=lambda v: (-degree[v], v))[:count]
    assert hubs_by_degree(graph, count).tolist() == expected


@pytest.mark.parametrize(
    "given",
    [
        0.05,
        1e-9,
        6,
        1,
        np.int64(3),
        np.float32(0.5),
        "degree>=7",
        " degree >= 7 ",
        "drawn=0.2",
        "drawn = .5",
        "auto",
        None,
    ],
)
def test_ways_to_choose_hubs(given: Any) -> None:
    sampler = RandomNodes(3, hubs=given)
    assert sampler.hubs == checked_hubs(given)
    assert type(sampler.hubs) in (int, float, str, type(None))  # what a record can hold
    assert sampler.method == ("rns" if given is None else "rns-hubs")
    assert sampler.name == "rns"


@pytest.mark.parametrize(
    "given",
    [
        *(0, -1, 0.0, 1.0, 2.5, -0.1, True, False, "", "6", "degree>100", "degree=3", "all", (1, 2), float("nan")),
        *("drawn", "drawn=", "drawn=1", "drawn=0", "drawn=6", "drawn=-0.1", "drawn=nan", "drawn=1e-999"),
    ],
)
def test_no_way_to_choose_hubs(given: Any) -> None:
    with pytest.raises(SamplerError, match=re.escape(f"degree>=K, drawn=SHARE or auto, got {given!r}")):
        RandomNodes(3, hubs=given)


def test_what_a_graph_cannot_give(medium: Graph) -> None:
    largest = int(medium.in_degree.max())
    with pytest.raises(SamplerError, match="has 300 nodes, fewer than 301"):
        hub_nodes(medium, 301, 2, 0, 0)
    with pytest.raises(
        SamplerError, match=f"no node of .* has degree>={largest + 1}: the largest in-degree is {largest}"
    ):
        hub_nodes(medium, f"degree>={largest + 1}", 2, 0, 0)


def test_shares_numbers_and_thresholds(medium: Graph) -> None:
    def nodes(hubs: Any, parts: int = 2) -> list[int]:
        return hub_nodes(medium, hubs, parts, seed=1, epoch=2).tolist()

    assert nodes(None) == []
    assert nodes(0.05) == nodes(15, 7) == sorted(hubs_by_degree(medium, 15))
    assert len(nodes(1e-9)) == 1  # a share is of at least one node
    assert len(nodes(0.999999)) == len(nodes(300)) == 300
    assert nodes("degree>=20") == np.flatnonzero(medium.in_degree.numpy() >= 20).tolist()
    assert inclusion(medium, 15, 2).tolist() == [float(v in nodes(15)) for v in range(300)]
    assert expected_share(medium, 15, 2) == 0.05


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0.1, 1e6)), min_size=1, max_size=30), st.floats(0.001, 1.2))
def test_the_factor_gives_the_total(found: list[tuple[int, float]], share: float) -> None:
    degree = np.array(sorted({d for d, _ in found}))
    count = np.array([sum(c for d, c in found if d == one) for one in degree])
    factor = inclusion_factor(degree, count, share * count.sum())
    assert np.sum(count * np.minimum(1, factor * degree)) == pytest.approx(min(1, share) * count.sum())


@given(any_graph(), st.floats(0.01, 0.99))
def test_a_share_is_drawn_in_proportion_to_degree(graph: Graph, share: float) -> None:
    degree, chance = graph.in_degree.numpy(), inclusion(graph, f"drawn={share}", 3)
    possible = (degree > 0).mean() if graph.num_nodes else 0
    assert chance.sum() == pytest.approx(min(share, possible) * graph.num_nodes)
    assert expected_share(graph, f"drawn={share}", 3) == pytest.approx(min(share, possible))
    inside = (chance > 0) & (chance < 1)
    assert np.ptp(chance[inside] / degree[inside]) < 1e-9 if inside.any() else True
    assert (chance[degree == 0] == 0).all()


def test_nodes_are_drawn_as_often_as_they_should_be_and_independently(medium: Graph) -> None:
    chance, epochs = inclusion(medium, "drawn=0.3", 2), 4000
    seen = np.zeros((epochs, 300))
    for epoch in range(epochs):
        seen[epoch, hub_nodes(medium, "drawn=0.3", 2, seed=5, epoch=epoch)] = 1
    error = (seen.mean(0) - chance) / np.sqrt(np.maximum(chance * (1 - chance), 1e-12) / epochs)
    assert (seen[:, chance == 1] == 1).all()
    assert np.abs(error[chance < 1]).max() < 5
    drawn = seen[:, (chance > 0.05) & (chance < 0.95)]
    together = np.corrcoef(drawn.T)[np.triu_indices(drawn.shape[1], 1)]
    assert np.abs(together).max() < 5.5 / np.sqrt(epochs)


@pytest.mark.parametrize("parts", [2, 4, 9])
def test_auto_keeps_to_the_edges_and_rows_that_it_promises(parts: int) -> None:
    """Ends of edges are independent in a graph of random pairs: an epoch then has the edges of the full graph."""
    rng = np.random.default_rng(parts)
    weight = rng.pareto(1.5, 3000) + 1
    ends = rng.choice(3000, (2, 60_000), p=weight / weight.sum())
    graph = Graph.from_edge_index(np.concatenate([ends, ends[::-1]], axis=1), 3000)
    chance = inclusion(graph, "auto", parts)
    assert expected_edges(graph, parts, chance) == pytest.approx(graph.num_edges, rel=0.02)
    assert (parts - 1) * chance.mean() < MORE_ROWS
    even = Graph.from_edge_index([np.arange(500), np.roll(np.arange(500), 1)], 500)  # the rows are what counts
    assert expected_share(even, "auto", parts) == pytest.approx(min(MORE_ROWS / (parts - 1), 1 / (parts**0.5 + 1)))
    assert expected_share(even, "auto", 1) == 0


@given(any_graph())
def test_degrees_are_counted(graph: Graph) -> None:
    values, counts = np.unique(graph.in_degree.numpy(), return_counts=True)
    for found, expected in zip(degree_tally(graph), (values, counts), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("tallied", [1 << 16, 3])
def test_hubs_are_those_of_a_sort_whatever_is_tallied(tallied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs_module, "TALLIED", tallied)
    monkeypatch.setattr(hubs_module, "ROWS", 7)
    rng = np.random.default_rng(tallied)
    graph = Graph.from_edge_index(rng.integers(0, 40, (2, 150)), 40)
    expected = np.argsort(-graph.in_degree.numpy(), kind="stable")
    for count in range(41):
        np.testing.assert_array_equal(hubs_by_degree(graph, count), expected[:count])
