"""Neighbour sampling: a few edges of each node, hop by hop, in one CSR with its rows in the order of the hops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from handful.kernels.hashing import GOLDEN, below, mix
from handful.kernels.threads import kernel


class Neighborhood(NamedTuple):
    """What was sampled around some seeds, in a numbering of its own: seeds first, then each hop's new nodes."""

    nodes: np.ndarray
    """int64, the graph's ids."""
    indptr: np.ndarray
    """int64, one row for every node met before the last hop."""
    indices: np.ndarray
    """int32, the source of each sampled edge."""
    edges: np.ndarray
    """int64, the place of each sampled edge in the graph's CSR."""
    met: np.ndarray
    """int64 ``(hops + 1,)``, how many nodes were known after each hop; ``met[0]`` is the number of seeds."""


# -- from node ids to local numbers, by a hash table as large as the sample --------------------------------------------


@kernel
def make_table(capacity: int) -> Any:
    """An empty table for ``capacity`` numbers: -1 where free."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    return np.full(size, -1, np.int32)


@kernel
def slot(table: Any, nodes: Any, v: int) -> int:
    """The slot of ``table`` with the number of ``v`` (its place in ``nodes``), or the free slot for it."""
    mask: int = table.shape[0] - 1
    at = int((np.uint64(v) * np.uint64(GOLDEN)) >> np.uint64(32)) & mask
    while table[at] >= 0 and nodes[table[at]] != v:
        at = (at + 1) & mask
    return at


@kernel
def number(table: Any, nodes: Any, count: int) -> None:
    """Put the first ``count`` of ``nodes``, which are distinct, into the table."""
    for i in range(count):
        table[slot(table, nodes, nodes[i])] = i


# -- sampling ----------------------------------------------------------------------------------------------------------


@kernel
def _choose(start: int, degree: int, key: int, out: Any) -> None:
    """Fill ``out`` with distinct edges of a row, each set of them as likely as any other (Floyd's algorithm)."""
    take = out.shape[0]
    for k in range(take):
        last = degree - take + k
        edge = start + (last if take == degree else below(key, k, last + 1))
        taken = False
        for j in range(k):
            taken |= out[j] == edge
        out[k] = start + last if taken else edge


@kernel
def _sample(indptr: Any, indices: Any, seeds: Any, fanout: Any, key: int) -> Any:
    hops = fanout.shape[0]
    met = np.empty(hops + 1, np.int64)
    met[0] = seeds.shape[0]
    nodes = seeds
    out_ptr = np.zeros(1, np.int64)
    edges = np.empty(0, np.int64)
    local = np.empty(0, np.int32)
    first = 0  # the first node that was new in the last hop: older ones have their edges already
    for hop in range(hops):
        rows, done = met[hop], out_ptr[first]
        grown_ptr = np.empty(rows + 1, np.int64)
        grown_ptr[: first + 1] = out_ptr
        for i in range(first, rows):
            degree = indptr[nodes[i] + 1] - indptr[nodes[i]]
            grown_ptr[i + 1] = grown_ptr[i] + (degree if fanout[hop] < 0 else min(degree, fanout[hop]))
        out_ptr = grown_ptr
        total = out_ptr[rows]

        grown_edges = np.empty(total, np.int64)
        grown_edges[:done] = edges
        edges = grown_edges
        for i in range(first, rows):
            v = nodes[i]
            _choose(indptr[v], indptr[v + 1] - indptr[v], mix(key, v), edges[out_ptr[i] : out_ptr[i + 1]])

        room = rows + total - done
        grown_nodes = np.empty(room, np.int64)
        grown_nodes[:rows] = nodes[:rows]
        nodes = grown_nodes
        grown_local = np.empty(total, np.int32)
        grown_local[:done] = local
        local = grown_local
        table = make_table(min(room, indptr.shape[0] - 1))
        number(table, nodes, rows)
        sources = np.empty(total - done, indices.dtype)  # in a separate loop, so that cache misses overlap
        for e in range(done, total):
            sources[e - done] = indices[edges[e]]
        count = rows
        for e in range(done, total):
            u = np.int64(sources[e - done])
            at = slot(table, nodes, u)
            if table[at] < 0:
                table[at] = count
                nodes[count] = u
                count += 1
            local[e] = table[at]
        met[hop + 1] = count
        first = rows
    return nodes[: met[hops]].copy(), out_ptr, local, edges, met


def sample(
    indptr: np.ndarray, indices: np.ndarray, seeds: np.ndarray, fanout: tuple[int, ...], key: int
) -> Neighborhood:
    """Sample around ``seeds`` (distinct ids): hop k takes up to ``fanout[k]`` edges of every node that is new in it.

    A node's edges are chosen once, when it is first met, without replacement; -1 takes them all. What is drawn for a
    node depends on ``key`` and on its id alone.
    """
    seeds = np.ascontiguousarray(seeds, np.int64)
    return Neighborhood(*_sample(indptr, indices, seeds, np.array(fanout, np.int64), key))
