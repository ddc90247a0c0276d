"""Sparse features: a sparse CSR tensor of torch, ``(N, F)``, with a row for each node, such as its hashed words.

A column may occur several times in a row; its values are then added. So rows can be joined and added without sorting.
torch cannot index its sparse tensors: the functions of this module do, on any device.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")


def is_sparse(x: Tensor) -> bool:
    """Whether ``x`` is a sparse CSR tensor."""
    return x.layout == torch.sparse_csr


def dense(x: Tensor) -> Tensor:
    """``x`` with all its zeros.

    >>> dense(sparse_rows(torch.tensor([0, 2]), torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), width=3))
    tensor([[0., 5., 0.]])
    """
    return x.to_dense() if is_sparse(x) else x


def sparse_rows(indptr: Tensor, columns: Tensor, values: Tensor, *, width: int) -> Tensor:
    """Rows of ``width`` columns. The arrays are not checked."""
    if len(columns) > torch.iinfo(columns.dtype).max:
        columns = columns.long()
    size = len(indptr) - 1, width
    return torch.sparse_csr_tensor(indptr.to(columns.dtype), columns, values, size, check_invariants=False)


def arrays_of(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The start of each row, the columns and the values of sparse rows."""
    return x.crow_indices(), x.col_indices(), x.values()


def from_scipy(matrix: Any) -> Tensor:
    """Convert a sparse matrix of SciPy to float32 rows, whose columns ascend and whose stored values are not 0. The
    matrix itself does not change.

    Raises:
        ValueError, TypeError: the matrix is not valid, or its values are not real numbers.
    """
    from scipy.sparse import coo_array, csr_array

    if len(matrix.shape) != 2:
        raise ValueError(f"it has {len(matrix.shape)} dimensions, and features have 2")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"its values are {matrix.dtype}, not real numbers")
    # The conversions of SciPy do not check their arrays.
    if getattr(matrix, "format", "") == "coo":
        matrix = coo_array((matrix.data, (matrix.row, matrix.col)), shape=matrix.shape)
    elif hasattr(matrix, "check_format"):
        if {matrix.indptr.dtype.kind, matrix.indices.dtype.kind} - {*"iu"}:
            raise TypeError("its indices are not whole numbers")
        matrix.check_format(full_check=True)
    csr = matrix.tocsr()
    csr = csr_array((csr.data.astype(np.float32, copy=False), csr.indices, csr.indptr), shape=csr.shape)
    if not (csr.has_canonical_format and csr.data.all()):
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    columns = csr.indices.astype(np.int32 if max(csr.nnz, csr.shape[1]) < 2**31 else np.int64, copy=False)
    return sparse_rows(*map(torch.from_numpy, (csr.indptr, columns, csr.data)), width=csr.shape[1])


def scipy_rows(x: Tensor) -> Any:
    """Convert sparse rows to a ``csr_array`` of SciPy, whose columns ascend within a row."""
    from scipy.sparse import csr_array

    indptr, columns, values = (array.cpu().numpy() for array in arrays_of(x))
    result = csr_array((values, columns, indptr), shape=tuple(x.shape), copy=True)
    result.sum_duplicates()
    return result


