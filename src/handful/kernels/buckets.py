"""The two passes of sorting edges on disk: first distribute the edges to buckets of rows; then sort the edges of each
bucket by row and by source.

A *record* is two integers: target and source.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.csr import Array, counting_sort, starts
from handful.kernels.hashing import mix
from handful.kernels.threads import even_ranges, get_threads, kernel, over_rows, run


@kernel
def _count(lo: int, hi: int, rows: Any, cols: Any, bound: int, base: int, shift: int, buckets: int, both: bool) -> Any:
    """The number of records in each bucket, for edges ``lo`` to ``hi - 1``.

    The last entry is 1 plus the index of the first invalid edge, or 0 if all edges are valid.
    """
    counts = np.zeros(buckets + 1, np.int64)
    for i in range(lo, hi):
        v, u = rows[i], cols[i]
        if v < 0 or v >= bound or u < 0 or u >= bound:
            counts[buckets] = i + 1
            return counts
        counts[(v - base) >> shift] += 1
        if both:
            counts[(u - base) >> shift] += 1
    return counts


@kernel
def _scatter(lo: int, hi: int, cursor: Any, rows: Any, cols: Any, base: int, shift: int, both: bool, out: Any) -> None:
    """Write the records of edges ``lo`` to ``hi - 1`` at the cursors of the buckets."""
    for i in range(lo, hi):
        v, u = rows[i], cols[i]
        for turn in range(2 if both else 1):
            row, column = (v, u) if turn == 0 else (u, v)
            bucket = (row - base) >> shift
            at = cursor[bucket]
            cursor[bucket] = at + 1
            out[at, 0], out[at, 1] = row, column


def in_buckets(
    rows: Array, columns: Array, bound: int, base: int, shift: int, buckets: int, both: bool
) -> tuple[Array, Array, int]:
    """Make the records of edges, sorted by bucket; within a bucket, the order of the edges is kept.

    Args:
        rows, columns: integers ``(edges,)``, targets and sources. The function checks that all ids are from 0 to
            ``bound - 1``.
        bound: the number of nodes.
        base, shift, buckets: row v belongs to bucket ``(v - base) >> shift``; the caller ensures that this bucket
            exists.
        both: whether each edge also gives a record for its reverse.

    Returns:
        The records, ``(records, 2)``, with the dtype of ``rows``; the start of each bucket, ``(buckets + 1,)``; and
        the index of the first invalid edge, or -1 if all edges are valid. If an edge is invalid, there are no records.
    """
    ranges = even_ranges(len(rows), get_threads() if len(rows) > 20_000 else 1) or [(0, 0)]
    counted = np.array(run(_count, ranges, rows, columns, bound, base, shift, buckets, both))
    bad, counts = counted[:, -1], counted[:, :-1]
    if bad.any():
        return np.empty((0, 2), rows.dtype), np.zeros(buckets + 1, np.int64), int(bad[bad > 0].min()) - 1
    # In each bucket, a piece writes behind the earlier pieces, so the order of the edges stays.
    first = starts(counts.sum(axis=0))
    cursor = first[:-1] + np.cumsum(counts, axis=0) - counts
    out = np.empty((int(first[-1]), 2), rows.dtype)
    pieces = [(*ends, own) for ends, own in zip(ranges, cursor, strict=True)]
    run(_scatter, pieces, rows, columns, base, shift, both, out)
    return out, first, -1


@kernel
def _imbalance(lo: int, hi: int, rows: Any, columns: Any, key: Any) -> Any:
    total = np.uint64(0)
    for i in range(lo, hi):
        total += mix(mix(key, rows[i]), columns[i]) - mix(mix(key, columns[i]), rows[i])
    return total


def imbalance(rows: Array, columns: Array, key: int) -> int:
    """The sum of a hash over all edges, minus the sum over their reverses, modulo 2⁶⁴.

    Edges can be processed in blocks: the results of the blocks are added. The result is 0 if every edge occurs as
    often as its reverse. Otherwise the result is 0 for about one key in 2⁶⁴.
    """
    ranges = even_ranges(len(rows), get_threads() if len(rows) > 20_000 else 1)
    return sum(int(one) for one in run(_imbalance, ranges, rows, columns, np.uint64(key))) % 2**64


@kernel
def _sort_rows(lo: int, hi: int, indptr: Any, indices: Any) -> None:
    for v in range(lo, hi):
        indices[indptr[v] : indptr[v + 1]].sort()


@kernel
def _keep(indptr: Any, indices: Any, base: int, loops: bool, repeated: bool, kept: Any) -> int:
    """Move the kept sources to the front of ``indices``, write the number of kept sources per row to ``kept``, and
    return the total.
    """
    end = 0
    for v in range(kept.shape[0]):
        begin = end
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if (repeated or end == begin or u != indices[end - 1]) and (loops or u != base + v):
                indices[end] = u
                end += 1
        kept[v] = end - begin
    return end


def sorted_rows(records: Array, base: int, rows: int, loops: bool, repeated: bool) -> tuple[Array, Array]:
    """The number of sources of each row, and the sources, sorted within each row.

    Args:
        records: ``(records, 2)``. The caller ensures that every target is one of the rows.
        base, rows: the first row, and the number of rows.
        loops: whether to keep self-loops.
        repeated: whether to keep repeated sources; if not, each source is kept once.
    """
    indices = np.empty(len(records), records.dtype)
    indptr = counting_sort(records[:, 0], records[:, 1], base, rows, indices)
    over_rows(_sort_rows, indptr, indices)
    kept = np.empty(rows, np.int64)
    return kept, indices[: _keep(indptr, indices, base, loops, repeated, kept)]
