"""Induced subgraphs of one node set, or of all parts of a partition in one pass over the edges.

The pass reads the rows in order, one block of rows at a time (``cut``). The pass keeps an edge if source and target are
in the same part. The inner loop has no branch: it always writes, and adds the result of the comparison to the cursor.
About one edge in m is kept. The kept edges are grouped by part, and stored in memory, in a file or on another machine.
``part_csr`` renumbers the edges of one part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from handful.kernels.csr import Array, starts
from handful.kernels.threads import even_ranges, get_threads, kernel, over_rows, prefetch, row_ranges, run

BLOCK = 1 << 22
"""The maximum size of a block of rows, counted as rows plus edges."""
AHEAD = np.uint64(32)
"""The prefetch distance: the part of an edge's source is prefetched this many edges before the edge is
read. Prefetching is needed in a large graph, whose array of parts does not fit in the cache.

If the array of parts fits in the cache, prefetching costs only 0.02 ns of the 0.8 ns per edge, so one kernel is used
for all sizes.
"""


class Cut(NamedTuple):
    """For a block of rows: the edges whose two ends are in the same part, sorted by part."""

    row_first: Array
    """``(m + 1,)``: the rows of part p are entries ``row_first[p]`` to ``row_first[p + 1] - 1`` of ``degree``, in
    ascending order of their node ids.
    """
    edge_first: Array
    """``(m + 1,)``: the edges of part p are entries ``edge_first[p]`` to ``edge_first[p + 1] - 1`` of ``source``."""
    degree: Array
    """``(rows,)``, the number of kept edges of each row, in the smallest dtype that fits."""
    source: Array
    """``(edges,)``, the sources, as node ids of the graph."""
    value: Array
    """``(edges,)``, the value of each edge; empty if edges have no values."""

    def of(self, p: int) -> tuple[Array, Array, Array]:
        """The arrays ``degree``, ``source`` and ``value`` of part ``p``."""
        rows = slice(self.row_first[p], self.row_first[p + 1])
        edges = slice(self.edge_first[p], self.edge_first[p + 1])
        return self.degree[rows], self.source[edges], self.value[edges]


@kernel
def _keep(
    lo: int, hi: int, rows: Any, edges: Any, begin: int, indptr: Any, indices: Any, part: Any, m: int, values: Any,
    kept: Any, kept_value: Any, count: Any,
) -> None:  # fmt: skip
    """Write the kept edges of rows ``lo`` to ``hi - 1`` consecutively, starting at the index of the first edge of row
    ``lo``. Count the rows and the kept edges of every part.

    Indices and ids are unsigned: numba then omits the test for negative indices, which halves the time per edge.
    """
    line, last = part.reshape((1, part.shape[0])), np.uint64(max(indptr[hi] - 1, 0))
    cursor = np.uint64(indptr[lo] - indptr[0])
    for i in range(lo, hi):
        own = part[begin + i]
        before = cursor
        if own < m:
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                prefetch(line, 0, indices[min(e + AHEAD, last)])
                kept[cursor] = indices[e]
                if values is not None:  # known when this is compiled
                    kept_value[cursor] = values[e]
                cursor += np.uint64(part[indices[e]] == own)
            rows[own] += 1
            edges[own] += np.int64(cursor - before)
        count[i] = cursor - before


@kernel
def _distribute(
    lo: int, hi: int, row_at: Any, edge_at: Any, begin: int, indptr: Any, part: Any, m: int, values: Any, kept: Any,
    kept_value: Any, count: Any, out_count: Any, out: Any, out_value: Any,
) -> None:  # fmt: skip
    """Move the edges that ``_keep`` wrote to their parts. ``row_at`` and ``edge_at`` are the cursors of the parts."""
    cursor = np.uint64(indptr[lo] - indptr[0])
    for i in range(lo, hi):
        own = part[begin + i]
        stop = cursor + np.uint64(count[i])
        if own < m:
            shift = np.uint64(edge_at[own]) - cursor  # modulo 2⁶⁴
            for k in range(cursor, stop):
                out[k + shift] = kept[k]
                if values is not None:
                    out_value[k + shift] = kept_value[k]
            edge_at[own] += count[i]
            out_count[row_at[own]] = count[i]
            row_at[own] += 1
        cursor = stop


def cut(begin: int, indptr: Array, indices: Array, part: Array, m: int, values: Array | None = None) -> Cut:
    """The edges whose two ends are in the same part, for all m parts. Only the rows of nodes ``begin``, ``begin + 1``,
    … are read.

    Args:
        begin: the node of the first row.
        indptr: int64 ``(rows + 1,)``, the start of each row in ``indices``.
        indices: the sources of the rows, which are not checked. ``indices`` may also contain other rows.
        part: ``(N,)``, the part of every node of the graph; ``m`` or more for a node in no part.
        m: the number of parts.
        values: one value for each entry of ``indices``, such as the edge weights.

    >>> part = np.array([0, 1, 0], np.uint8)
    >>> cut(0, np.array([0, 2, 3, 4]), np.array([1, 2, 0, 0], np.int32), part, 2).of(0)[:2]
    (array([1, 1], dtype=uint8), array([2, 0], dtype=int32))
    """
    rows, edges = len(indptr) - 1, int(indptr[-1] - indptr[0])
    sources, value_dtype = unsigned(indices), np.float32 if values is None else values.dtype
    kept, count = np.empty(edges, sources.dtype), np.empty(rows, np.int64)
    kept_value = np.empty(0 if values is None else edges, value_dtype)
    ranges = row_ranges(indptr - indptr[0], get_threads() if rows + edges > 20_000 else 1) if rows else []
    tally = np.zeros((2, len(ranges), m), np.int64)
    pieces = [(*ends, *own) for ends, *own in zip(ranges, *tally, strict=True)]
    run(_keep, pieces, begin, indptr, sources, part, m, values, kept, kept_value, count)
    first = np.stack([starts(sizes) for sizes in tally.sum(1)])
    at = first[:, None, :-1] + np.cumsum(tally, axis=1) - tally
    out_count, out = np.empty(first[0, -1], np.int64), np.empty(first[1, -1], sources.dtype)
    out_value = np.empty(0 if values is None else len(out), value_dtype)
    pieces = [(*ends, *own) for ends, *own in zip(ranges, *at, strict=True)]
    run(_distribute, pieces, begin, indptr, part, m, values, kept, kept_value, count, out_count, out, out_value)
    smallest = np.min_scalar_type(int(out_count.max(initial=0)))
    return Cut(first[0], first[1], out_count.astype(smallest), out.view(indices.dtype), out_value)


def unsigned(indices: Array) -> Array:
    """View ``indices`` as unsigned numbers, without a copy: kernels then omit the test for negative indices."""
    return indices.view(f"u{indices.dtype.itemsize}")


def row_blocks(indptr: Array, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Split the rows of a CSR into ranges. A range has at most ``size`` rows plus edges, unless it has only one row.

    >>> list(row_blocks(np.array([0, 3, 4, 4, 20, 21]), size=6))
    [(0, 2), (2, 3), (3, 4), (4, 5)]
    """
    lo, rows = 0, len(indptr) - 1
    while lo < rows:
        most, begin = range(lo + 1, min(rows, lo + size) + 1), int(indptr[lo]) + lo
        fits = bisect_right(most, size, key=lambda row: int(indptr[row]) + row - begin)
        yield lo, (hi := lo + max(1, fits))
        lo = hi


