"""Algorithm 1 of the paper on a GPU, in Triton: one pass over the edges gives all parts of a partition.

The rows are sorted by part. A row is split into pieces of at most ``CHUNK`` edges. A program counts the kept edges of a
piece, a cumulative sum gives the start of each piece, and then the pieces are written. The host needs only the sizes of
the parts, and reads them all at once. So the host waits for the device once per epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import CHUNK, row_of_tail
from handful.kernels.csr import starts_torch

EDGES = 128
"""The number of edges of a piece that are read at a time."""


@triton.jit
def _cut(indptr, indices, part, node, own_part, pieces, local, at, out, edges, rows,
         CHUNK: tl.constexpr, EDGES: tl.constexpr):  # fmt: skip
    """Count the edges of a piece that are inside its part.

    If ``out`` is given, write these edges to ``out`` instead, starting at ``at``.
    """
    piece = tl.program_id(0).to(tl.int64)
    if piece < tl.load(pieces + rows):
        row = row_of_tail(pieces, piece, rows)
        v = tl.load(node + row)
        start = tl.load(indptr + v) + (piece - tl.load(pieces + row)) * CHUNK
        stop = tl.minimum(start + CHUNK, tl.load(indptr + v + 1))
        own = tl.load(own_part + row)
        count = start * 0
        first = count if out is None else tl.load(at + piece)
        for lo in range(start, stop, EDGES):
            e = lo + tl.arange(0, EDGES)
            u = tl.load(indices + e, mask=e < stop, other=0).to(tl.int64)
            inside = (e < stop) & (tl.load(part + u, mask=e < stop, other=0) == own)
            one = inside.to(tl.int64)
            if out is not None:
                place = first + count + tl.cumsum(one, 0) - one
                tl.store(out + place, tl.load(local + u, mask=inside, other=0), mask=inside)
                if edges is not None:
                    tl.store(edges + place, e, mask=inside)
            count += tl.sum(one, 0)
        if out is None:
            tl.store(at + piece, count)


def _cut_rows(
    indptr: Tensor, indices: Tensor, node: Tensor, own_part: Tensor, used: Tensor, part: Tensor, local: Tensor,
    marks: Tensor, with_edges: bool,
) -> tuple[Tensor, Tensor, Tensor, list[list[int]]]:  # fmt: skip
    """Reduce each row of a CSR to the sources that are in the row's part.

    Args:
        indptr, indices: the CSR.
        node: int64 ``(rows,)``, the node of each row.
        own_part: int32 ``(rows,)``, the part of each row.
        used: bool ``(rows,)``, whether a row is used. Unused rows come last, and are empty in the result.
        part: int32 ``(N,)``, the part of every node.
        local: int32 ``(N,)``, the index of every node in its own part.
        marks: int64, indices of rows; the last index is the end of the used rows.
        with_edges: whether the result includes the indices of the edges.

    Returns:
        The start of every row, the sources as ``local`` indices, the indices of the edges, and two lists on the host:
        ``marks``, and the starts of the rows at ``marks``.
    """
    degree = indptr.diff()[node] * used
    pieces = starts_torch((degree + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor"))
    given = indptr, indices, part, node, own_part, pieces, local
    # An upper bound on the number of pieces, without a wait: one per row, and one per full chunk of edges.
    most = len(node) + len(indices) // CHUNK
    counts = torch.zeros(most + 1, dtype=torch.int64, device=degree.device)

    def launch(at: Tensor, out: Tensor | None, edges: Tensor | None) -> None:
        if len(node):
            _cut[(most,)](*given, at, out, edges, len(node), CHUNK=CHUNK, EDGES=EDGES)

    launch(counts[1:], None, None)
    torch.cumsum(counts, 0, out=counts)
    row_start = counts[pieces]
    on_host = torch.stack([marks, row_start[marks]]).tolist()  # the only place where the host waits
    out = torch.empty(on_host[1][-1], dtype=torch.int32, device=degree.device)
    edges = torch.empty(len(out) if with_edges else 0, dtype=torch.int64, device=degree.device)
    launch(counts, out, edges if with_edges else None)
    return row_start, out, edges, on_host


def parts(
    indptr: Tensor, indices: Tensor, part: Tensor, m: int, with_edges: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Iterate over the parts 0 to ``m - 1``: the nodes of the part, its CSR with new node indices from 0, and the
    indices of its edges in the graph.

    The nodes of a part are in ascending order. The indices of the edges are empty unless ``with_edges``. ``part[v]`` is
    the part of node v; a node with a value of ``m`` or more is in no part. All parts are on the device at the same
    time.
    """
    part = part.to(torch.int32).clamp_max_(m)
    own_part, order = torch.sort(part, stable=True)  # the nodes in no part come last
    start = torch.searchsorted(own_part, torch.arange(m + 1, dtype=part.dtype, device=part.device))
    local = torch.empty_like(part)
    place = torch.arange(len(part), device=part.device) - start[own_part.to(torch.int64)]
    local[order] = place.to(torch.int32)
    rows = order, own_part, own_part < m, part, local
    row_start, out, edges, (firsts, ends) = _cut_rows(indptr, indices, *rows, start, with_edges)

    def part_csr(p: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, last, lo, hi = firsts[p], firsts[p + 1], ends[p], ends[p + 1]
        return order[first:last], row_start[first : last + 1] - lo, out[lo:hi], edges[lo:hi] if with_edges else edges

    return map(part_csr, range(m))  # not a generator, which would launch kernels only after the caller has returned


def induced(indptr: Tensor, indices: Tensor, nodes: Tensor, with_edges: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The CSR of the subgraph that ``nodes`` induces, in the order of ``nodes``, and the indices of its edges.

    The nodes must be distinct. The indices of the edges are empty unless ``with_edges``. The host waits for the device
    once, for the number of edges.
    """
    part = torch.ones(len(indptr) - 1, dtype=torch.int32, device=nodes.device)
    part[nodes] = 0
    local = torch.empty_like(part)
    local[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=nodes.device)
    everywhere = torch.zeros_like(nodes, dtype=torch.int32)
    rows = nodes, everywhere, everywhere == 0, part, local
    return _cut_rows(indptr, indices, *rows, nodes.new_tensor([len(nodes)]), with_edges)[:3]


@triton.jit
def _mark(indptr, indices, pieces, distance, hop, rows, CHUNK: tl.constexpr, EDGES: tl.constexpr):
    """If the row of a piece is at distance ``hop - 1``, lower the distances of the sources in the piece to ``hop``.

    Several programs may write to the same node at once, but all of them write ``hop``.
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
    """``spread_torch`` on a GPU. The host does not wait for the device."""
    rows = len(indptr) - 1
    pieces = starts_torch((indptr.diff() + (CHUNK - 1)).div_(CHUNK, rounding_mode="floor"))
    most = rows + len(indices) // CHUNK
    for hop in range(1, hops + 1):
        if rows:
            _mark[(most,)](indptr, indices, pieces, distance, hop, rows, CHUNK=CHUNK, EDGES=EDGES)
