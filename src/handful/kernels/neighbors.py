"""Neighbour sampling: draw a few edges of each node, hop by hop.

``sample`` does no checks: the graph must already have been checked. PyG's operators call the steps of ``sample`` one by
one: find the rows (``spans``), limit them by time (``until``), pick edges (``pick``), and number the new nodes
(``meet``). In these steps a 64-bit key represents a node. The lower ``TREE`` bits are the id of the node. The upper
bits are the index of the node's tree, if every seed has its own tree. The steps check every row pointer, id, time and
weight when they read it. So the cost of the checks grows with the sample, not with the graph.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from handful.kernels.csr import Array, starts
from handful.kernels.hashing import GOLDEN, below, mix, uniform
from handful.kernels.threads import even_ranges, kernel, run

TREE = 40
"""The number of bits of the node's id in a key."""
NODE = (1 << TREE) - 1
_FEW = 4_000
"""For at most this many rows, one thread is faster than two."""
_SCAN = 48
"""If at most this many edges are picked from a row, each pick is compared with the earlier picks. If more edges are
picked, they are drawn in one pass over the row.
"""


class Known:
    """The nodes of a sample so far, indexed in the order of appearance. The initial nodes may contain a node twice.

    >>> known = Known(np.array([7, 7, 3]))
    >>> known.meet(np.array([3, 9, 7])).tolist(), known.keys[: known.count].tolist()
    ([2, 3, 0], [7, 7, 3, 9])
    """

    def __init__(self, keys: Array) -> None:
        self.keys = np.array(keys, np.int64)
        self.count = len(keys)
        self.table = np.empty(0, np.int32)
        self._reserve(0)

    def _reserve(self, more: int) -> None:
        need = self.count + more
        if len(self.keys) < need:
            self.keys = np.resize(self.keys, max(need, 2 * len(self.keys)))
        if len(self.table) < 2 * need or not len(self.table):
            size = 16 << max(0, math.ceil(math.log2(max(1, need) / 8)))
            self.table = np.full(size, -1, np.int32 if size <= 2**31 else np.int64)
            _enter(self.keys, self.count, self.table)

    def meet(self, keys: Array) -> Array:
        """The index of each key, int64; new keys get the next free indices."""
        self._reserve(len(keys))
        numbers = np.empty(len(keys), np.int64)
        self.count = int(_number(keys, self.keys, self.table, self.count, True, numbers))
        return numbers

    def find(self, keys: Array) -> Array:
        """The index of each key, int64; -1 for an unknown key."""
        numbers = np.empty(len(keys), np.int64)
        _number(keys, self.keys, self.table, self.count, False, numbers)
        return numbers


@kernel
def _slot(table: Any, nodes: Any, v: int) -> int:
    """Look up ``v`` in the hash table ``table``.

    Return the slot that holds the index of ``v`` in ``nodes`` or, if there is none, the free slot where it belongs.
    """
    mask: int = table.shape[0] - 1
    at = int((np.uint64(v) * np.uint64(GOLDEN)) >> np.uint64(32)) & mask
    while table[at] >= 0 and nodes[table[at]] != v:
        at = (at + 1) & mask
    return at


@kernel
def _enter(keys: Any, count: int, table: Any) -> None:
    for i in range(count):
        at = _slot(table, keys, keys[i])
        if table[at] < 0:
            table[at] = i


@kernel
def _number(keys: Any, known: Any, table: Any, count: int, add: bool, numbers: Any) -> int:
    """Write the index of each key to ``numbers``. If ``add``, unknown keys get new indices. Return the number of known
    keys.
    """
    for e in range(keys.shape[0]):
        at = _slot(table, known, keys[e])
        if add and table[at] < 0:
            table[at] = count
            known[count] = keys[e]
            count += 1
        numbers[e] = table[at]
    return count


# -- rows --------------------------------------------------------------------------------------------------------------


def spans(keys: Array, rowptr: Array, edges: int) -> tuple[Array, Array]:
    """The start and the end of the row of each node. ``edges`` is the number of edges of the graph.

    Raises:
        IndexError: a node has no row, or its row is not within the ``edges`` edges.

    >>> spans(np.array([1, 0]), np.array([0, 2, 5]), 5)
    (array([2, 0]), array([5, 2]))
    """
    nodes = keys & NODE
    largest = int(nodes.max(initial=-1))
    if largest >= len(rowptr) - 1:
        raise IndexError(f"node {largest} is outside the graph, which has {len(rowptr) - 1} nodes")
    start, stop = (rowptr[place].astype(np.int64, copy=False) for place in (nodes, nodes + 1))
    bad = np.flatnonzero((start < 0) | (stop < start) | (stop > edges))
    if len(bad):
        v = nodes[bad[0]]
        row = f"rowptr[{v}] = {start[bad[0]]}, rowptr[{v + 1}] = {stop[bad[0]]}"
        raise IndexError(f"the row of node {v} is not inside the {edges} edges: {row}")
    return start, stop