@kernel
def _members(part: Any, lo: int, hi: int, cursor: Any, out: Any) -> None:
    for v in range(part.shape[0]):
        p = part[v]
        if lo <= p < hi:
            out[cursor[p - lo]] = v
            cursor[p - lo] += 1


def members(part: Array, lo: int, hi: int) -> list[Array]:
    """The node ids of each part from ``lo`` to ``hi - 1``: one int64 array per part, in ascending order. ``part`` is
    read only once.

    >>> [nodes.tolist() for nodes in members(np.array([0, 1, 0, 2], np.uint8), 0, 2)]
    [[0, 2], [1]]
    """
    first = starts(counts(part, hi)[lo:])
    out = np.empty(int(first[-1]), np.int64)
    _members(part, lo, hi, first[:-1].copy(), out)
    return np.split(out, first[1:-1])


@kernel
def _ones(word: Any) -> Any:
    """Count the ones in 64 bits: first in pairs of bits, then in fours, in bytes and in the whole word."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _bitmap(nodes: Any, n: int) -> Any:
    """Make a bitmap of the set ``nodes``, from which the rank of a member is computed quickly.

    The bitmap has two numbers for every 64 nodes of the graph: a word with one bit per node, and the number of members
    in earlier words. The bitmap takes a fifth of a byte per node.
    """
    member, before = np.zeros(n // 64 + 1, np.uint64), np.empty(n // 64 + 1, np.int32)
    for i in range(nodes.shape[0]):
        member[nodes[i] >> 6] |= np.uint64(1) << np.uint64(nodes[i] & 63)
    count = 0
    for word in range(member.shape[0]):
        before[word] = count
        count += _ones(member[word])
    return member, before


@kernel
def _renumber(lo: int, hi: int, indptr: Any, source: Any, member: Any, before: Any, out: Any) -> None:
    for e in range(np.uint64(indptr[lo]), np.uint64(indptr[hi])):
        u = np.uint64(source[e])
        place, bit = u >> np.uint64(6), np.uint64(1) << (u & np.uint64(63))
        out[e] = before[place] + _ones(member[place] & (bit - np.uint64(1)))


def part_csr(n: int, nodes: Array, degree: Array, source: Array) -> tuple[Array, Array]:
    """The CSR of a part, ``indptr`` and ``indices``, with new node indices from 0.

    The new index of a node is its rank in the part. The rank is computed from a bitmap, which fits in the cache; a
    table of new indices would not fit.

    Args:
        n: the number of nodes of the graph.
        nodes: the nodes of the part, from ``members``.
        degree, source: the results of ``cut`` for the part, concatenated over all blocks; ``source`` may be
            overwritten.
    """
    indptr = starts(degree)
    out = source if source.dtype == np.int32 else np.empty(len(source), np.int32)
    over_rows(_renumber, indptr, unsigned(source), *_bitmap(nodes, n), out)
    return indptr, out


def parts(
    indptr: Array, indices: Array, part: Array, m: int, values: Array | None = None
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield, for each of the parts 0 to ``m - 1``, its nodes, ``indptr``, ``indices`` and ``values``.

    The edges are read only once. ``part[v]`` is the part of node v; a node with a value of ``m`` or more is in no part.
    ``values`` has one value for each edge.
    """
    cuts = [cut(lo, indptr[lo : hi + 1], indices, part, m, values) for lo, hi in row_blocks(indptr)]
    for p, nodes in enumerate(members(part, 0, m)):
        degree, source, value = joined([piece.of(p) for piece in cuts], indices, values)
        yield nodes, *part_csr(len(part), nodes, degree, source), value


