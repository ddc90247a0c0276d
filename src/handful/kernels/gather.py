"""Gather rows of a matrix, such as the features of a batch; and scatter rows to their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.memory import empty
from handful.kernels.threads import even_ranges, get_threads, kernel, run


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``; on the CPU in memory that earlier batches have released.

    Args:
        x: ``(N, …)``.
        rows: int64 ``(n,)``, each from 0 to N - 1; torch raises an error for others.

    >>> gather(torch.tensor([[0.0], [10.0], [20.0]]), torch.tensor([2, 0]))
    tensor([[20.],
            [ 0.]])
    """
    if x.device.type != "cpu":
        return x[rows]  # on a GPU the check of the rows is queued too: the host does not wait for it
    return torch.index_select(x, 0, rows, out=empty((len(rows), *x.shape[1:]), x))


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
