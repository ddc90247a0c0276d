"""Gather rows of a matrix, such as the features of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.kernels.memory import empty
from handful.kernels.sparse import is_sparse, take_rows


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``; on the CPU, the result reuses the memory of earlier batches.

    Args:
        x: ``(N, …)``, or sparse features.
        rows: int64 ``(n,)``, each from 0 to N - 1; torch raises an error for other values.

    >>> gather(torch.tensor([[0.0], [10.0], [20.0]]), torch.tensor([2, 0]))
    tensor([[20.],
            [ 0.]])
    """
    if is_sparse(x):
        return take_rows(x, rows)
    if x.device.type != "cpu":
        return x[rows]  # on a GPU the check of the rows is queued too: the host does not wait for it
    return torch.index_select(x, 0, rows, out=empty((len(rows), *x.shape[1:]), x))


def rows_between(x: Tensor, lo: int, hi: int) -> Tensor:
    """``x[lo:hi]``; for all rows, ``x`` itself, since the backward pass of a slice copies the gradient."""
    if hi - lo == len(x):
        return x
    return take_rows(x, torch.arange(lo, hi, device=x.device)) if is_sparse(x) else x[lo:hi]
