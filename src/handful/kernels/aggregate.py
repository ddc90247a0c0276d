"""``out = diag(left) · A · diag(right) · x`` for a CSR matrix A: sum, mean and GCN aggregation are all this product."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.threads import kernel, over_rows

_NONE = np.empty(0, np.float32)


@kernel
def _spmm_rows(
    lo: int, hi: int, indptr: Any, indices: Any, weight: Any, left: Any, right: Any, x: Any, out: Any
) -> None:
    weighted, scaled_in, scaled_out = weight.shape[0] > 0, right.shape[0] > 0, left.shape[0] > 0
    one = x.dtype.type(1)
    for v in range(lo, hi):
        row = out[v]
        row[:] = 0
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if weighted or scaled_in:
                c = one
                if weighted:
                    c *= weight[e]
                if scaled_in:
                    c *= right[u]
                for j in range(row.shape[0]):
                    row[j] += c * x[u, j]
            else:
                for j in range(row.shape[0]):
                    row[j] += x[u, j]
        if scaled_out:
            for j in range(row.shape[0]):
                row[j] *= left[v]


def _vector(value: Tensor | None, x: Tensor) -> np.ndarray:
    return _NONE.astype(x.numpy().dtype) if value is None else value.to(x.dtype).numpy()


def spmm_numba(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    x: Tensor,
) -> Tensor:
    """The product on the CPU, row by row on all threads; no tensor of edges × features is ever made."""
    x = x.contiguous()
    out = torch.empty(len(indptr) - 1, x.shape[1], dtype=x.dtype)
    scales = [_vector(value, x) for value in (weight, left, right)]
    over_rows(_spmm_rows, indptr.numpy(), indices.numpy(), *scales, x.numpy(), out.numpy())
    return out


def spmm_torch(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    x: Tensor,
) -> Tensor:
    """The same product in plain torch, for any device."""
    values = torch.ones(len(indices), dtype=x.dtype, device=x.device) if weight is None else weight.to(x.dtype)
    source = x if right is None else x * right.to(x.dtype)[:, None]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*CSR tensor support is in beta.*")
        matrix = torch.sparse_csr_tensor(
            indptr.to(torch.int64), indices.to(torch.int64), values, size=(len(indptr) - 1, len(x))
        )
        out = matrix @ source
    return out if left is None else out * left.to(x.dtype)[:, None]


def spmm(
    indptr: Tensor,
    indices: Tensor,
    weight: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    x: Tensor,
) -> Tensor:
    """The product by the fastest way on the device of ``x``."""
    product = spmm_numba if x.device.type == "cpu" else spmm_torch
    return product(indptr, indices, weight, left, right, x)
