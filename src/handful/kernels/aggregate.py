"""``out = diag(left) · A · diag(right) · x`` for a CSR matrix A. Sum, mean and GCN aggregation are such products.

The kernels are in ``aggregate_numba`` and ``aggregate_triton``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.dispatch import loops

CHUNK = 1 << 22
"""The maximum number of values that ``spmm_torch`` gathers at a time."""


class Scaled(NamedTuple):
    """The matrix ``diag(left) · A · diag(right)``. A value of ``None`` stands for all ones.

    Args:
        indptr, indices: the CSR of A, ``(rows + 1,)`` and ``(edges,)``.
        weight: ``(edges,)``, the values of A.
        left: ``(rows,)``.
        right: ``(columns,)``.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None = None
    left: Tensor | None = None
    right: Tensor | None = None


def spmm(a: Scaled, x: Tensor, base: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The product of ``a`` and ``x``, by the fastest implementation for the device of ``x``.

    Args:
        a: the matrix.
        x: ``(columns, F)``; it may be some columns of a wider tensor.
        base: ``(rows, F)``, which is added to the product; it may be some columns of a wider tensor.
        bias: ``(F,)``, which is added to every row.

    Returns:
        ``(rows, F)``, with the dtype of ``x``; float32 for float16 on the CPU.
    """
    ops = loops("aggregate", x.device)
    return (spmm_torch if ops is None else ops.spmm)(a, x, base, bias)


def spmm_torch(a: Scaled, x: Tensor, base: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """``spmm`` in plain torch, for any device. The rows of ``x`` are gathered and added in chunks of edges."""
    indptr, indices, weight, left, right = a
    wide = wide_dtype(x)
    out = torch.zeros(len(indptr) - 1, x.shape[1], dtype=wide, device=x.device)
    step = max(1, CHUNK // max(1, x.shape[1]))
    for lo in range(0, len(indices), step):
        sources = indices[lo : lo + step].to(torch.int64)
        edges = torch.arange(lo, lo + len(sources), device=x.device)
        values = x[sources].to(wide)
        for scale in (None if weight is None else weight[lo : lo + step], None if right is None else right[sources]):
            values = values if scale is None else values.mul_(scale.to(wide)[:, None])
        out.index_add_(0, torch.searchsorted(indptr, edges, right=True) - 1, values)
    if left is not None:
        out.mul_(left.to(wide)[:, None])
    for more in (base, bias):
        if more is not None:
            out.add_(more.to(wide))
    return out.to(result_dtype(x))


def result_dtype(x: Tensor) -> torch.dtype:
    """The dtype of a product with ``x``; float32 for float16 on the CPU, since no CPU kernel writes float16."""
    return torch.float32 if x.dtype == torch.float16 and x.device.type == "cpu" else x.dtype
