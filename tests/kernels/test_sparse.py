"""Sparse features: every function against the same operation on the dense rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from torch import Tensor

from handful.kernels.gather import gather, rows_between
from handful.kernels.sparse import (
    arrays_of,
    dense,
    from_scipy,
    is_sparse,
    join_rows,
    permuted,
    scipy_rows,
    sparse_rows,
    sum_rows,
    take_columns,
    take_rows,
    take_windows,
    with_means,
)


def some_rows(rows: int, width: int, seed: int = 0, repeats: bool = True) -> Tensor:
    """Random sparse rows of small whole numbers, some of them empty; a column may occur twice in a row."""
    rng = np.random.default_rng(seed)
    count = rng.integers(0, 1 + 3 * (width > 0), rows)
    columns = rng.integers(0, max(1, width), count.sum())
    made = sparse_rows(
        torch.from_numpy(np.append(0, count.cumsum())),
        torch.from_numpy(columns.astype(np.int32)),
        torch.from_numpy(rng.integers(-3, 4, count.sum()).astype(np.float32)),
        width=width,
    )
    return made if repeats else from_scipy(scipy_rows(made))


def valid(x: Tensor) -> Tensor:
    """The dense rows, if the arrays are those of a CSR tensor that torch accepts (apart from repeated columns)."""
    indptr, columns, values = arrays_of(x)
    assert indptr[0] == 0
    assert indptr[-1] == len(columns) == len(values)
    assert bool((indptr.diff() >= 0).all())
    assert indptr.dtype == columns.dtype == torch.int32
    assert not len(columns) or (columns.min() >= 0 and columns.max() < x.shape[1])
    return dense(x)


sizes = st.tuples(st.integers(0, 7), st.integers(1, 6), st.integers(0, 99))


@given(sizes, st.data())
def test_rows_and_columns_are_those_of_the_dense_rows(size: tuple[int, int, int], data: st.DataObject) -> None:
    rows = size[0]
    x = some_rows(*size)
    full = dense(x)
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), max_size=9)) if rows else [], dtype=torch.int64)
    assert torch.equal(valid(take_rows(x, chosen)), full[chosen])
    assert torch.equal(valid(gather(x, chosen)), full[chosen])
    lo = data.draw(st.integers(0, rows))
    hi = data.draw(st.integers(lo, rows))
    assert torch.equal(dense(rows_between(x, lo, hi)), full[lo:hi])


@given(sizes, st.data())
def test_columns_are_those_of_the_dense_rows(size: tuple[int, int, int], data: st.DataObject) -> None:
    rows, width, _ = size
    x = from_scipy(scipy_rows(some_rows(*size)))
    full = dense(x)
    first = data.draw(st.integers(0, width))
    count = data.draw(st.integers(0, width - first))
    assert torch.equal(valid(take_columns(x, first, count)), full[:, first : first + count])
    assert torch.equal(take_columns(full, first, count), full[:, first : first + count])
    chosen = data.draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, width)), max_size=9)) if rows else []
    windows = torch.zeros(len(chosen), count)
    for i, (row, begin) in enumerate(chosen):
        windows[i, : width - begin] = full[row, begin : begin + count]
    places = torch.tensor(chosen, dtype=torch.int64).reshape(-1, 2).T
    assert torch.equal(valid(take_windows(x, *places, count)), windows)
    end = data.draw(st.integers(0, width))
    windows[torch.arange(count) + places[1][:, None] >= end] = 0
    ends = torch.maximum(places[1], torch.full_like(places[1], end))
    assert torch.equal(valid(take_windows(x, *places, count, torch.minimum(ends, places[1] + count))), windows)


@given(sizes, sizes, st.integers(0, 9))
def test_joined_rows_are_a_sum(size: tuple[int, int, int], other: tuple[int, int, int], shift: int) -> None:
    a, b = some_rows(*size), some_rows(size[0], *other[1:])
    width = max(a.shape[1], b.shape[1] + shift)
    wanted = torch.zeros(size[0], width)
    wanted[:, : a.shape[1]] += dense(a)
    wanted[:, shift : shift + b.shape[1]] += dense(b)
    assert torch.equal(valid(join_rows(a, b, shift, width)), wanted)


@given(sizes, st.integers(0, 5), st.integers(0, 5))
def test_permuted_columns_and_means(size: tuple[int, int, int], first: int, count: int) -> None:
    x = some_rows(*size)
    first = min(first, size[1])
    count = min(count, size[1] - first)
    own, order = slice(first, first + count), torch.randperm(size[0], generator=torch.Generator().manual_seed(size[2]))
    wanted = dense(x).clone()
    wanted[:, own] = wanted[order, own]
    for given_x in (x, dense(x)):
        before = dense(given_x).clone()
        made = permuted(given_x, order, first, count)
        assert torch.equal(valid(made) if is_sparse(given_x) else made, wanted)
        for row in range(size[0]):
            made = with_means(given_x, row, first, count)
            assert is_sparse(made) == is_sparse(given_x)
            means = before.clone()
            means[row, own] = before[:, own].mean(0)
            torch.testing.assert_close(dense(made), means)
        assert torch.equal(dense(given_x), before)


@given(sizes, st.integers(0, 5), st.integers(0, 99))
def test_a_sum_over_neighbours_is_a_product(size: tuple[int, int, int], targets: int, seed: int) -> None:
    x = some_rows(*size)
    matrix = csr_array(random_array((targets, size[0]), density=0.4, rng=seed).astype(np.float32))
    indptr, sources, weight = (torch.from_numpy(a) for a in (matrix.indptr, matrix.indices, matrix.data))
    wanted = torch.from_numpy(matrix.toarray()) @ dense(x)
    torch.testing.assert_close(valid(sum_rows(indptr, sources, weight, x)), wanted)


@pytest.mark.parametrize("repeats", [False, True])
def test_scipy_and_back(repeats: bool) -> None:
    x = some_rows(40, 9, repeats=repeats)
    matrix = scipy_rows(x)
    assert np.array_equal(matrix.toarray(), dense(x).numpy())
    assert matrix.has_canonical_format
    assert torch.equal(valid(from_scipy(matrix)), dense(x))
    matrix.data[:] = 0  # a copy
    assert bool(dense(x).any())
    assert is_sparse(x)
    assert not is_sparse(dense(x))


def test_a_row_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IndexError):
        take_rows(some_rows(4, 3), torch.tensor([4]))
