"""Graph traversal: distances from a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from handful.kernels.threads import even_ranges, get_threads, kernel, run


@kernel
def _bfs(indptr: Any, indices: Any, source: int, distance: Any, queue: Any) -> int:
    """Fill ``distance``; write the reachable nodes to ``queue`` in the order of discovery, and return their number."""
    distance[:] = -1
    distance[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        v = queue[head]
        head += 1
        next_distance = distance[v] + 1
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if distance[u] < 0:
                distance[u] = next_distance
                queue[tail] = u
                tail += 1
    return tail


class Sweep(NamedTuple):
    """The results of breadth-first searches, one value per source."""

    reached: np.ndarray
    """The number of reachable nodes, including the source."""
    total: np.ndarray
    """The sum of the distances to the reachable nodes."""
    eccentricity: np.ndarray
    """The largest distance to a reachable node."""
    farthest: np.ndarray
    """The node at the largest distance. If there are several such nodes, it is the one with the smallest id."""


@kernel
def _sweep(lo: int, hi: int, indptr: Any, indices: Any, sources: Any, out: Any) -> None:
    n = indptr.shape[0] - 1
    distance, queue = np.empty(n, np.int32), np.empty(n, indices.dtype)
    for i in range(lo, hi):
        reached = _bfs(indptr, indices, sources[i], distance, queue)
        total, farthest = 0, queue[reached - 1]
        depth = distance[farthest]
        for k in range(reached - 1, -1, -1):
            total += distance[queue[k]]
            if distance[queue[k]] == depth:
                farthest = min(farthest, queue[k])
        out[0, i], out[1, i], out[2, i], out[3, i] = reached, total, depth, farthest


def sweep(indptr: np.ndarray, indices: np.ndarray, sources: np.ndarray) -> Sweep:
    """Run a breadth-first search from each of ``sources``, in parallel. Each thread needs two integers per node."""
    sources = np.ascontiguousarray(sources, np.int64)
    n = len(indptr) - 1
    if len(sources) and not (int(sources.min()) >= 0 and int(sources.max()) < n):
        raise ValueError(f"a source is not a node: ids run from 0 to {n - 1}")
    out = np.zeros((4, len(sources)), np.int64)
    run(_sweep, even_ranges(len(sources), get_threads()), indptr, indices, sources, out)
    return Sweep(*out)
