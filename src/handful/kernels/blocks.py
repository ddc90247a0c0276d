"""Products of some rows of a CSR with a matrix that is read in blocks of rows, in ascending order.

The edges are sorted by the block of their source, and within a block by row. So every block of sources is read only
once; its contributions are added to the sums of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from handful.kernels.attention import SLOPE
from handful.kernels.bfloat16 import widen
from handful.kernels.csr import Array, key_starts
from handful.kernels.threads import even_ranges, get_threads, kernel, prefetch, run

AHEAD = 8
"""The prefetch distance of rows, in edges."""


@dataclass(frozen=True)
class BlockedEdges:
    """Edges, sorted by the block of their source. Block b consists of the edges ``starts[b]`` to ``starts[b + 1] - 1``.

    ``rows`` are relative to the first row; ``columns`` are relative to the first source of the block.
    """

    starts: Array
    rows: Array
    columns: Array
    weight: Array

    def ranges(self, block: int) -> list[tuple[int, int]]:
        """Divide the edges of a block into one range per thread. No two ranges have a row in common."""
        lo, hi = int(self.starts[block]), int(self.starts[block + 1])
        rows = self.rows[lo:hi]
        cuts = [lo + a for a, _ in even_ranges(hi - lo, get_threads() if hi - lo > 5_000 else 1)] or [lo]
        cuts = [lo + int(np.searchsorted(rows, rows[cut - lo])) if hi > lo else lo for cut in cuts]
        return [(a, b) for a, b in zip(cuts, [*cuts[1:], hi], strict=True) if b > a]


@kernel
def _place(indptr: Any, indices: Any, weight: Any, shift: int, cursor: Any, rows: Any, columns: Any, out: Any) -> None:
    weighted = weight.shape[0] > 0
    for v in range(indptr.shape[0] - 1):
        for e in range(indptr[v], indptr[v + 1]):
            block = indices[e] >> shift
            at = cursor[block]
            cursor[block] = at + 1
            rows[at] = v
            columns[at] = indices[e] - (block << shift)
            if weighted:
                out[at] = weight[e]


def by_blocks(indptr: Array, indices: Array, weight: Array, num_sources: int, shift: int) -> BlockedEdges:
    """Sort the edges of a CSR by the block of their source; a block has 2^shift sources.

    Args:
        indptr, indices: a checked CSR, rows × sources.
        weight: ``(edges,)``, or empty if edges have no weights.
        num_sources: the number of sources.
        shift: source u is in block ``u >> shift``.
    """
    starts = key_starts(indices >> shift, 0, ((num_sources - 1) >> shift) + 1)
    rows, columns = np.empty(len(indices), np.int32), np.empty(len(indices), np.int32)
    out = np.empty(len(weight), weight.dtype)
    _place(indptr, indices, weight, shift, starts[:-1].copy(), rows, columns, out)
    return BlockedEdges(starts, rows, columns, out)


@kernel
def _add(lo: int, hi: int, rows: Any, columns: Any, weight: Any, right: Any, x: Any, out: Any) -> None:
    weighted, scaled, one = weight.shape[0] > 0, right.shape[0] > 0, out.dtype.type(1)
    for e in range(lo, hi):
        v, u, c = rows[e], columns[e], one
        ahead = min(e + AHEAD, hi - 1)
        for j in range(0, out.shape[1], 64 // x.itemsize):
            prefetch(x, columns[ahead], j)
            prefetch(out, rows[ahead], j)
        if weighted:
            c *= weight[e]
        if scaled:
            c *= right[u]
        for j in range(out.shape[1]):
            out[v, j] += c * widen(x[u, j])


def add_block(edges: BlockedEdges, block: int, right: Array, x: Array, out: Array) -> None:
    """Add, to each row of ``out``, the rows of its sources in one block, multiplied by ``weight`` and ``right``.

    Args:
        edges: the result of ``by_blocks``.
        block: the index of the block.
        right: ``(sources of the block,)``, or empty for ones.
        x: ``(sources of the block, F)``, as from ``bfloat16.array``.
        out: ``(rows, F)``, float32 or float64.
    """
    run(_add, edges.ranges(block), edges.rows, edges.columns, edges.weight, right, x, out)


@kernel
def _attend(
    lo: int, hi: int, rows: Any, columns: Any, shift: int, a_dst: Any, found: Any, a_src: Any, x: Any, out: Any
) -> None:
    slope = a_dst.dtype.type(SLOPE)
    for e in range(lo, hi):
        v, u = rows[e], columns[e]
        if u + shift == v:
            continue
        for h in range(out.shape[1]):
            raw = a_src[u, h] + a_dst[v, h]
            c = np.exp((raw if raw > 0 else raw * slope) - found[0, v, h]) * found[1, v, h]
            for j in range(out.shape[2]):
                out[v, h, j] += c * widen(x[u, h, j])


def attend_block(
    edges: BlockedEdges, block: int, shift: int, a_dst: Array, found: Array, a_src: Array, x: Array, out: Array
) -> None:
    """Add, to each row of ``out``, the rows of its sources in one block, weighted by attention. Self-loops are left
    out.

    Args:
        edges: the result of ``by_blocks``.
        block: the index of the block.
        shift: the first source of the block, minus the index of the first row among the sources.
        a_dst: ``(rows, heads)``, the term of each row in the scores of its edges.
        found: ``(2 or more, rows, heads)``: the largest score of each row, and 1 / Σ exp(score − largest).
        a_src: ``(sources of the block, heads)``, the term of each source in the scores of its edges.
        x: ``(sources of the block, heads, channels)``, as from ``bfloat16.array``.
        out: ``(rows, heads, channels)``.
    """
    run(_attend, edges.ranges(block), edges.rows, edges.columns, shift, a_dst, found, a_src, x, out)
