"""Rows of a matrix, moved to their places."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.threads import even_ranges, get_threads, kernel, run


@kernel
def _put(lo: int, hi: int, rows: Any, places: Any, out: Any) -> None:
    for i in range(lo, hi):
        for j in range(rows.shape[1]):
            out[places[i], j] = rows[i, j]


def put_rows(rows: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """``out[places[i]] = rows[i]`` for every i; the ``places``, int64, are distinct and were checked by the caller.

    >>> out = np.zeros((3, 1), np.int32)
    >>> put_rows(np.array([[5], [7]], np.int32), np.array([2, 0]), out)
    >>> out.ravel()
    array([7, 0, 5], dtype=int32)
    """
    run(_put, even_ranges(len(rows), get_threads() if rows.size > 1 << 16 else 1), rows, places, out)
