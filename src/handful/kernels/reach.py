"""The nodes from which some targets can be reached in a few hops, and the rows among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.bfloat16 import array
from handful.kernels.threads import even_ranges, get_threads, kernel, run

FAR = np.iinfo(np.int32).max


@kernel
def _mark(lo: int, hi: int, order: Any, hop: int, indptr: Any, indices: Any, distance: Any) -> None:
    # Threads may mark the same node at once, but all of them write the same number.
    for i in range(lo, hi):
        for e in range(indptr[order[i]], indptr[order[i] + 1]):
            u = indices[e]
            if distance[u] > hop:
                distance[u] = hop


@kernel
def _collect(hop: int, count: int, distance: Any, order: Any) -> int:
    for v in range(distance.shape[0]):
        if distance[v] == hop:
            order[count] = v
            count += 1
    return count


@kernel
def _rows(lo: int, hi: int, order: Any, indptr: Any, indices: Any, place: Any, new_indptr: Any, out: Any) -> None:
    for i in range(lo, hi):
        at = new_indptr[i] - indptr[order[i]]
        for e in range(indptr[order[i]], indptr[order[i] + 1]):
            out[at + e] = place[indices[e]]


def reach(indptr: Tensor, indices: Tensor, targets: Tensor, hops: int) -> tuple[Tensor, list[int]]:
    """All nodes from which ``targets`` can be reached in ``hops`` edges, and how many there are.

    Args:
        indptr, indices: the CSR of a square matrix.
        targets: node ids.
        hops: how many edges a path may have.

    Returns:
        The ids, nearest first, and ascending among those of the same distance; and the numbers of nodes within 0, 1, …,
        ``hops`` edges.
    """
    if indptr.device.type != "cpu":
        return reach_torch(indptr, indices, targets, hops)
    n = len(indptr) - 1
    distance, order = np.full(n, FAR, np.int32), np.empty(n, np.int64)
    distance[array(targets)] = 0
    counts = [int(_collect(0, 0, distance, order))]
    for hop in range(1, hops + 1):
        lo, hi = counts[-2] if hop > 1 else 0, counts[-1]
        ranges = [(lo + a, lo + b) for a, b in even_ranges(hi - lo, get_threads())]
        run(_mark, ranges, order, hop, array(indptr), array(indices), distance)
        counts.append(int(_collect(hop, hi, distance, order)))
    return torch.from_numpy(order[: counts[-1]]), counts


def reach_torch(indptr: Tensor, indices: Tensor, targets: Tensor, hops: int) -> tuple[Tensor, list[int]]:
    """The same in plain torch, for any device."""
    n = len(indptr) - 1
    row = torch.repeat_interleave(torch.arange(n, device=indptr.device), indptr.diff())
    known = torch.zeros(n, dtype=torch.bool, device=indptr.device)
    known[targets] = True
    shells = [known.nonzero().squeeze(1)]
    for _ in range(hops):
        seen = known.clone()
        seen[indices[known[row]].to(torch.int64)] = True
        shells.append((seen & ~known).nonzero().squeeze(1))
        known = seen
    counts = torch.tensor([len(shell) for shell in shells]).cumsum(0).tolist()
    return torch.cat(shells), [int(count) for count in counts]


def rows_among(indptr: Tensor, indices: Tensor, order: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of ``order[:count]`` as a CSR, where nodes are numbered by their places in ``order``.

    All sources of these rows must be in ``order``. The third result is the place of every node in ``order``, undefined
    for nodes that are not in it.
    """
    degree = indptr.diff()[order[:count]]
    new_indptr = torch.zeros(count + 1, dtype=torch.int64, device=indptr.device)
    torch.cumsum(degree, 0, out=new_indptr[1:])
    place = torch.empty(len(indptr) - 1, dtype=torch.int32, device=indptr.device)
    place[order] = torch.arange(len(order), dtype=torch.int32, device=indptr.device)
    if indptr.device.type == "cpu":
        out = torch.empty(int(new_indptr[-1]), dtype=torch.int32)
        ranges = even_ranges(count, get_threads())
        run(_rows, ranges, *(array(t) for t in (order, indptr, indices, place, new_indptr, out)))
    else:
        out = place[indices[edges_of_rows(indptr, order[:count], new_indptr)].to(torch.int64)]
    return new_indptr, out, place


def edges_of_rows(indptr: Tensor, rows: Tensor, new_indptr: Tensor) -> Tensor:
    """The places in a CSR of the edges of ``rows``, one row after another; ``new_indptr`` is where each row starts."""
    shift = torch.repeat_interleave(indptr[rows] - new_indptr[:-1], new_indptr.diff())
    return shift + torch.arange(len(shift), device=indptr.device)
