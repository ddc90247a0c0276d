"""Random walks along the rows of a CSR, many at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.counter import below, mix
from handful.kernels.threads import even_ranges, get_threads, kernel, run


@kernel
def _walk(lo: int, hi: int, indptr: Any, indices: Any, key: int, visited: Any) -> None:
    for step in range(1, visited.shape[1]):
        for i in range(lo, hi):  # step by step for all walks, so that cache misses overlap
            v = visited[i, step - 1]
            degree = indptr[v + 1] - indptr[v]
            if degree > 0:
                v = np.int64(indices[indptr[v] + below(mix(key, i), step, degree)])
            visited[i, step] = v


def walk(indptr: np.ndarray, indices: np.ndarray, roots: np.ndarray, length: int, key: int) -> np.ndarray:
    """int64 ``(roots, length + 1)``: the nodes of each walk, beginning with its root.

    A step takes one of the edges in the row of the node, all equally likely. A walk stays at a node without edges.
    """
    visited = np.empty((len(roots), length + 1), np.int64)
    visited[:, 0] = roots
    run(_walk, even_ranges(len(roots), get_threads() if visited.size > 10_000 else 1), indptr, indices, key, visited)
    return visited