def joined(pieces: Sequence[tuple[Array, Array, Array]], indices: Array, values: Array | None) -> tuple[Array, ...]:
    """Concatenate the arrays ``degree``, ``source`` and ``value`` of one part over all blocks of rows.

    ``source`` and ``value`` get the dtypes of ``indices`` and ``values``.
    """
    none = np.empty(0, np.uint8), indices[:0], np.empty(0, np.float32) if values is None else values[:0]
    return tuple(np.concatenate(arrays) for arrays in zip(none, *pieces, strict=True))


@kernel
def _inside(lo: int, hi: int, nodes: Any, indptr: Any, indices: Any, local: Any, at: Any, out: Any, edges: Any) -> None:
    """Count the edges inside the node set, for nodes ``lo`` to ``hi - 1``.

    If ``out`` is given, write these edges to ``out`` instead, starting at ``at``.
    """
    for i in range(lo, hi):
        end = 0 if out is None else at[i]
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            u = local[indices[e]]
            if u >= 0:
                if out is not None:  # known when this is compiled
                    out[end] = u
                if edges is not None:
                    edges[end] = e
                end += 1
        if out is None:
            at[i] = end


def induced(indptr: Array, indices: Array, nodes: Array, with_edges: bool = False) -> tuple[Array, Array, Array]:
    """The CSR of the subgraph that ``nodes`` induces, in the order of ``nodes``, and the indices of its edges.

    The nodes must be distinct. The indices of the edges are empty unless ``with_edges``. If ``nodes`` is in ascending
    order, so are the sources of each row.
    """
    local = np.full(len(indptr) - 1, -1, np.int32)
    local[nodes] = np.arange(len(nodes), dtype=np.int32)
    ranges = even_ranges(len(nodes), get_threads() if len(nodes) > 5_000 else 1)
    count = np.zeros(len(nodes), np.int64)
    run(_inside, ranges, nodes, indptr, indices, local, count, None, None)
    out_ptr = starts(count)
    out = np.empty(int(out_ptr[-1]), np.int32)
    edges = np.empty(len(out) if with_edges else 0, np.int64)
    run(_inside, ranges, nodes, indptr, indices, local, out_ptr, out, edges if with_edges else None)
    return out_ptr, out, edges


