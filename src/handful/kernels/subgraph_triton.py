"""Algorithm 1 on a GPU: all parts of a partition from one pass over the edges, in Triton.

The rows are taken in the order of their parts. A row is cut into pieces of at most ``CHUNK`` edges; every piece is
counted by a program of its own, the counts are summed up, and every piece is then written where it belongs. The host
learns the sizes of the parts, once per epoch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import CHUNK, row_of_tail

EDGES = 128
"""How many edges of a piece are read at a time."""


@triton.jit
def _cut(indptr, indices, part, order, pieces, local, at, out, edges, rows,
         WRITE: tl.constexpr, AS_EDGES: tl.constexpr, CHUNK: tl.constexpr, EDGES: tl.constexpr):  # fmt: skip
    """Count the edges of a piece that stay inside its part, or write them from ``at`` on."""
    piece = tl.program_id(0).to(tl.int64)
    if piece < tl.load(pieces + rows):
        row = row_of_tail(pieces, piece, rows)
        v = tl.load(order + row)
        start = tl.load(indptr + v) + (piece - tl.load(pieces + row)) * CHUNK
        stop = tl.minimum(start + CHUNK, tl.load(indptr + v + 1))
        own = tl.load(part + v)
        count = start * 0
        first = tl.load(at + piece) if WRITE else count
        for lo in range(start, stop, EDGES):
            e = lo + tl.arange(0, EDGES)
            u = tl.load(indices + e, mask=e < stop, other=0).to(tl.int64)
            inside = (e < stop) & (tl.load(part + u, mask=e < stop, other=0) == own)
            one = inside.to(tl.int64)
            if WRITE:
                place = first + count + tl.cumsum(one, 0) - one
                tl.store(out + place, tl.load(local + u, mask=inside, other=0), mask=inside)
                if AS_EDGES:
                    tl.store(edges + place, e, mask=inside)
            count += tl.sum(one, 0)
        if not WRITE:
            tl.store(at + piece, count)


def parts(
    indptr: Tensor, indices: Tensor, part: Tensor, m: int, with_edges: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The nodes of parts 0 to ``m - 1`` in turn, ascending, and the CSR of each in its own numbering, with the edges it
    is made of (empty unless asked for); ``part`` ``(N,)``, where nodes of part ``m`` and above are in none."""
    n, device = len(part), part.device
    part = part.to(torch.int32)
    order = torch.argsort(part, stable=True)
    size = torch.bincount(part.clamp_max(m), minlength=m + 1)
    start = torch.zeros(m + 1, dtype=torch.int64, device=device)
    torch.cumsum(size[:m], 0, out=start[1:])
    local = torch.empty(n, dtype=torch.int32, device=device)
    local[order] = (torch.arange(n, device=device) - start[part[order].clamp_max(m).to(torch.int64)]).to(torch.int32)
    pieces = torch.zeros(n + 1, dtype=torch.int64, device=device)
    chunks = (indptr.diff()[order] + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor").clamp_min_(1)
    torch.cumsum(chunks, 0, out=pieces[1:])
    most = n + len(indices) // CHUNK
    counts = torch.zeros(most + 1, dtype=torch.int64, device=device)
    given = indptr, indices, part, order, pieces, local
    tile = {"CHUNK": CHUNK, "EDGES": EDGES}
    if n:
        _cut[(most,)](*given, counts[1:], None, None, n, WRITE=False, AS_EDGES=False, **tile)
    torch.cumsum(counts, 0, out=counts)
    row_start = counts[pieces]
    rows, ends = torch.stack([start, row_start[start]]).tolist()
    total = ends[m]
    out = torch.empty(total, dtype=torch.int32, device=device)
    edges = torch.empty(total if with_edges else 0, dtype=torch.int64, device=device)
    # The pieces of the nodes that are in no part come last; they are neither written nor counted above.
    if rows[m]:
        _cut[(most,)](*given, counts, out, edges, rows[m], WRITE=True, AS_EDGES=with_edges, **tile)
    for p in range(m):
        lo, hi = ends[p], ends[p + 1]
        nodes = order[rows[p] : rows[p + 1]]
        yield nodes, row_start[rows[p] : rows[p + 1] + 1] - lo, out[lo:hi], edges[lo:hi] if with_edges else edges
