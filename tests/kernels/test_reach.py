from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.kernels.dispatch import use
from handful.kernels.reach import edges_of_rows, reach, rows_among


@settings(max_examples=40)
@given(n=st.integers(1, 40), edges=st.integers(0, 80), hops=st.integers(0, 5), seed=st.integers(0, 999), data=st.data())
def test_reach_is_breadth_first_search(n: int, edges: int, hops: int, seed: int, data: st.DataObject) -> None:
    pairs = torch.randint(0, n, (2, edges), generator=torch.Generator().manual_seed(seed))
    graph = Graph.from_edge_index(pairs, n)
    targets = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4)))
    found = reach(graph.indptr, graph.indices, targets, hops)
    backwards = nx.DiGraph()
    backwards.add_nodes_from(range(n))
    backwards.add_edges_from((int(v), int(u)) for u, v in pairs.T)
    distance = nx.multi_source_dijkstra_path_length(backwards, set(targets.tolist()), cutoff=hops)
    assert found.order.tolist() == sorted(distance, key=lambda v: (distance[v], v))
    assert found.counts == [sum(d <= k for d in distance.values()) for k in range(hops + 1)]
    with use("torch"):
        twin = reach(graph.indptr, graph.indices, targets, hops)
    assert torch.equal(found.order, twin.order)
    assert torch.equal(found.indptr, twin.indptr)
    assert (found.counts, found.edges) == (twin.counts, twin.edges)


@pytest.mark.parametrize("way", ["numba", "torch"])
@settings(max_examples=40)
@given(n=st.integers(1, 30), edges=st.integers(0, 80), seed=st.integers(0, 999))
def test_rows_among_the_nodes_that_are_reached(way: str, n: int, edges: int, seed: int) -> None:
    gen = torch.Generator().manual_seed(seed)
    graph = Graph.from_edge_index(torch.randint(0, n, (2, edges), generator=gen), n)
    with use(way):  # type: ignore[arg-type]
        found = reach(graph.indptr, graph.indices, torch.randint(0, n, (2,), generator=gen), 2)
        indices, place = rows_among(graph.indptr, graph.indices, found)
        ids = edges_of_rows(graph.indptr, found)
    order, indptr = found.order, found.indptr
    assert len(indptr) - 1 == found.counts[1]
    assert [int(indptr[count]) for count in found.counts[:-1]] == found.edges
    assert torch.equal(graph.indices[ids].long(), order[indices.long()])
    assert torch.equal(place[order].long(), torch.arange(len(order)))
    for i, v in enumerate(order[: found.counts[1]].tolist()):
        old = graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()
        assert order[indices[indptr[i] : indptr[i + 1]].long()].tolist() == old