@kernel
def _until(lo: int, hi: int, start: Any, stop: Any, limit: Any, time: Any, col: Any, of_nodes: bool, last: int) -> int:
    for i in range(lo, hi):
        begin, end = start[i], stop[i]
        while begin < end:  # the first edge that is later than the limit
            middle = (begin + end) // 2
            at = np.int64(col[middle]) if of_nodes else middle
            if at < 0 or at >= time.shape[0]:
                return i
            if limit[i] < time[at]:
                end = middle
            else:
                begin = middle + 1
        stop[i] = begin
        if last >= 0:
            start[i] = max(start[i], begin - last)
    return -1


def until(
    start: Array, stop: Array, limit: Array, time: Array, col: Array, of_nodes: bool, last: int = -1, threads: int = 1
) -> None:
    """Shorten each row to the edges whose time is at most ``limit``. The edges of a row must be sorted by time.

    Args:
        start, stop: the start and end of the rows; changed in place.
        limit: the latest time that is allowed in each row.
        time: the time of every edge, or of every node if ``of_nodes``.
        col: the node at the other end of every edge.
        of_nodes: whether the time of an edge is the time of its node in ``col``.
        last: if not negative, keep only the latest edges of each row, at most this many per row.
    """
    bad = _over(_until, len(start), threads, start, stop, limit, time, col, of_nodes, last)
    if bad >= 0:
        raise IndexError(f"there are {len(time)} times: too few for the edges of the graph")


# -- picks -------------------------------------------------------------------------------------------------------------


@kernel
def _distinct(start: int, degree: int, key: int, out: Any) -> None:
    """Draw distinct edges of a row, uniformly at random."""
    take = out.shape[0]
    if take <= _SCAN:  # Floyd
        for k in range(take):
            last = degree - take + k
            edge = start + below(key, k, last + 1)
            for j in range(k):
                if out[j] == edge:
                    edge = start + last
                    break
            out[k] = edge
        return
    k = 0
    for e in range(degree):  # each edge with probability (still to take) / (still to see)
        if uniform(key, e) * (degree - e) < take - k:
            out[k] = start + e
            k += 1
            if k == take:
                return


