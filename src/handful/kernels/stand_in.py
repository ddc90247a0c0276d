"""Batches with stand-ins (``handful.mean_field``): the edges of a sample, renumbered, with one per stand-in; and rows
with their first hop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from handful.kernels.aggregate import Scaled, spmm
from handful.kernels.bfloat16 import array
from handful.kernels.dispatch import backend
from handful.kernels.gather import gather
from handful.kernels.threads import kernel, over_rows, prefetch

AHEAD, LINE = 8, 16
"""How many edges ahead a source's row is prefetched, and how many float32 a cache line holds."""


@kernel
def _add(lo: int, hi: int, indptr: Any, edges: Any, rows: Any, level: Any, place: Any, share: Any, out: Any) -> None:
    (begin, sources, values), (indices, weight) = edges, out
    for i in range(lo, hi):
        v, at = rows[i], indptr[i]
        if level[i] == 1:
            indices[at], weight[at] = i, 1
            continue
        for e in range(begin[v], begin[v + 1]):
            indices[at], weight[at] = place[0, sources[e]], values[e] * (1 - share[v])
            at += 1
        if at < indptr[i + 1]:
            indices[at], weight[at] = place[1, v], share[v]


def add_stand_ins(
    edges: tuple[Tensor, Tensor, Tensor], rows: Tensor, level: Tensor, targets: int, share: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``indptr``, ``indices`` and ``weight`` of the first ``targets`` rows of the batch.

    Args:
        edges: the same of the sample.
        rows: int64 ``(n,)``, the row of the sample that each row of the batch is, or stands in for the neighbours of.
        level: int64 ``(n,)``, 1 for a stand-in, which has one edge, to itself; else 0.
        targets: how many rows of the batch have edges.
        share: float ``(sample's rows,)``, of the stand-in in the row that it serves.

    >>> edges = torch.tensor([0, 1, 1]), torch.tensor([1]), torch.tensor([1.0])
    >>> share = torch.tensor([0.25, 0.0])
    >>> add_stand_ins(edges, torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1]), 2, share)
    (tensor([0, 2, 2]), tensor([1, 2]), tensor([0.7500, 0.2500]))
    """
    (begin, sources, values), device = edges, rows.device
    place = torch.full((2, int(rows.max()) + 1 if len(rows) else 0), -1, dtype=sources.dtype, device=device)
    place[level, rows] = torch.arange(len(rows), dtype=place.dtype, device=device)
    own, served = level[:targets] == 0, place[1, rows[:targets]]
    count = torch.where(own, begin.diff()[rows[:targets]], 0) + (served >= 0)
    indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    indices, weight = sources.new_empty(int(indptr[-1])), values.new_empty(int(indptr[-1]))
    if backend(device) == "numba":
        arrays = [tuple(map(array, group)) for group in (edges, (indices, weight))]
        given = rows, level, place, share.to(values.dtype)
        over_rows(_add, array(indptr), arrays[0], *map(array, given), arrays[1])
        return indptr, indices, weight
    of_edge = torch.repeat_interleave(begin.diff(), output_size=len(sources))
    shift = indptr[place[0, : len(begin) - 1].long()] - begin[:-1]
    at = torch.arange(len(sources), device=device) + shift[of_edge]
    indices[at], weight[at] = place[0, sources.long()], values * (1 - share)[of_edge]
    last = (served >= 0).nonzero().squeeze(1)
    at = indptr[last + 1] - 1
    indices[at], weight[at] = served[last], torch.where(own[last], share[rows[last]], 1.0)
    return indptr, indices, weight


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
    """[X_k ‖ X_{k+1}] of every row and its level k, from ``x`` = [X_0 ‖ X_1 ‖ …] with ``features`` columns each.

    With ``edges`` (``add_stand_ins``), rows of level 0 get the weighted sum of X_k over their edges in place of X_1. A
    stand-in's own half is X_1 of the row that it serves, so this is the sampled first hop, shrunk to the exact one.

    >>> x = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    >>> gather_hops(x, torch.tensor([1, 1]), torch.tensor([0, 1]), features=1)
    tensor([[10., 11.],
            [11., 12.]])
    """
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
