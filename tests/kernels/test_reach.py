from __future__ import annotations

import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.graph import Graph
from handful.kernels.reach import edges_of_rows, reach, reach_torch, rows_among


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), edges=st.integers(0, 80), hops=st.integers(0, 5), seed=st.integers(0, 999), data=st.data())
def test_reach_is_breadth_first_search(n: int, edges: int, hops: int, seed: int, data: st.DataObject) -> None:
    pairs = torch.randint(0, n, (2, edges), generator=torch.Generator().manual_seed(seed))
    graph = Graph.from_edge_index(pairs, n)
    targets = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4)))
    order, counts = reach(graph.indptr, graph.indices, targets, hops)
    backwards = nx.DiGraph()
    backwards.add_nodes_from(range(n))
    backwards.add_edges_from((int(v), int(u)) for u, v in pairs.T)
    distance = nx.multi_source_dijkstra_path_length(backwards, set(targets.tolist()), cutoff=hops)
    assert order.tolist() == sorted(distance, key=lambda v: (distance[v], v))
    assert counts == [sum(d <= k for d in distance.values()) for k in range(hops + 1)]
    twin_order, twin_counts = reach_torch(graph.indptr, graph.indices, targets, hops)
    assert torch.equal(order, twin_order)
    assert counts == twin_counts


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 30), edges=st.integers(0, 80), seed=st.integers(0, 999))
def test_rows_among_the_nodes_that_are_reached(n: int, edges: int, seed: int) -> None:
    gen = torch.Generator().manual_seed(seed)
    graph = Graph.from_edge_index(torch.randint(0, n, (2, edges), generator=gen), n)
    order, counts = reach(graph.indptr, graph.indices, torch.randint(0, n, (2,), generator=gen), 2)
    indptr, indices, place = rows_among(graph.indptr, graph.indices, order, counts[1])
    ids = edges_of_rows(graph.indptr, order[: counts[1]], indptr)
    assert torch.equal(graph.indices[ids].long(), order[indices.long()])
    assert torch.equal(place[order].long(), torch.arange(len(order)))
    for i, v in enumerate(order[: counts[1]].tolist()):
        old = graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()
        assert order[indices[indptr[i] : indptr[i + 1]].long()].tolist() == old
