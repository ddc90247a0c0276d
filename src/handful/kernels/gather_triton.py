"""``gather`` in Triton, for GPUs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import by_row

ROWS, COLUMNS = 16, 128
"""The tile that a program copies."""


@triton.jit
def _gather(x, stride, rows, out, count, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(rows + i, mask=i < count, other=0)
    inside = (i < count)[:, None] & (cols < width)[None, :]
    values = tl.load(x + row[:, None] * stride + cols[None, :], mask=inside, other=0.0)
    tl.store(out + i[:, None] * width + cols[None, :], values, mask=inside)


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """``x[rows]`` for ``x`` ``(N, F)`` and ``rows`` that were checked."""
    x, width = by_row(x), x.shape[1]
    out = torch.empty(len(rows), width, dtype=x.dtype, device=x.device)
    if out.numel():
        columns = min(COLUMNS, triton.next_power_of_2(width))
        grid = triton.cdiv(len(rows), ROWS), triton.cdiv(width, columns)
        _gather[grid](x, x.stride(0), rows, out, len(rows), width, ROWS=ROWS, COLUMNS=columns)
    return out
