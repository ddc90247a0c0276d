from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from handful.kernels import csr
from handful.kernels.threads import get_threads, set_threads
from handful.kernels.traverse import sweep


@st.composite
def directed(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 40))
    ends = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(ends, ends), max_size=60))
    rows, cols = np.array(edges, np.int64).reshape(-1, 2).T
    return csr.coo_to_csr(rows, cols, n, n)[:2]


def matrix(indptr: np.ndarray, indices: np.ndarray) -> csr_array:
    n = len(indptr) - 1
    return csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))


@given(directed())
@settings(max_examples=150)
def test_sweep_agrees_with_scipy(graph: tuple[np.ndarray, np.ndarray]) -> None:
    n = len(graph[0]) - 1
    expected = shortest_path(matrix(*graph), unweighted=True)
    found = np.where(np.isinf(expected), -1, expected)
    seen = sweep(*graph, np.arange(n))
    assert np.array_equal(seen.reached, (found >= 0).sum(1))
    assert np.array_equal(seen.total, np.where(found >= 0, found, 0).sum(1))
    assert np.array_equal(seen.eccentricity, found.max(1))
    assert np.array_equal(seen.farthest, found.argmax(1))


@pytest.mark.slow
def test_on_a_real_shape_with_networkx() -> None:
    graph = nx.barabasi_albert_graph(500, 2, seed=1)
    graph = nx.disjoint_union(graph, nx.path_graph(30))
    edges = np.array(graph.edges).T
    rows, cols = np.concatenate([edges, edges[::-1]], axis=1)
    n = graph.number_of_nodes()
    indptr, indices, _ = csr.coo_to_csr(rows, cols, n, n)
    seen = sweep(indptr, indices, np.arange(n))
    parts = [graph.subgraph(c) for c in nx.connected_components(graph)]
    assert seen.eccentricity.max() == max(nx.diameter(p) for p in parts)
    paths = sum(nx.average_shortest_path_length(p) * len(p) * (len(p) - 1) for p in parts)
    assert seen.total.sum() == pytest.approx(paths)


def test_threads_do_not_matter() -> None:
    graph = nx.gnp_random_graph(300, 0.01, seed=3)
    indptr, indices = (
        a.astype(np.int64) for a in (nx.to_scipy_sparse_array(graph).indptr, nx.to_scipy_sparse_array(graph).indices)
    )
    before = get_threads()
    try:
        results = []
        for threads in (1, 3):
            set_threads(threads)
            results.append(np.stack(sweep(indptr, indices, np.arange(100))))
    finally:
        set_threads(before)
    assert np.array_equal(*results)


def test_a_source_that_is_not_a_node() -> None:
    empty = np.zeros(3, np.int64), np.zeros(0, np.int32)
    with pytest.raises(ValueError, match="not a node"):
        sweep(*empty, np.array([-1]))
