"""The product of ``aggregate`` in numba, for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.aggregate import Scaled, result_dtype
from handful.kernels.bfloat16 import array, columns, narrow, wide_dtype, widen
from handful.kernels.memory import empty
from handful.kernels.threads import kernel, over_rows, prefetch

AHEAD = 8
"""The prefetch distance of source rows, in edges."""


@kernel
def _spmm_rows(lo: int, hi: int, indptr: Any, indices: Any, scales: Any, x: Any, base: Any, out: Any) -> None:
    weight, left, right, bias = scales
    # The rows of x and of base may be longer than the rows of out: the loop reads only their first columns.
    # Prefetching and scaling are written out here: as separate functions they made this loop 1.4 times slower.
    weighted, scaled_in, scaled_out = weight.shape[0] > 0, right.shape[0] > 0, left.shape[0] > 0
    width, line, last, one = out.shape[1], 64 // x.itemsize, indices.shape[0] - 1, weight.dtype.type(1)
    acc = np.empty(width, weight.dtype)
    for v in range(lo, hi):
        start, stop = indptr[v], indptr[v + 1]
        acc[:] = 0
        odd = start + (stop - start) % 4
        for e in range(start, odd):
            ahead = indices[min(e + AHEAD, last)]
            for j in range(0, width, line):
                prefetch(x, ahead, j)
            u, c = indices[e], one
            if weighted:
                c *= weight[e]
            if scaled_in:
                c *= right[u]
            for j in range(width):
                acc[j] += c * widen(x[u, j])
        # Four sources at a time: the sums are loaded and stored a quarter as often.
        for e in range(odd, stop, 4):
            for k in range(e, e + 4):
                ahead = indices[min(k + AHEAD, last)]
                for j in range(0, width, line):
                    prefetch(x, ahead, j)
            u0, u1, u2, u3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
            c0 = c1 = c2 = c3 = one
            if weighted:
                c0, c1, c2, c3 = weight[e], weight[e + 1], weight[e + 2], weight[e + 3]
            if scaled_in:
                c0, c1, c2, c3 = c0 * right[u0], c1 * right[u1], c2 * right[u2], c3 * right[u3]
            for j in range(width):
                a = c0 * widen(x[u0, j]) + c1 * widen(x[u1, j])
                b = c2 * widen(x[u2, j]) + c3 * widen(x[u3, j])
                acc[j] += a + b
        scale = left[v] if scaled_out else one
        if base.shape[0] > 0:
            for j in range(width):
                out[v, j] = narrow(acc[j] * scale + bias[j] + widen(base[v, j]), out)
        else:
            for j in range(width):
                out[v, j] = narrow(acc[j] * scale + bias[j], out)


def spmm(a: Scaled, x: Tensor, base: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The product on the CPU. The rows are divided among all threads, and no tensor of edges × features is made."""
    like, none = torch.empty(0, dtype=result_dtype(x)), torch.empty(0, dtype=wide_dtype(x))
    out = empty((len(a.indptr) - 1, x.shape[1]), like)
    base = x[:0] if base is None else base
    bias = none.new_zeros(x.shape[1]) if bias is None else bias
    scales = tuple(array(none if one is None else one.to(none.dtype)) for one in (a.weight, a.left, a.right, bias))
    over_rows(_spmm_rows, array(a.indptr), array(a.indices), scales, columns(x), columns(base), array(out))
    return out
