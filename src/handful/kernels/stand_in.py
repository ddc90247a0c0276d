"""Kernels for batches with stand-ins (``handful.mean_field``).

``add_stand_ins`` adds stand-ins to a sample and renumbers its edges. ``gather_hops`` gathers the features of the rows,
together with the features of their first hop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from handful.kernels.aggregate import Scaled, spmm
from handful.kernels.bfloat16 import array
from handful.kernels.dispatch import backend
from handful.kernels.gather import gather
from handful.kernels.sparse import is_sparse, join_rows, sum_rows, take_windows
from handful.kernels.threads import kernel, over_rows, prefetch

Edges = tuple[Tensor, Tensor, Tensor | None]
AHEAD, LINE = 8, 16
"""The prefetch distance in edges, and the number of float32 values in a cache line."""


class StandIns(NamedTuple):
    """The rows of a sample, together with their stand-ins, and the edges between them."""

    rows: Tensor
    """int64: for each new row, its row in the sample. For a stand-in, this is the row whose neighbours it replaces."""
    level: Tensor
    """int64, the level of each new row: 0 for a row of the sample, 1 for a stand-in."""
    sizes: list[int]
    """The number of input rows of layers 1, 2, …, L."""
    indptr: Tensor
    indices: Tensor
    weight: Tensor


@kernel
def _number(ends: Any, begin: Any, share: Any, rows: Any, level: Any, place: Any, indptr: Any) -> Any:
    count, sizes, edges = 0, np.empty(ends.shape[0] - 1, np.int64), 0
    for i in range(ends.shape[0] - 1, 0, -1):
        served = (ends[i + 1], ends[i]) if i + 1 < ends.shape[0] else (0, 0)
        for stands_in, lo, hi in ((0, ends[i], ends[i - 1]), (1, *served)):
            for v in range(lo, hi):
                if stands_in == 0 or share[v] > 0:
                    rows[count], level[count], place[stands_in, v] = v, stands_in, count
                    if v < share.shape[0]:  # the other rows have no edges
                        edges += 1 if stands_in else begin[v + 1] - begin[v] + (share[v] > 0)
                    count += 1
                    indptr[count] = edges
        sizes[i - 1] = count
    return sizes


@kernel
def _add(lo: int, hi: int, indptr: Any, edges: Any, rows: Any, level: Any, place: Any, scales: Any, out: Any) -> None:
    (begin, sources, values), (scale, share), (indices, weight) = edges, scales, out
    for i in range(lo, hi):
        v, at = rows[i], indptr[i]
        if level[i] == 1:
            indices[at], weight[at] = i, 1
            continue
        for e in range(begin[v], begin[v + 1]):
            indices[at] = place[0, sources[e]]
            weight[at] = scale[v] * values[e] if values.shape[0] > 0 else scale[v]
            at += 1
        if at < indptr[i + 1]:
            indices[at], weight[at] = place[1, v], share[v]


def add_stand_ins(edges: Edges, scale: Tensor, share: Tensor, ends: Sequence[int]) -> StandIns:
    """Add a stand-in for every row with a positive ``share``. The new rows are sorted by the number of layers that need
    them.

    Row v of the sample is an input of layers 1 to i, for the largest i with v < t_{i-1}. The stand-in of row v is an
    input of layers 1 to i, for the largest i with v < t_i. A row keeps its edges in the sample. If it has a stand-in,
    an edge from the stand-in is added. A stand-in has one edge, a self-loop.

    Args:
        edges: ``indptr``, ``indices`` and ``weight`` (``None`` for ones) of the first t_1 rows of the sample. The other
            rows have no edges.
        scale: float ``(t_1,)``, the factor of the edge weights of each row.
        share: float ``(t_1,)``, the weight of a row's stand-in in the aggregation of the row.
        ends: the number of sources of layer 1, t_0, and the numbers of targets of the layers, t_1, …, t_{L-1}, 0.

    >>> edges = torch.tensor([0, 1, 1]), torch.tensor([1]), torch.tensor([1.0])
    >>> result = add_stand_ins(edges, torch.tensor([0.75, 1.0]), torch.tensor([0.25, 0.0]), [2, 2, 0])
    >>> result.rows, result.level, result.sizes
    (tensor([0, 1, 0]), tensor([0, 0, 1]), [3, 2])
    >>> result.indptr, result.indices, result.weight
    (tensor([0, 2, 2]), tensor([1, 2]), tensor([0.7500, 0.2500]))
    """
    (begin, sources, values), device = edges, scale.device
    if backend(device) == "numba":
        most, place = ends[0] + ends[1], sources.new_empty((2, ends[0]))
        rows, level, indptr = begin.new_empty(most), begin.new_empty(most), begin.new_zeros(most + 1)
        given = array(begin), array(share), array(rows), array(level), array(place), array(indptr)
        sizes = _number(np.array(ends), *given).tolist()
        rows, level, indptr = rows[: sizes[0]], level[: sizes[0]], indptr[: sizes[1] + 1]
        indices, weight = sources.new_empty(int(indptr[-1])), scale.new_empty(int(indptr[-1]))
        values = scale[:0] if values is None else values
        arrays = [tuple(map(array, group)) for group in ((begin, sources, values), (scale, share), (indices, weight))]
        over_rows(_add, array(indptr), arrays[0], array(rows), array(level), array(place), *arrays[1:])
        return StandIns(rows, level, sizes, indptr, indices, weight)
    rows = torch.cat([torch.arange(ends[0], device=device), (share > 0).nonzero().squeeze(1)])
    level = (torch.arange(len(rows), device=device) >= ends[0]).long()
    until = (rows[:, None] < torch.tensor(ends, device=device)).sum(1) - level
    until, order = torch.sort(until, descending=True, stable=True)
    rows, level = rows[order], level[order]
    sizes = [int((until >= i).sum()) for i in range(1, len(ends))]
    place = torch.full((2, ends[0]), -1, dtype=sources.dtype, device=device)
    place[level, rows] = torch.arange(len(rows), dtype=place.dtype, device=device)
    own, served = level[: sizes[1]] == 0, place[1, rows[: sizes[1]]]
    count = torch.where(own, begin.diff()[rows[: sizes[1]]], 0) + (served >= 0)
    indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    indices, weight = sources.new_empty(int(indptr[-1])), scale.new_empty(int(indptr[-1]))
    of_edge = torch.repeat_interleave(begin.diff(), output_size=len(sources))
    at = torch.arange(len(sources), device=device) + (indptr[place[0, : len(begin) - 1].long()] - begin[:-1])[of_edge]
    indices[at], weight[at] = place[0, sources.long()], scale[of_edge] * (1 if values is None else values)
    last = (served >= 0).nonzero().squeeze(1)
    at = indptr[last + 1] - 1
    indices[at], weight[at] = served[last], torch.where(own[last], share[rows[last]], 1.0)
    return StandIns(rows, level, sizes, indptr, indices, weight)


@kernel
def _shrink(lo: int, hi: int, indptr: Any, indices: Any, weight: Any, level: Any, features: int, x: Any) -> None:
    last = indices.shape[0] - 1
    for i in range(lo, hi):
        if level[i] == 1:
            continue
        around = x[i, features:]
        around[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            ahead = indices[min(e + AHEAD, last)]
            for j in range(0, features, LINE):
                prefetch(x, ahead, j)
            u, c = indices[e], weight[e]
            for j in range(features):
                around[j] += c * x[u, j]


def gather_hops(
    x: Tensor, rows: Tensor, level: Tensor, features: int, edges: tuple[Tensor, Tensor, Tensor] | None = None
) -> Tensor:
    """Gather [X_k ‖ X_{k+1}] for every row of level k. ``x`` is [X_0 ‖ X_1 ‖ …]; each X_k has ``features`` columns.

    If ``edges`` from ``add_stand_ins`` are given, the second half of a row of level 0 is not X_1, but the weighted sum
    of the first halves of its sources. If the row has a stand-in, whose first half is X_1, this sum is a weighted
    average of the sampled first hop and the exact first hop X_1.

    >>> x = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    >>> gather_hops(x, torch.tensor([1, 1]), torch.tensor([0, 1]), features=1)
    tensor([[10., 11.],
            [11., 12.]])
    """
    if is_sparse(x):
        return _sparse_hops(x, rows, level, features, edges)
    hops = x.shape[1] // features
    pairs = x.as_strided((max(0, len(x) * hops - 1), 2 * features), (features, 1))
    out = gather(pairs, rows * hops + level)
    if edges is None:
        return out
    if backend(x.device) == "numba" and x.dtype in (torch.float32, torch.float64):
        indptr, indices, weight = map(array, edges)
        over_rows(_shrink, indptr, indices, weight, array(level), features, array(out))
        return out
    count = len(edges[0]) - 1
    around, shrunk = out[:count, features:], spmm(Scaled(*edges), out[:, :features]).to(x.dtype)
    around.copy_(torch.where(level[:count, None] == 0, shrunk, around))
    return out


def _sparse_hops(
    x: Tensor, rows: Tensor, level: Tensor, features: int, edges: tuple[Tensor, Tensor, Tensor] | None
) -> Tensor:
    """``gather_hops`` for sparse ``x``."""
    first = level * features
    if edges is None:
        return take_windows(x, rows, first, 2 * features)
    indptr, indices, weight = edges
    sampled = level == 0
    sampled[len(indptr) - 1 :] = False
    count = indptr.diff()
    inner = torch.repeat_interleave(sampled[: len(count)], count)
    indptr = torch.cat([indptr[:1], (count * sampled[: len(count)]).cumsum(0)])
    indptr = torch.cat([indptr, indptr[-1:].expand(len(rows) + 1 - len(indptr))])
    near = sum_rows(indptr, indices[inner], weight[inner], take_windows(x, rows, first, features))
    # A row of level 0 has its sum instead of X_1.
    ends = torch.where(sampled, features, first + 2 * features)
    return join_rows(take_windows(x, rows, first, 2 * features, ends), near, features, 2 * features)
