"""The kernels of ``attention`` in numba, for the CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.attention import SLOPE, Scores
from handful.kernels.bfloat16 import array, narrow, wide_dtype, widen
from handful.kernels.memory import empty
from handful.kernels.threads import kernel, over_rows


def forward(indptr: Tensor, indices: Tensor, given: Scores, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return three tensors: the output, the positive part, and ``(3, targets, heads)`` statistics.

    The positive part is the part of the output that comes from edges with a positive score. It is empty unless
    ``keep``. The statistics are the largest score, 1 / Σ exp(score − largest), and the total attention weight of
    positive scores.
    """
    x, a_dst = given.x, given.a_dst
    shape = len(a_dst), *x.shape[1:]
    out = empty(shape, x)
    positive = empty(shape if keep else (0, *shape[1:]), x)
    rows = torch.empty(3, *a_dst.shape, dtype=wide_dtype(x))
    over_rows(_forward_rows, array(indptr), array(indices), _arrays(given), array(out), array(positive), array(rows))
    return out, positive, rows


def backward_targets(grad: Tensor, out: Tensor, positive: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each target and head, inner = ⟨grad, out⟩, and the gradient of ``a_dst``.

    The gradient is (1 - slope)(⟨grad, positive⟩ - P·inner), where P is the total attention weight of positive scores.
    """
    inner, grad_dst = torch.empty_like(rows[0]), torch.empty_like(rows[0])
    given = array(grad), array(out), array(positive), array(rows)
    over_rows(_target_terms, np.arange(len(grad) + 1), *given, array(inner), array(grad_dst))
    return inner, grad_dst


def backward_sources(
    indptr: Tensor, indices: Tensor, given: Scores, grad: Tensor, rows: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of ``x`` and of ``a_src``. ``indptr`` and ``indices`` are the CSR of the reversed edges."""
    grad_x, grad_src = empty(given.x.shape, given.x), torch.empty(given.a_src.shape, dtype=rows.dtype)
    result = array(grad), array(rows), array(inner), array(grad_x), array(grad_src)
    over_rows(_source_rows, array(indptr), array(indices), _arrays(given), *result)
    return grad_x, grad_src


def _arrays(given: Scores) -> tuple[Any, ...]:
    """``given`` as arrays. The terms of the scores are converted to the dtype of the sums."""
    a_src, a_dst = (scores.to(wide_dtype(given.x)) for scores in (given.a_src, given.a_dst))
    return array(given.x), array(a_src), array(a_dst), given.first


@kernel
def _forward_rows(lo: int, hi: int, indptr: Any, indices: Any, given: Any, out: Any, positive: Any, rows: Any) -> None:
    x, a_src, a_dst, first = given
    # In the type of the scores, so that the loop does not compute in float64.
    heads, channels, one, slope = x.shape[1], x.shape[2], a_src.dtype.type(1), a_src.dtype.type(SLOPE)
    keep = positive.shape[0] > 0
    acc = np.empty((2, heads, channels), a_src.dtype)  # one sum over negative scores, one over positive scores
    total = np.empty((2, heads), a_src.dtype)
    peak = np.empty(heads, a_src.dtype)
    for v in range(lo, hi):
        own = v + first
        acc[:] = 0
        total[:] = 0
        # The leaky ReLU is monotone: the largest score is the score of the largest a_src.
        for h in range(heads):
            peak[h] = a_src[own, h]
        for e in range(indptr[v], indptr[v + 1]):
            for h in range(heads):
                peak[h] = max(peak[h], a_src[indices[e], h])
        for h in range(heads):
            raw = peak[h] + a_dst[v, h]
            peak[h] = raw if raw > 0 else raw * slope
        for e in range(indptr[v] - 1, indptr[v + 1]):
            u = own if e < indptr[v] else np.int64(indices[e])
            if u == own and e >= indptr[v]:
                continue
            for h in range(heads):
                raw = a_src[u, h] + a_dst[v, h]
                sign = 1 if raw > 0 else 0
                share = math.exp((raw if raw > 0 else raw * slope) - peak[h])
                total[sign, h] += share
                for c in range(channels):
                    acc[sign, h, c] += share * widen(x[u, h, c])
        for h in range(heads):
            scale = one / (total[0, h] + total[1, h])
            rows[0, v, h] = peak[h]
            rows[1, v, h] = scale
            rows[2, v, h] = total[1, h] * scale
            for c in range(channels):
                out[v, h, c] = narrow((acc[0, h, c] + acc[1, h, c]) * scale, out)
            if keep:
                for c in range(channels):
                    positive[v, h, c] = narrow(acc[1, h, c] * scale, positive)


@kernel
def _target_terms(
    lo: int, hi: int, _: Any, grad: Any, out: Any, positive: Any, rows: Any, inner: Any, grad_dst: Any
) -> None:
    rest = rows.dtype.type(1 - SLOPE)
    for v in range(lo, hi):
        for h in range(out.shape[1]):
            whole = part = rows.dtype.type(0)
            for c in range(out.shape[2]):
                g = widen(grad[v, h, c])
                whole += g * widen(out[v, h, c])
                part += g * widen(positive[v, h, c])
            inner[v, h] = whole
            grad_dst[v, h] = rest * (part - rows[2, v, h] * whole)


@kernel
def _source_rows(
    lo: int, hi: int, indptr: Any, indices: Any, given: Any, grad: Any, rows: Any, inner: Any, to_x: Any, to_src: Any
) -> None:
    x, a_src, a_dst, first = given
    heads, channels, targets = x.shape[1], x.shape[2], a_dst.shape[0]
    one, slope = a_src.dtype.type(1), a_src.dtype.type(SLOPE)
    acc = np.empty((heads, channels), a_src.dtype)
    row = np.empty((heads, channels), a_src.dtype)
    score = np.empty(heads, a_src.dtype)
    for u in range(lo, hi):
        acc[:] = 0
        score[:] = 0
        for h in range(heads):
            for c in range(channels):
                row[h, c] = widen(x[u, h, c])
        own = u - first
        start = indptr[u] - 1 if 0 <= own < targets else indptr[u]
        for e in range(start, indptr[u + 1]):
            v = own if e < indptr[u] else np.int64(indices[e])
            if v == own and e >= indptr[u]:
                continue
            for h in range(heads):
                raw = a_src[u, h] + a_dst[v, h]
                alpha = math.exp((raw if raw > 0 else raw * slope) - rows[0, v, h]) * rows[1, v, h]
                dot = rows.dtype.type(0)
                for c in range(channels):
                    g = widen(grad[v, h, c])
                    dot += g * row[h, c]
                    acc[h, c] += alpha * g
                score[h] += alpha * (dot - inner[v, h]) * (one if raw > 0 else slope)
        for h in range(heads):
            to_src[u, h] = score[h]
            for c in range(channels):
                to_x[u, h, c] = narrow(acc[h, c], to_x)
