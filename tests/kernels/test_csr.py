from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.kernels import csr
from handful.kernels.csr import class_edges


@st.composite
def rectangles(draw: st.DrawFn) -> tuple[int, int, np.ndarray, np.ndarray]:
    rows, cols = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    edges = draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1)), max_size=30))
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    return rows, cols, pairs[:, 0].copy(), pairs[:, 1].copy()


def reference(rows: int, cols: int, i: np.ndarray, j: np.ndarray, values: np.ndarray) -> sp.csr_array:
    """scipy's own CSR, with copies of an entry kept and rows sorted stably."""
    order = np.lexsort((j, i))
    indptr = np.concatenate([[0], np.bincount(i, minlength=rows).cumsum()])
    return sp.csr_array((values[order], j[order], indptr), shape=(rows, cols))


@settings(max_examples=100)
@given(rectangles(), st.sampled_from([np.int32, np.int64]))
def test_coo_to_csr_and_transpose(case: tuple[int, int, np.ndarray, np.ndarray], dtype: type) -> None:
    rows, cols, i, j = case
    values = np.arange(len(i))
    expected = reference(rows, cols, i, j, values)
    indptr, indices, order = csr.coo_to_csr(i.astype(dtype), j.astype(dtype), rows, cols, with_order=True)
    assert np.array_equal(indptr, expected.indptr)
    assert np.array_equal(indices, expected.indices)
    assert np.array_equal(values[order], expected.data)
    assert indices.dtype == np.int32
    assert len(csr.coo_to_csr(i, j, rows, cols)[2]) == 0
    turned = reference(cols, rows, j, i, values)
    t_indptr, t_indices, t_order = csr.transpose(indptr, indices, cols, with_order=True)
    assert np.array_equal(t_indptr, turned.indptr)
    assert np.array_equal(t_indices, turned.indices)
    assert np.array_equal(values[order][t_order], turned.data)
    assert np.array_equal(csr.row_of_edge(indptr), np.sort(i))


@settings(max_examples=100)
@given(rectangles(), st.booleans(), st.booleans())
def test_simplify(case: tuple[int, int, np.ndarray, np.ndarray], drop_loops: bool, merge: bool) -> None:
    rows, cols, i, j = case
    indptr, indices, _ = csr.coo_to_csr(i, j, rows, cols)
    pairs = [(int(r), int(c)) for r, c in zip(np.sort(i), indices, strict=True)]
    kept = [p for k, p in enumerate(pairs) if not (drop_loops and p[0] == p[1]) and not (merge and p in pairs[:k])]
    out_ptr, out, keep = csr.simplify(indptr, indices, drop_loops=drop_loops, merge=merge)
    assert list(zip(csr.row_of_edge(out_ptr), out, strict=True)) == kept
    assert keep.sum() == len(kept)
    assert np.array_equal(indices[keep], out)


@settings(max_examples=100)
@given(rectangles())
def test_symmetry_and_loops(case: tuple[int, int, np.ndarray, np.ndarray]) -> None:
    rows, cols, i, j = case
    n = max(rows, cols)
    weight = (i + 2 * j).astype(np.float32)
    for a, b, w in ((i, j, weight), (np.append(i, j), np.append(j, i), np.append(weight, weight))):
        indptr, indices, order = csr.coo_to_csr(a, b, n, n, with_order=True)
        counts = reference(n, n, a, b, np.ones(len(a))).toarray()
        reverse = csr.reverses(indptr, indices, with_order=True)
        assert (reverse is not None) == np.array_equal(counts, counts.T)
        assert bool(csr.has_loops(indptr, indices)) == bool((a == b).any())
        total = reference(n, n, a, b, w).toarray()
        if reverse is not None and np.array_equal(w[order], w[order][reverse]):
            assert np.array_equal(total, total.T)
        elif counts.max(initial=0) <= 1 and np.array_equal(counts, counts.T):
            assert not np.array_equal(total, total.T)


@given(st.lists(st.integers(-3, 12), max_size=20), st.integers(0, 10))
def test_first_outside_and_rises(values: list[int], bound: int) -> None:
    array = np.array(values, np.int64)
    outside = [k for k, v in enumerate(values) if not 0 <= v < bound]
    assert csr.first_outside(array, bound) == (outside[0] if outside else -1)
    pointers = np.array([0, *values, bound], np.int64)
    falls = [k for k in range(len(pointers) - 1) if pointers[k + 1] < pointers[k]]
    assert csr.rises(pointers, bound) == (not falls)
    assert not csr.rises(pointers, bound + 1)
    assert not csr.rises(pointers + 1, bound + 1)


@pytest.mark.parametrize(("nodes", "dtype"), [(0, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)])
def test_index_dtype(nodes: int, dtype: type) -> None:
    assert csr.index_dtype(nodes) is dtype


def test_the_transpose_in_plain_torch_is_the_same() -> None:
    rng = np.random.default_rng(0)
    for rows, cols, edges in ((1, 1, 0), (5, 7, 30), (40, 3, 90)):
        indptr, indices, _ = csr.coo_to_csr(rng.integers(0, rows, edges), rng.integers(0, cols, edges), rows, cols)
        mine = csr.transpose_torch(torch.from_numpy(indptr), torch.from_numpy(indices), cols)
        for tensor, array in zip(mine, csr.transpose(indptr, indices, cols, with_order=True), strict=True):
            assert np.array_equal(tensor.numpy(), array)


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_edges_by_class_against_a_count_over_the_edge_list(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = rng.integers(0, n, (2, m))
    y = rng.integers(-1, 3, n)
    indptr, indices, _ = csr.coo_to_csr(rows, cols, n, n)
    known = (y[rows] >= 0) & (y[cols] >= 0)
    inside, ends = np.zeros(3, np.int64), np.zeros(3, np.int64)
    class_edges(indptr, indices, y, inside, ends)
    assert ends.tolist() == [(known & (y[rows] == k)).sum() for k in range(3)]
    assert inside.tolist() == [(known & (y[rows] == k) & (y[cols] == k)).sum() for k in range(3)]


@given(st.integers(1, 12), st.integers(0, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_removed_labels_against_a_dense_product(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = rng.integers(0, n, (2, m))
    y, known = rng.integers(0, 3, n), rng.random(n) < 0.5
    indptr, indices, _ = csr.coo_to_csr(rows, cols, n, n)
    dense = np.zeros((n, n))
    np.add.at(dense, (rows, cols), rows != cols)
    targets = np.flatnonzero(known)
    counts = np.zeros((len(targets), 3), np.float32)
    csr.remove_labels(targets, indptr, indices, y, known, counts)
    assert np.array_equal(-counts, (dense @ (np.eye(3)[y] * known[:, None]))[targets])
