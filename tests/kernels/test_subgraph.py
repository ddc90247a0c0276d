"""Induced subgraphs against PyG's, one node set at a time and all parts at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.utils import subgraph as pyg_subgraph

from handful.kernels import csr, subgraph
from handful.kernels.subgraph import counts, of_rank
from handful.kernels.threads import get_threads, set_threads

Edges = np.ndarray


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    """Directed graphs of up to 12 nodes, with self-loops, repeated edges and isolated nodes."""
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=40))
    return n, np.array(pairs, np.int64).reshape(-1, 2).T


def compressed(n: int, edges: Edges) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return csr.coo_to_csr(edges[1], edges[0], n, n, with_order=True)


def edges_of(indptr: np.ndarray, indices: np.ndarray) -> list[tuple[int, int]]:
    return [(int(u), v) for v in range(len(indptr) - 1) for u in indices[indptr[v] : indptr[v + 1]]]


def expected(n: int, edges: Edges, nodes: np.ndarray) -> tuple[list[tuple[int, int]], list[int]]:
    """Relabelled edges and the ids of the edges, by PyG."""
    chosen = torch.from_numpy(nodes)
    found, ids = pyg_subgraph(chosen, torch.from_numpy(edges), torch.arange(edges.shape[1]), True, n)
    return sorted(map(tuple, found.T.tolist())), sorted(ids.tolist())


@settings(deadline=None)  # the first example compiles
@given(graphs(), st.data())
def test_induced_equals_pyg(graph: tuple[int, Edges], data: st.DataObject) -> None:
    n, edges = graph
    nodes = np.array(data.draw(st.lists(st.integers(0, n - 1), unique=True)), np.int64)
    indptr, indices, order = compressed(n, edges)
    got_ptr, got, places = subgraph.induced(indptr, indices, nodes, with_edges=True)
    want, want_ids = expected(n, edges, nodes)
    assert sorted(edges_of(got_ptr, got)) == want
    assert sorted(order[places].tolist()) == want_ids
    np.testing.assert_array_equal(nodes[got], indices[places])
    without = subgraph.induced(indptr, indices, nodes)
    np.testing.assert_array_equal(without[1], got)
    assert len(without[2]) == 0


def places_of(indices: np.ndarray) -> np.ndarray:
    """The place of every edge, in the type of weights: for another type other kernels would be compiled."""
    return np.arange(len(indices), dtype=np.float32)


@settings(deadline=None)  # the first example compiles
@given(graphs(), st.integers(1, 5), st.sampled_from([np.uint8, np.uint16, np.int32]), st.data())
def test_all_parts_at_once_equal_pyg(graph: tuple[int, Edges], m: int, dtype: type, data: st.DataObject) -> None:
    n, edges = graph
    # Part m is the one that is left out.
    part = np.array(data.draw(st.lists(st.integers(0, m), min_size=n, max_size=n)), dtype)
    indptr, indices, order = compressed(n, edges)
    told = list(subgraph.parts(indptr, indices, part, m, places_of(indices)))
    assert len(told) == m
    for p, (nodes, got_ptr, got, value) in enumerate(told):
        places = value.astype(np.int64)
        np.testing.assert_array_equal(nodes, np.flatnonzero(part == p))
        want, want_ids = expected(n, edges, nodes)
        assert sorted(edges_of(got_ptr, got)) == want
        assert edges_of(got_ptr, got) == sorted(want, key=lambda edge: edge[::-1])
        assert sorted(order[places].tolist()) == want_ids
        np.testing.assert_array_equal(nodes[got], indices[places])
    for with_ids, without in zip(told, subgraph.parts(indptr, indices, part, m), strict=True):
        for a, b in zip(with_ids[:3], without[:3], strict=True):
            np.testing.assert_array_equal(a, b)
        assert len(without[3]) == 0


@pytest.mark.parametrize("n", [63, 64, 65, 1000])
def test_all_parts_at_once_equal_each_alone(n: int) -> None:
    rng = np.random.default_rng(n)
    indptr, indices, _ = compressed(n, rng.integers(0, n, (2, 30 * n)))
    part = rng.integers(0, 4, n).astype(np.uint8)
    for nodes, *together in subgraph.parts(indptr, indices, part, 3, places_of(indices)):
        for a, b in zip(together, subgraph.induced(indptr, indices, nodes, with_edges=True), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int) -> None:
    rng = np.random.default_rng(0)
    n, m = 20_000, 7
    indptr, indices, _ = compressed(n, rng.integers(0, n, (2, 300_000)))
    part = rng.integers(0, m, n).astype(np.uint8)
    nodes = np.flatnonzero(rng.random(n) < 0.5)

    def everything() -> list[np.ndarray]:
        parts = [a for piece in subgraph.parts(indptr, indices, part, m, places_of(indices)) for a in piece]
        return [*parts, *subgraph.induced(indptr, indices, nodes, True)]

    before = get_threads()
    try:
        set_threads(1)
        alone = everything()
        set_threads(threads)
        together = everything()
    finally:
        set_threads(before)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 6), st.sampled_from([np.uint8, np.uint16, np.int32]))
def test_counts_are_those_of_numpy(part: list[int], m: int, dtype: type) -> None:
    expected = np.bincount(np.array(part, np.int64), minlength=7)[:m]
    np.testing.assert_array_equal(counts(np.array(part, dtype), m), expected)


def test_counts_of_many_are_shared_by_threads() -> None:
    part = np.random.default_rng(0).integers(0, 5, 300_001).astype(np.uint8)
    np.testing.assert_array_equal(counts(part, 5), np.bincount(part))


@pytest.mark.parametrize("m", [1, 3, 300])
def test_nodes_of_a_rank_are_found_in_the_order_asked(m: int) -> None:
    rng = np.random.default_rng(m)
    part = rng.integers(0, m, 2000).astype(np.uint16)
    by_part = [np.flatnonzero(part == p) for p in range(m)]
    ranks = [rng.choice(len(nodes), rng.integers(0, len(nodes) + 1), replace=False) for nodes in by_part]
    for found, nodes, asked in zip(of_rank(part, ranks), by_part, ranks, strict=True):
        np.testing.assert_array_equal(found, nodes[asked])
