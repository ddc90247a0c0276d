"""Which nodes are hubs, and how many ``auto`` takes: by sorting and by counting, one node at a time."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful import Graph, RandomNodes
from handful.errors import SamplerError
from handful.samplers import hubs as hubs_module
from handful.samplers.hubs import MORE_ROWS, auto_count, checked_hubs, hub_edges, hub_nodes, hubs_by_degree
from samplers.conftest import any_graph


@settings(deadline=None)
@given(any_graph(), st.integers(0, 12))
def test_the_largest_in_degrees_first_and_of_equals_the_smallest_ids(graph: Graph, count: int) -> None:
    degree = graph.in_degree.tolist()
    expected = sorted(range(graph.num_nodes), key=lambda v: (-degree[v], v))[:count]
    assert hubs_by_degree(graph, count).tolist() == expected


@pytest.mark.parametrize(
    "given", [0.05, 1e-9, 6, 1, np.int64(3), np.float32(0.5), "degree>=7", " degree >= 7 ", "auto", None]
)
def test_ways_to_choose_hubs(given: Any) -> None:
    sampler = RandomNodes(3, hubs=given)
    assert sampler.hubs == checked_hubs(given)
    assert type(sampler.hubs) in (int, float, str, type(None))  # what a record can hold
    assert sampler.method == ("rns" if given is None else "rns-hubs")
    assert sampler.name == "rns"


@pytest.mark.parametrize(
    "given", [0, -1, 0.0, 1.0, 2.5, -0.1, True, False, "", "6", "degree>100", "degree=3", "all", (1, 2), float("nan")]
)
def test_no_way_to_choose_hubs(given: Any) -> None:
    with pytest.raises(SamplerError, match=re.escape(f"degree>=K or auto, got {given!r}")):
        RandomNodes(3, hubs=given)


def test_what_a_graph_cannot_give(medium: Graph) -> None:
    largest = int(medium.in_degree.max())
    with pytest.raises(SamplerError, match="has 300 nodes, fewer than 301"):
        hub_nodes(medium, 301, 2)
    with pytest.raises(
        SamplerError, match=f"no node of .* has degree>={largest + 1}: the largest in-degree is {largest}"
    ):
        hub_nodes(medium, f"degree>={largest + 1}", 2)


def test_shares_numbers_and_thresholds(medium: Graph) -> None:
    degree = medium.in_degree.numpy()
    assert hub_nodes(medium, None, 2).tolist() == []
    assert (
        hub_nodes(medium, 0.05, 2).tolist() == hub_nodes(medium, 15, 7).tolist() == sorted(hubs_by_degree(medium, 15))
    )
    assert len(hub_nodes(medium, 1e-9, 2)) == 1  # a share is of at least one node
    assert len(hub_nodes(medium, 0.999999, 2)) == len(hub_nodes(medium, 300, 2)) == 300
    assert hub_nodes(medium, "degree>=20", 2).tolist() == np.flatnonzero(degree >= 20).tolist()


@settings(deadline=None)
@given(any_graph(), st.data())
def test_edges_at_hubs_are_counted(graph: Graph, data: st.DataObject) -> None:
    most = data.draw(st.integers(0, graph.num_nodes))
    either, both = hub_edges(graph, most)
    for h in range(most + 1):
        hubs = set(hubs_by_degree(graph, h).tolist())
        ends = [(u in hubs, v in hubs) for u, v in graph.edge_index.T.tolist()]
        assert (either[h], both[h]) == (sum(u or v for u, v in ends), sum(u and v for u, v in ends))


@settings(deadline=None)
@given(any_graph(), st.integers(2, 6))
def test_auto_is_the_most_that_the_budget_allows(graph: Graph, parts: int) -> None:
    def fits(h: int) -> bool:
        hubs = set(hubs_by_degree(graph, h).tolist())
        at = [(u in hubs) + (v in hubs) for u, v in graph.edge_index.T.tolist()]
        edges = sum((Fraction(1, parts), 1, parts)[ends] for ends in at)
        return edges <= graph.num_edges and (parts - 1) * h <= MORE_ROWS * graph.num_nodes

    count = auto_count(graph, parts)
    assert fits(count)
    assert count == graph.num_nodes or not fits(count + 1)
    assert auto_count(graph, 1) == 0


@pytest.mark.parametrize("tallied", [1 << 16, 3])
def test_hubs_are_those_of_a_sort_whatever_is_tallied(tallied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs_module, "TALLIED", tallied)
    monkeypatch.setattr(hubs_module, "ROWS", 7)
    rng = np.random.default_rng(tallied)
    graph = Graph.from_edge_index(rng.integers(0, 40, (2, 150)), 40)
    expected = np.argsort(-graph.in_degree.numpy(), kind="stable")
    for count in range(41):
        np.testing.assert_array_equal(hubs_by_degree(graph, count), expected[:count])