def bytes_of(x: Tensor) -> int:
    """The size of dense or sparse ``x`` in bytes. (``nbytes`` of a sparse tensor counts its zeros.)"""
    return sum(array.nbytes for array in arrays_of(x)) if is_sparse(x) else x.nbytes


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``, for int64 ``rows``; torch raises an error if a row does not exist."""
    indptr = x.crow_indices()
    return _take(x, indptr[:-1][rows], indptr[1:][rows], None, x.shape[1])


def take_columns(x: Tensor, first: int, width: int) -> Tensor:
    """The columns ``first`` to ``first + width - 1``, as ``take_windows``."""
    if not is_sparse(x):
        return x[:, first : first + width]
    if width == x.shape[1]:
        return x
    rows = torch.arange(len(x), device=x.device)
    return take_windows(x, rows, torch.full_like(rows, first), width)


def take_windows(x: Tensor, rows: Tensor, first: Tensor, width: int, ends: Tensor | None = None) -> Tensor:
    """For row i of the result, the columns ``first[i]`` to ``first[i] + width - 1`` of row ``rows[i]`` of sparse ``x``.

    If ``ends`` is given, only the columns before ``ends[i]`` are taken; the others are 0. In every row of ``x``, the
    entries must be in the order of the windows, such as in ascending order.
    """
    begin, ends = first_entry(x, rows, first), first + width if ends is None else ends
    return _take(x, begin, first_entry(x, rows, ends), first, width)


def first_entry(x: Tensor, rows: Tensor, column: Tensor) -> Tensor:
    """For each of ``rows``, the first entry whose column is not before ``column``, by binary search."""
    indptr, columns, _ = arrays_of(x)
    low, high = indptr[:-1][rows].long(), indptr[1:][rows].long()
    while bool((low < high).any()):
        middle = (low + high) // 2
        before = (low < high) & (columns[middle.clamp_max(len(columns) - 1)] < column)
        low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
    return low


def _take(x: Tensor, begin: Tensor, end: Tensor, shift: Tensor | None, width: int) -> Tensor:
    """Rows of ``width`` columns: row i has the entries ``begin[i]`` to ``end[i] - 1`` of ``x``, ``shift[i]`` columns to
    the left.
    """
    _, columns, values = arrays_of(x)
    count = (end - begin).long()
    starts = _starts(count)
    at = _entries(begin - starts[:-1], count)
    columns = columns[at]
    if shift is not None:
        columns -= torch.repeat_interleave(shift.to(columns.dtype), count)
    return sparse_rows(starts, columns, values[at], width=width)


def join_rows(a: Tensor, b: Tensor, shift: int, width: int) -> Tensor:
    """Rows with the values of ``a`` and, ``shift`` columns to the right, the values of ``b``.

    >>> one = sparse_rows(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([7.0]), width=2)
    >>> dense(join_rows(one, one, 2, 4)), dense(join_rows(one, one, 0, 2))
    (tensor([[7., 0., 7., 0.]]), tensor([[14.,  0.]]))
    """
    (of_a, *first), (of_b, *second) = arrays_of(a), arrays_of(b)
    at = torch.cat([_entries(of_b[:-1], of_a.diff()), _entries(of_a[1:], of_b.diff())])
    columns, values = torch.cat([first[0], second[0] + shift]), torch.cat([first[1], second[1]])
    order = torch.empty_like(at)
    order[at] = torch.arange(len(at), device=at.device)
    return sparse_rows(of_a + of_b, columns[order], values[order], width=width)


def permuted(x: Tensor, order: Tensor, first: int, width: int) -> Tensor:
    """``x``, whose columns from ``first`` to ``first + width - 1`` have their rows in the order ``order``."""
    from scipy.sparse import hstack

    own = slice(first, first + width)
    if is_sparse(x):
        rows = scipy_rows(x)
        return from_scipy(hstack([rows[:, :first], rows[order.numpy()][:, own], rows[:, first + width :]]))
    x = x.clone()
    x[:, own] = x[order, own]
    return x


def with_means(x: Tensor, row: int, first: int, width: int) -> Tensor:
    """``x`` with the means of the columns from ``first`` to ``first + width - 1`` in the row ``row``."""
    own = slice(first, first + width)
    if is_sparse(x):
        rows = scipy_rows(x).tolil()
        rows[row, own] = scipy_rows(x).astype(np.float64).mean(0)[own]
        return from_scipy(rows)
    x = x.clone()
    x[row, own] = x[:, own].float().mean(0).to(x.dtype)
    return x


def variances(x: Tensor) -> Tensor:
    """The variance of each column, float64 ``(F,)``."""
    if not is_sparse(x):
        return x.double().var(0, correction=0)
    rows = scipy_rows(x).astype(np.float64)
    return torch.from_numpy(rows.power(2).mean(0) - rows.mean(0) ** 2)


def sum_rows(indptr: Tensor, sources: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    """A · x, for the CSR matrix A with the rows ``indptr``, the columns ``sources`` and the values ``weight``."""
    begin, columns, values = arrays_of(take_rows(x, sources.long()))
    return sparse_rows(begin[indptr], columns, values * torch.repeat_interleave(weight, begin.diff()), width=x.shape[1])


def _starts(count: Tensor) -> Tensor:
    """0, followed by the cumulative sums of ``count``."""
    return torch.cat([count.new_zeros(1, dtype=torch.int64), count.cumsum(0)])


def _entries(shift: Tensor, count: Tensor) -> Tensor:
    """The numbers 0, 1, …, each plus the ``shift`` of its row; row v has ``count[v]`` numbers."""
    result = torch.repeat_interleave(shift.long(), count)
    return result.add_(torch.arange(len(result), device=result.device))
