"""Gather rows of a matrix, such as the features of a batch; and scatter rows to their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.dispatch import backend, loops
from handful.kernels.memory import empty
from handful.kernels.threads import even_ranges, get_threads, kernel, run


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``, in memory that earlier batches have released.

    On the CPU, torch gathers. A row outside ``x`` raises an error before the kernel runs. On a GPU the check is queued
    before the kernel, so the host does not wait for it.

    Args:
        x: ``(N, …)``.
        rows: int64 ``(n,)``, each from 0 to N - 1.

    >>> gather(torch.tensor([[0.0], [10.0], [20.0]]), torch.tensor([2, 0]))
    tensor([[20.],
            [ 0.]])
    """
    if backend(x.device) == "triton" and x.ndim == 2:
        torch._assert_async(
            ((rows >= 0) & (rows < len(x))).all(), f"a row to gather is not among the {len(x)} there are"
        )
        return loops("aggregate", x.device).gather(x, rows)  # type: ignore[no-any-return]
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
