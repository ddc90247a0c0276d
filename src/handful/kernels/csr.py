"""Compressed sparse rows (CSR). Rows are targets, and columns are sources. Columns are sorted within a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.threads import kernel

Array = np.ndarray
Edges = tuple[Array, Array, Array]
"""``indptr``, ``indices``, and one value per edge; the third array may be empty."""
_NONE = np.empty(0, np.int64)


def index_dtype(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """The dtype of node ids: int32 if every id fits, else int64."""
    return np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64


def starts(sizes: Array) -> Array:
    """The start of each of n consecutive pieces with these sizes, and the end of the last piece, int64 ``(n + 1,)``.

    >>> starts(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    out = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def starts_torch(sizes: Tensor) -> Tensor:
    """``starts`` in plain torch, for any device."""
    return torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


@kernel
def _count(keys: Any, base: int, indptr: Any) -> None:
    for i in range(keys.shape[0]):
        indptr[keys[i] - base + 1] += 1
    for v in range(indptr.shape[0] - 1):
        indptr[v + 1] += indptr[v]


@kernel
def _scatter(indptr: Any, keys: Any, values: Any, base: int, cursor: Any, out: Any, order: Any) -> None:
    """Write each entry of ``values``, or its row if ``values`` is ``None``, at the cursor of its key."""
    keep_order = order.shape[0] > 0
    for v in range(indptr.shape[0] - 1):
        for e in range(np.uint64(indptr[v]), np.uint64(indptr[v + 1])):  # unsigned: an index cannot be negative
            at = cursor[keys[e] - base]
            cursor[keys[e] - base] = at + 1
            out[at] = v if values is None else values[e]  # known when this is compiled
            if keep_order:
                order[at] = e


def coo_to_csr(rows: Array, cols: Array, num_rows: int, num_cols: int, with_order: bool = False) -> Edges:
    """Sort edges by (row, col), and return ``indptr``, ``indices`` and each edge's index in the input.

    The third array is empty unless ``with_order``. Two stable counting sorts are used: by column, then by row. The ids
    are not checked.
    """
    col_rows = np.empty(len(cols), index_dtype(num_rows))
    first = np.empty(len(cols) if with_order else 0, np.int64)
    by_col = counting_sort(cols, rows, 0, num_cols, col_rows, first)
    indptr, indices, second = transpose(by_col, col_rows, num_rows, with_order)
    return indptr, indices, first[second] if with_order else second


def key_starts(keys: Array, base: int, num_keys: int) -> Array:
    """Where each key starts after a sort by key, int64 ``(num_keys + 1,)``. The smallest possible key is ``base``."""
    indptr = np.zeros(num_keys + 1, np.int64)
    _count(keys, base, indptr)
    return indptr


def counting_sort(keys: Array, values: Array, base: int, num_keys: int, out: Array, order: Array = _NONE) -> Array:
    """Write ``values`` to ``out``, sorted by key with a stable sort. Return the start of each key's values.

    Args:
        keys: from ``base`` to ``base + num_keys - 1``; this is not checked.
        values: one value for each key.
        base, num_keys: the smallest key, and the number of possible keys.
        out: the output for the sorted values.
        order: an int64 output for the original index of each value; ignored if it is empty.
    """
    indptr = key_starts(keys, base, num_keys)
    _scatter(np.array([0, len(keys)]), keys, values, base, indptr[:-1].copy(), out, order)
    return indptr


def transpose(indptr: Array, indices: Array, num_cols: int, with_order: bool = False) -> Edges:
    """The CSR of the reversed edges, with sorted rows, and each edge's index in the input.

    The third array is empty unless ``with_order``.
    """
    t_indptr = key_starts(indices, 0, num_cols)
    out = np.empty(len(indices), index_dtype(len(indptr) - 1))
    order = np.empty(len(indices) if with_order else 0, np.int64)
    _scatter(indptr, indices, None, 0, t_indptr[:-1].copy(), out, order)
    return t_indptr, out, order


def transpose_torch(indptr: Tensor, indices: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """``transpose`` with ``with_order``, in plain torch, for any device. The host does not wait for the device."""
    by_source, order = torch.sort(indices, stable=True)
    columns = torch.arange(num_cols + 1, device=indices.device, dtype=indices.dtype)
    rows = torch.searchsorted(indptr, order, right=True, out_int32=indices.dtype == torch.int32) - 1
    return torch.searchsorted(by_source, columns), rows, order


def simplify(indptr: Array, indices: Array, *, drop_loops: bool, merge: bool) -> Edges:
    """Drop self-loops and merge repeated edges in a CSR with sorted rows. Also return a mask of the kept edges."""
    rows, keep = row_of_edge(indptr), np.ones(len(indices), np.bool_)
    if merge:
        keep[1:] = (np.diff(indices) != 0) | (np.diff(rows) != 0)
    if drop_loops:
        keep &= indices != rows
    return starts(keep)[indptr], indices[keep], keep


def rises(indptr: Array, edges: int) -> bool:
    """Whether ``indptr``, which is not empty, rises from 0 to ``edges``."""
    return bool(indptr[0] == 0 and indptr[-1] == edges and (indptr[:-1] <= indptr[1:]).all())


@kernel
def first_outside(indices: Any, bound: int) -> int:
    """The index of the first value outside ``[0, bound)``; -1 if there is none."""
    for i in range(indices.shape[0]):
        if indices[i] < 0 or indices[i] >= bound:
            return i
    return -1


def reverses(indptr: Array, indices: Array, with_order: bool = False) -> Array | None:
    """For each edge of a CSR with sorted rows, the index of the reverse edge.

    The whole result is ``None`` if the edges are not symmetric. It is an empty array if they are symmetric and
    ``with_order`` is false.

    >>> reverses(np.array([0, 1, 2]), np.array([1, 0], np.int32), with_order=True)
    array([1, 0])
    """
    t_indptr, t_indices, order = transpose(indptr, indices, len(indptr) - 1, with_order)
    return order if np.array_equal(indptr, t_indptr) and np.array_equal(indices, t_indices) else None


@kernel
def has_loops(indptr: Any, indices: Any) -> bool:
    """Whether any row contains its own index."""
    for v in range(indptr.shape[0] - 1):
        for e in range(indptr[v], indptr[v + 1]):
            if indices[e] == v:
                return True
    return False


def row_of_edge(indptr: Array) -> Array:
    """The row index of every edge."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


@kernel
def class_edges(indptr: Any, indices: Any, y: Any, inside: Any, ends: Any) -> None:
    """Count edges by the class of their target. Add edges within a class to ``inside``, and all edges between nodes
    with known labels to ``ends``.
    """
    for v in range(indptr.shape[0] - 1):
        if y[v] < 0:
            continue
        for e in range(indptr[v], indptr[v + 1]):
            other = y[indices[e]]
            ends[y[v]] += other >= 0
            inside[y[v]] += other == y[v]


@kernel
def remove_labels(targets: Any, indptr: Any, indices: Any, y: Any, known: Any, counts: Any) -> None:
    """For every target, subtract its neighbours of a ``known`` class from its row of ``counts``, one by one. Self-loops
    do not count.
    """
    for i in range(targets.shape[0]):
        v = targets[i]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if known[u] and u != v:
                counts[i, y[u]] -= 1
