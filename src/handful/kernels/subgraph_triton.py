"""Algorithm 1 on a GPU: all parts of a partition from one pass over the edges, in Triton.

The rows are taken in the order of their parts. A row is cut into pieces of at most ``CHUNK`` edges; every piece is
counted by a program of its own, the counts are summed up, and every piece is then written where it belongs. The host
learns the sizes of all parts at once, and nothing else: it waits for the device once per epoch.

Hubs, which every part holds, have a row of their own in every part: the same two passes serve them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import CHUNK, row_of_tail
from handful.kernels.csr import starts_torch

EDGES = 128
"""How many edges of a piece are read at a time."""


@triton.jit
def _cut(indptr, indices, part, hub, node, own_part, pieces, local, at, out, edges, rows, nodes, hubs,
         HUBS: tl.constexpr, WRITE: tl.constexpr, AS_EDGES: tl.constexpr,
         CHUNK: tl.constexpr, EDGES: tl.constexpr):  # fmt: skip
    """Count the edges of a piece that stay inside its part, or write them from ``at`` on."""
    piece = tl.program_id(0).to(tl.int64)
    if piece < tl.load(pieces + rows):
        row = row_of_tail(pieces, piece, rows)
        v = tl.load(node + row)
        start = tl.load(indptr + v) + (piece - tl.load(pieces + row)) * CHUNK
        stop = tl.minimum(start + CHUNK, tl.load(indptr + v + 1))
        own = tl.load(own_part + row)
        count = start * 0
        first = tl.load(at + piece) if WRITE else count
        for lo in range(start, stop, EDGES):
            e = lo + tl.arange(0, EDGES)
            u = tl.load(indices + e, mask=e < stop, other=0).to(tl.int64)
            inside = (e < stop) & (tl.load(part + u, mask=e < stop, other=0) == own)
            number = u
            if HUBS:  # the row that a hub from another part has in this one
                rank = tl.load(hub + u, mask=e < stop, other=-1)
                number = tl.where(inside, u, nodes + own.to(tl.int64) * hubs + rank)
                inside = (e < stop) & (inside | (rank >= 0))
            one = inside.to(tl.int64)
            if WRITE:
                place = first + count + tl.cumsum(one, 0) - one
                tl.store(out + place, tl.load(local + number, mask=inside, other=0), mask=inside)
                if AS_EDGES:
                    tl.store(edges + place, e, mask=inside)
            count += tl.sum(one, 0)
        if not WRITE:
            tl.store(at + piece, count)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a CSR, each to be cut to the sources that are in its part.

    Args:
        indptr, indices: the CSR.
        node: int64 ``(rows,)``, the node whose row it is.
        own_part: int32 ``(rows,)``, the part that the row belongs to.
        used: bool ``(rows,)``; the other rows come last, and stay empty.
        part: int32 ``(N,)``, the part of every node.
        local: int32 ``(N + parts · hubs,)``, the number of every node in its own part, and then, part by part, of every
            hub in a part that is not its own.
        hub: int32 ``(N,)``, the place of every hub among the hubs, and -1 for other nodes; ``None`` without hubs.
        hubs: how many hubs there are.
    """

    indptr: Tensor
    indices: Tensor
    node: Tensor
    own_part: Tensor
    used: Tensor
    part: Tensor
    local: Tensor
    hub: Tensor | None = None
    hubs: int = 0

    def counted(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the pieces of every row start, where the edges of every piece start, and where those of every row."""
        degree = self.indptr.diff()[self.node] * self.used
        pieces = starts_torch((degree + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor"))
        # How many pieces there are is not asked. At most one for every row, and one for every full chunk of its edges:
        # the graph has these once, and hubs once more in every part.
        times = 1 + ((len(self.node) - len(self.part)) // self.hubs if self.hubs else 0)
        most = len(self.node) + times * (len(self.indices) // CHUNK)
        counts = torch.zeros(most + 1, dtype=torch.int64, device=degree.device)
        self._launch(pieces, counts[1:], None, None)
        torch.cumsum(counts, 0, out=counts)
        return pieces, counts, counts[pieces]

    def written(self, pieces: Tensor, counts: Tensor, total: int, with_edges: bool) -> tuple[Tensor, Tensor]:
        """The new numbers of the ``total`` sources that stay, row after row, and the edges that they belong to."""
        out = torch.empty(total, dtype=torch.int32, device=pieces.device)
        edges = torch.empty(total if with_edges else 0, dtype=torch.int64, device=pieces.device)
        self._launch(pieces, counts, out, edges if with_edges else None)
        return out, edges

    def _launch(self, pieces: Tensor, at: Tensor, out: Tensor | None, edges: Tensor | None) -> None:
        given = self.indptr, self.indices, self.part, self.hub, self.node, self.own_part, pieces, self.local
        sizes = len(self.node), len(self.part), self.hubs
        ways = {"HUBS": self.hub is not None, "WRITE": out is not None, "AS_EDGES": edges is not None}
        if len(self.node):
            _cut[(len(at),)](*given, at, out, edges, *sizes, **ways, CHUNK=CHUNK, EDGES=EDGES)


def parts(
    indptr: Tensor, indices: Tensor, part: Tensor, m: int, with_edges: bool = False, hubs: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The nodes of parts 0 to ``m - 1`` in turn, and the CSR of each in its own numbering, with the edges it is made of
    (empty unless asked for).

    Nodes are the part's own, ascending, then the ``hubs`` that are not its own. Both ``part`` ``(N,)``, where m and
    above is in none, and ``hubs``, ids ascending, are of the whole graph. All parts are on the device at once.
    """
    rows, start = _rows_of_parts(indptr, indices, part.to(torch.int32).clamp_max_(m), m, hubs)
    pieces, counts, row_start = rows.counted()
    firsts, ends = torch.stack([start, row_start[start]]).tolist()  # here, and nowhere else, the host waits
    out, edges = rows.written(pieces, counts, ends[m], with_edges)

    def part_csr(p: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, last, lo, hi = firsts[p], firsts[p + 1], ends[p], ends[p + 1]
        own_edges = edges[lo:hi] if with_edges else edges
        return rows.node[first:last], row_start[first : last + 1] - lo, out[lo:hi], own_edges

    return map(part_csr, range(m))


def _rows_of_parts(indptr: Tensor, indices: Tensor, part: Tensor, m: int, hubs: Tensor | None) -> tuple[_Rows, Tensor]:
    """The rows of all parts in order, and where each part's begin; those of nodes in no part come last."""
    device, n, kept = part.device, len(part), 0 if hubs is None else len(hubs)
    node = torch.arange(n, device=device)
    # Rows are sorted by 2 · part, and by one more where the node is a helper; 2m and above is in no part.
    key, hub = part * 2, None
    if hubs is not None and kept:
        hub = torch.full((n,), -1, dtype=torch.int32, device=device)
        hub[hubs] = torch.arange(kept, dtype=torch.int32, device=device)
        every = torch.arange(m, dtype=torch.int32, device=device)[:, None]
        helping = torch.where(part[hubs][None, :] == every, 2 * m, 2 * every + 1)
        node, key = torch.cat([node, hubs.repeat(m)]), torch.cat([key, helping.flatten()])
    key, order = torch.sort(key, stable=True)
    start = torch.searchsorted(key, torch.arange(0, 2 * m + 1, 2, dtype=key.dtype, device=device))
    own_part = key >> 1
    local = torch.empty(len(order), dtype=torch.int32, device=device)
    place = torch.arange(len(order), device=device) - start[own_part.to(torch.int64)]
    local[order] = place.to(torch.int32)
    rows = _Rows(indptr, indices, node[order], own_part, key < 2 * m, part, local, hub, kept)
    return rows, start


def induced(indptr: Tensor, indices: Tensor, nodes: Tensor, with_edges: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The CSR that ``nodes`` (distinct) induce, numbered in their order, and the edges it is made of if asked for.

    The host waits once, for the number of edges.
    """
    device = nodes.device
    part = torch.ones(len(indptr) - 1, dtype=torch.int32, device=device)
    part[nodes] = 0
    local = torch.empty_like(part)
    local[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=device)
    everywhere = torch.zeros(len(nodes), dtype=torch.int32, device=device)
    rows = _Rows(indptr, indices, nodes, everywhere, everywhere == 0, part, local)
    pieces, counts, row_start = rows.counted()
    out, edges = rows.written(pieces, counts, int(row_start[-1]), with_edges)
    return row_start, out, edges


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
    pieces = starts_torch((indptr.diff() + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor"))
    most = rows + len(indices) // CHUNK
    for hop in range(1, hops + 1):
        if rows:
            _mark[(most,)](indptr, indices, pieces, distance, hop, rows, CHUNK=CHUNK, EDGES=EDGES)
