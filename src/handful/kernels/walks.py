"""Random walks, many in parallel: plain walks, and the walks of node2vec with p and q.

A step of a walk follows an edge of the CSR.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.hashing import below, mix, uniform
from handful.kernels.threads import even_ranges, get_threads, kernel, run

_TRIES = 32
"""After this many rejected draws, a step computes the weights of all edges of the node."""


@kernel
def _weight(t: int, x: int, indptr: Any, indices: Any, back: float, out: float) -> float:
    """The weight of a step to ``x`` from a node that was reached from ``t``.

    The weight is 1/p if ``x`` is ``t``, 1 if ``x`` is a neighbour of ``t``, and 1/q otherwise.
    """
    if x == t:
        return back
    for e in range(indptr[t], indptr[t + 1]):
        if indices[e] == x:
            return 1.0
    return out


@kernel
def _step(t: int, v: int, indptr: Any, indices: Any, back: float, out: float, key: int) -> int:
    """The next node of a walk that went from ``t`` to ``v``. Rejection sampling is fast if the weights are similar."""
    start, degree = indptr[v], indptr[v + 1] - indptr[v]
    most = max(back, 1.0, out)
    for k in range(_TRIES):
        x = np.int64(indices[start + below(key, 2 * k, degree)])
        if uniform(key, 2 * k + 1) * most < _weight(t, x, indptr, indices, back, out):
            return int(x)
    weights = np.empty(degree)
    for k in range(degree):
        weights[k] = _weight(t, indices[start + k], indptr, indices, back, out)
    before = np.cumsum(weights)
    at = np.searchsorted(before, uniform(key, 2 * _TRIES) * before[-1], side="right")
    return int(indices[start + min(at, degree - 1)])


@kernel
def _walk(lo: int, hi: int, indptr: Any, indices: Any, back: float, out: float, key: int, visited: Any) -> int:
    n, edges = indptr.shape[0] - 1, indices.shape[0]
    plain = back == 1.0 and out == 1.0
    for step in range(1, visited.shape[1]):
        for i in range(lo, hi):  # step by step for all walks, so that cache misses overlap
            v = visited[i, step - 1]
            if v < 0 or v >= n or not 0 <= indptr[v] <= indptr[v + 1] <= edges:
                return i
            degree = indptr[v + 1] - indptr[v]
            if degree > 0 and (plain or step == 1):
                v = np.int64(indices[indptr[v] + below(mix(key, i), step, degree)])
            elif degree > 0:
                v = _step(visited[i, step - 2], v, indptr, indices, back, out, mix(mix(key, i), step))
            visited[i, step] = v
    for i in range(lo, hi):
        if visited[i, -1] < 0 or visited[i, -1] >= n:
            return i
    return -1


def walk(
    indptr: np.ndarray, indices: np.ndarray, roots: np.ndarray, length: int, key: int, p: float = 1.0, q: float = 1.0,
    threads: int | None = None,
) -> np.ndarray:  # fmt: skip
    """The nodes of each walk, beginning with its root, int64 ``(roots, length + 1)``.

    The first step takes one of the edges in the row of the root, with equal probabilities. A walk that
    went from t to v goes on to x with probability proportional to 1/p if x = t, to 1 if t has an edge to x, and to 1/q
    otherwise. A walk stays at a node without edges.

    Raises:
        IndexError: a walk reaches a node outside the graph, or a node whose row is outside ``indices``.

    >>> walk(np.array([0, 1, 2, 2]), np.array([1, 2]), np.array([0]), 3, key=0)
    array([[0, 1, 2, 2]])
    """
    visited = np.empty((len(roots), length + 1), np.int64)
    visited[:, 0] = roots
    ranges = even_ranges(len(roots), (threads or get_threads()) if visited.size > 10_000 else 1)
    for bad in run(_walk, ranges, indptr, indices, 1.0 / p, 1.0 / q, key, visited):
        if bad >= 0:
            size = f"{len(indptr) - 1} nodes, {len(indices)} edges"
            raise IndexError(f"the walk from node {int(roots[bad])} leaves the graph: it has {size}")
    return visited