@kernel
def count_parts(lo: int, hi: int, out: Any, part: Any) -> None:
    """Count how often each part occurs in ``part[lo:hi]``, and add the counts to ``out``. Values of ``len(out)`` or
    more are ignored.
    """
    for v in range(lo, hi):
        if part[v] < out.shape[0]:
            out[part[v]] += 1


def counts(part: Array, m: int) -> Array:
    """The number of nodes in each of the parts 0 to ``m - 1``, int64 ``(m,)``.

    Unlike ``np.bincount``, this function makes no int64 copy of ``part``.

    >>> counts(np.array([0, 2, 0, 3], np.uint8), 3)
    array([2, 0, 1])
    """
    ranges = even_ranges(len(part), get_threads() if len(part) > 100_000 else 1)
    result = np.zeros((len(ranges), m), np.int64)
    run(count_parts, [(*ends, own) for ends, own in zip(ranges, result, strict=True)], part)
    return result.sum(0)  # type: ignore[no-any-return]


@kernel
def _of_rank(part: Any, ranks: Any, cursor: Any, end: Any, seen: Any, out: Any) -> None:
    for v in range(part.shape[0]):
        p = part[v]
        at = cursor[p]
        if at < end[p] and ranks[at] == seen[p]:
            out[at] = v
            cursor[p] = at + 1
        seen[p] += 1


def of_rank(part: Array, ranks: list[Array]) -> list[Array]:
    """For each part p, the nodes of p whose ranks are ``ranks[p]``, as int64 ids. The first node of a part has rank 0.

    The ranks of a part must be distinct, and all values of ``part`` must be below ``len(ranks)``. ``part`` is read only
    once, and no permutation of the nodes is made.

    >>> of_rank(np.array([1, 0, 1, 1], np.uint8), [np.array([0]), np.array([2, 1])])
    [array([1]), array([3, 2])]
    """
    size = np.array([len(of_part) for of_part in ranks], np.int64)
    first, every = starts(size), np.concatenate(ranks)
    order = np.lexsort((every, np.repeat(np.arange(len(ranks)), size)))
    found, out = np.empty((2, len(every)), np.int64)
    _of_rank(part, every[order], first[:-1].copy(), first[1:], np.zeros(len(ranks), np.int64), found)
    out[order] = found
    return np.split(out, first[1:-1])