@kernel
def _heavy(start: int, stop: int, weight: Any, key: int, out: Any) -> None:
    """Draw distinct edges, one after the other, with probability ∝ weight: the edges with the largest log(u) / w.

    ``out`` is a heap with the edge of the smallest value on top. Edges of weight 0 are drawn only if there are too few
    other edges.
    """
    take = out.shape[0]
    rank = np.empty(take)
    for e in range(start, stop):
        value = -np.inf if weight[e] == 0 else math.log1p(-uniform(key, e - start)) / weight[e]
        filled = e - start
        if filled < take:
            at = filled
            while at > 0 and value < rank[(at - 1) // 2]:
                rank[at], out[at] = rank[(at - 1) // 2], out[(at - 1) // 2]
                at = (at - 1) // 2
        elif value > rank[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= take:
                    break
                if child + 1 < take and rank[child + 1] < rank[child]:
                    child += 1
                if rank[child] >= value:
                    break
                rank[at], out[at] = rank[child], out[child]
                at = child
        else:
            continue
        rank[at], out[at] = value, e


@kernel
def _again(start: int, stop: int, weight: Any, key: int, out: Any) -> bool:
    """Draw edges independently, with probability ∝ weight. Return ``False`` if no weight is positive."""
    below_edge = np.cumsum(weight[start:stop].astype(np.float64))
    total = below_edge[-1]
    if not total > 0:
        return False
    for k in range(out.shape[0]):
        # Rounding of u · total must not select an edge after the last one with a positive weight.
        at = np.searchsorted(below_edge, uniform(key, k) * total, side="right")
        while at > 0 and (at >= below_edge.shape[0] or weight[start + at] == 0):
            at -= 1
        out[k] = start + at
    return True


@kernel
def _pick(
    lo: int, hi: int, start: Any, stop: Any, first: Any, whole: bool, replace: bool, weight: Any, key: int, names: Any,
    out: Any,
) -> int:  # fmt: skip
    for i in range(lo, hi):
        begin, end = start[i], stop[i]
        own = out[first[i] : first[i + 1]]
        take = own.shape[0]
        if take == 0:
            continue
        if whole or (not replace and take == end - begin):
            for k in range(take):
                own[k] = begin + k
            continue
        own_key = mix(key, i if names is None else names[i])
        if weight is not None:
            for e in range(begin, end):
                if not (weight[e] >= 0 and weight[e] < np.inf):
                    return i
            if not replace:
                _heavy(begin, end, weight, own_key, own)
            elif not _again(begin, end, weight, own_key, own):
                return i
        elif replace:
            for k in range(take):
                own[k] = begin + below(own_key, k, end - begin)
        else:
            _distinct(begin, end - begin, own_key, own)
    return -1


def pick(
    start: Array, stop: Array, count: int, replace: bool, weight: Array | None, key: int,
    threads: int = 1, names: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Pick ``count`` edges of each row, or all edges if ``count`` is negative. Return the start of each row's picks,
    and the picks.

    Args:
        start, stop: the start and end of the rows.
        count: the maximum number of edges to pick from each row.
        replace: whether to draw with replacement. With replacement, every row that has edges gives ``count`` picks.
        weight: the weight of every edge. Probabilities are proportional to weights; ``None`` makes them equal.
        key: the key of the random numbers; the numbers of a row depend on this key and on the row's entry in ``names``.
        names: int64, an integer that identifies each row; by default, the index of the row.

    Raises:
        ValueError: a weight is negative or not finite; or ``replace`` is true, and all weights of a row are 0.
    """
    degree = stop - start
    if count >= 0:
        degree = np.where(degree > 0, count, 0) if replace else np.minimum(degree, count)
    first = starts(degree)
    edges = np.empty(int(first[-1]), np.int64)
    bad = _over(_pick, len(start), threads, start, stop, first, count < 0, replace, weight, key, names, edges)
    if bad >= 0:
        raise ValueError(f"row {bad} has a negative or infinite edge weight, or no edge with a positive one")
    return first, edges


@kernel
def _heads(
    lo: int, hi: int, keys: Any, first: Any, edges: Any, col: Any, bound: int, limit: Any, time: Any, of_nodes: bool,
    out: Any,
) -> int:  # fmt: skip
    for i in range(lo, hi):
        tree = (keys[i] >> TREE) << TREE
        for k in range(first[i], first[i + 1]):
            u = np.int64(col[edges[k]])
            if u < 0 or u >= bound:
                return k
            if limit is not None and time[u if of_nodes else edges[k]] > limit[i]:
                return k
            out[k] = tree | u
    return -1


def heads(
    keys: Array, first: Array, edges: Array, col: Array, bound: int,
    limit: Array | None = None, time: Array | None = None, of_nodes: bool = False, threads: int = 1,
) -> Array:  # fmt: skip
    """The keys of the nodes at the other end of picked edges. Each key has the same tree index as the key of the row
    from which its edge was picked.

    Args:
        keys: the keys of the rows.
        first, edges: the result of ``pick``.
        col: the node at the other end of every edge.
        bound: the number of nodes; all ids must be below it.
        limit, time, of_nodes: as for ``until``; a pick after its limit raises an error.
    """
    out = np.empty(len(edges), np.int64)
    bad = _over(_heads, len(keys), threads, keys, first, edges, col, bound, limit, time, of_nodes, out)
    if bad >= 0:
        u = int(col[edges[bad]])
        if not 0 <= u < bound:
            raise IndexError(f"col[{int(edges[bad])}] is node {u}, and the nodes run from 0 to {bound - 1}")
        raise ValueError("Found invalid non-sorted temporal neighborhood")
    return out


def _over(function: Any, count: int, threads: int, *args: Any) -> int:
    """Call ``function(lo, hi, *args)`` over all rows on ``threads`` threads. Return the first nonnegative result, or
    -1.
    """
    result = run(function, even_ranges(count, threads if count > _FEW else 1), *args)
    return next((bad for bad in result if bad >= 0), -1)


# -- all hops of a checked graph ---------------------------------------------------------------------------------------


class Neighborhood(NamedTuple):
    """The sample around some seeds. The nodes of the sample are the seeds, followed by the new nodes of each hop."""

    nodes: Array
    """int64, the ids of the nodes in the graph."""
    indptr: Array
    """int64, the row pointers of all nodes, except for the new nodes of the last hop."""
    indices: Array
    """int32, the source of each sampled edge, as an index into ``nodes``."""
    edges: Array
    """int64, the index of each sampled edge in the graph's CSR."""
    met: Array
    """int64 ``(hops + 1,)``, the total number of nodes after each hop; ``met[0]`` is the number of seeds."""


def sample(indptr: Array, indices: Array, seeds: Array, fanout: tuple[int, ...], key: int) -> Neighborhood:
    """Sample the neighbourhood of ``seeds``, which are distinct ids.

    Hop k draws up to ``fanout[k]`` edges of every node that the previous hop added, or all its edges if ``fanout[k]``
    is -1. The edges of a node are drawn once, without replacement. The draws of a node depend only on ``key`` and on
    the id of the node.
    """
    known, first, total, met = Known(seeds), 0, 0, [len(seeds)]
    rows, sources, edges = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for count in fanout:
        new = known.keys[first : known.count]
        first = known.count
        ends, picked = pick(indptr[new], indptr[new + 1], count, False, None, key, names=new)
        sources.append(known.meet(indices[picked].astype(np.int64)).astype(np.int32))
        rows.append(total + ends[1:])
        edges.append(picked)
        total += len(picked)
        met.append(known.count)
    ends, source, edge = (np.concatenate(parts) for parts in (rows, sources, edges))
    return Neighborhood(known.keys[: known.count].copy(), ends, source, edge, np.array(met))
