"""``reach`` in Triton, for GPUs: how far every node is from the targets."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import CHUNK, row_of_tail

EDGES = 128
"""How many edges of a piece are read at a time."""


@triton.jit
def _mark(indptr, indices, pieces, distance, hop, rows, CHUNK: tl.constexpr, EDGES: tl.constexpr):
    """Set the distance of the sources of a piece of a row to ``hop``, if the row is one hop nearer and they are not.

    Programs may mark the same node at once, but all of them write the same number, and none that is read as nearer.
    """
    piece = tl.program_id(0).to(tl.int64)
    if piece < tl.load(pieces + rows):
        v = row_of_tail(pieces, piece, rows)
        if tl.load(distance + v) == hop - 1:
            start = tl.load(indptr + v) + (piece - tl.load(pieces + v)) * CHUNK
            stop = tl.minimum(start + CHUNK, tl.load(indptr + v + 1))
            for lo in range(start, stop, EDGES):
                e = lo + tl.arange(0, EDGES)
                u = tl.load(indices + e, mask=e < stop, other=0).to(tl.int64)
                far = (e < stop) & (tl.load(distance + u, mask=e < stop, other=0) > hop)
                tl.store(distance + u, u.to(tl.int32) * 0 + hop, mask=far)


def spread(indptr: Tensor, indices: Tensor, distance: Tensor, hops: int) -> None:
    """``spread_torch`` on a GPU; the host waits for nothing."""
    rows = len(indptr) - 1
    pieces = torch.zeros_like(indptr)
    torch.cumsum((indptr.diff() + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor"), 0, out=pieces[1:])
    most = rows + len(indices) // CHUNK
    for hop in range(1, hops + 1):
        if rows:
            _mark[(most,)](indptr, indices, pieces, distance, hop, rows, CHUNK=CHUNK, EDGES=EDGES)
