"""Second-order random walks: node2vec's, with p and q."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.counter import mix, uniform
from handful.kernels.threads import even_ranges, kernel, run

_TRIES = 32
"""After so many refused draws the weights of all edges are computed."""


@kernel
def _weight(t: int, x: int, rowptr: Any, col: Any, back: float, out: float) -> float:
    """Of going on to ``x`` after coming from ``t``: 1/p back, 1 to a neighbour of ``t``, 1/q to any other node."""
    if x == t:
        return back
    for e in range(rowptr[t], rowptr[t + 1]):
        if col[e] == x:
            return 1.0
    return out


@kernel
def _step(t: int, v: int, rowptr: Any, col: Any, back: float, out: float, key: int) -> int:
    """The node after ``v`` of a walk that came from ``t``: by refusal, which is quick where the weights are alike."""
    start, degree = rowptr[v], rowptr[v + 1] - rowptr[v]
    most = max(back, 1.0, out)
    for k in range(_TRIES):
        x = np.int64(col[start + int(uniform(key, 2 * k) * degree)])
        if uniform(key, 2 * k + 1) * most < _weight(t, x, rowptr, col, back, out):
            return int(x)
    weights = np.empty(degree)
    for k in range(degree):
        weights[k] = _weight(t, col[start + k], rowptr, col, back, out)
    before = np.cumsum(weights)
    at = np.searchsorted(before, uniform(key, 2 * _TRIES) * before[-1], side="right")
    return int(col[start + min(at, degree - 1)])


@kernel
def _walks(lo: int, hi: int, rowptr: Any, col: Any, back: float, out: float, key: int, visited: Any) -> int:
    n, edges = rowptr.shape[0] - 1, col.shape[0]
    plain = back == 1.0 and out == 1.0
    for step in range(visited.shape[1]):
        for i in range(lo, hi):  # step by step for all walks, so that cache misses overlap
            if step > 0:
                v = visited[i, step - 1]
                degree = rowptr[v + 1] - rowptr[v]
                own = mix(mix(key, i), step)
                if degree > 0 and (plain or step == 1):
                    v = np.int64(col[rowptr[v] + int(uniform(own, 0) * degree)])
                elif degree > 0:
                    v = _step(visited[i, step - 2], v, rowptr, col, back, out, own)
                visited[i, step] = v
            u = visited[i, step]
            if u < 0 or u >= n or not 0 <= rowptr[u] <= rowptr[u + 1] <= edges:
                return i
    return -1


def walks(
    rowptr: np.ndarray, col: np.ndarray, roots: np.ndarray, length: int, p: float, q: float, key: int, threads: int = 1
) -> np.ndarray:
    """int64 ``(roots, length + 1)``: walks of ``length`` steps, each beginning with its root.

    The first step takes an edge of the root, all equally likely. Later steps go from t over v to x with probability
    proportional to 1/p if x = t, to 1 if t has an edge to x, and to 1/q otherwise. A walk stays where there is no edge.

    Raises:
        IndexError: a node that a walk comes to is outside the graph, or its row is outside ``col``.

    >>> walks(np.array([0, 1, 2, 2]), np.array([1, 2]), np.array([0]), 3, 1.0, 1.0, key=0)
    array([[0, 1, 2, 2]])
    """
    visited = np.empty((len(roots), length + 1), np.int64)
    visited[:, 0] = roots
    ranges = even_ranges(len(roots), threads if visited.size > 10_000 else 1)
    for bad in run(_walks, ranges, rowptr, col, 1.0 / p, 1.0 / q, key, visited):
        if bad >= 0:
            n = len(rowptr) - 1
            raise IndexError(
                f"the walk from node {int(roots[bad])} leaves the graph: it has {n} nodes, {len(col)} edges"
            )
    return visited
