"""Some rows of a matrix: the features of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.kernels.dispatch import backend, loops
from handful.kernels.memory import empty


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]``, in memory that earlier batches have left.

    The loop of the CPU is torch's. A row that is not there is refused before the kernel runs; on a GPU the check is
    queued before it and stops the program there, so that the host does not wait for it.

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
        return loops("gather", x.device).gather(x, rows)  # type: ignore[no-any-return]
    return torch.index_select(x, 0, rows, out=empty((len(rows), *x.shape[1:]), x))
