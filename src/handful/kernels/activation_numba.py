"""The kernels of ``activation`` in numba, for the CPU. Rows are summed in blocks of a fixed size, and then the sums of
the blocks are added. So the result does not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels import hashing
from handful.kernels.bfloat16 import array, narrow, wide_dtype, widen
from handful.kernels.memory import empty
from handful.kernels.threads import even_ranges, get_threads, kernel, run

BLOCK = 256
"""The number of rows that are summed at once: a block with 256 columns of float32 fits in the second-level cache."""


def moments(x: Tensor) -> Tensor:
    """The mean and the biased variance of every column, float64 ``(2, F)``."""
    sums, result = _partials(x), np.zeros((2, x.shape[1]))
    _over_blocks(_block_moments, len(x), array(x), sums)
    _join_moments(array(x), sums, result)
    return torch.from_numpy(result)


def columns_forward(x: Tensor, columns: Tensor | None, relu: bool, p: float, seed: int) -> Tensor:
    """Compute ``z = (x - mean) · scale + bias``, then apply ReLU, if ``relu`` is true, and dropout to z.

    The rows of ``columns``, ``(3, F)``, are the mean, the scale and the bias. If ``columns`` is ``None``, z is x.
    """
    return _map(_columns_forward, x, array(x), None if columns is None else array(columns), relu, *_drop(p, seed, x))


def columns_sums(x: Tensor, out: Tensor, grad: Tensor, columns: Tensor, p: float) -> Tensor:
    """The sums of g and of g · ``(x - mean) · rstd`` over all rows, float64 ``(2, F)``.

    g is ``grad``, propagated back through dropout and ReLU. The rows of ``columns``, ``(2, F)``, are mean and rstd.
    """
    sums = _partials(x)
    _over_blocks(_columns_sums, len(x), array(x), array(out), array(grad), array(columns), _scale(p, x), sums)
    return torch.from_numpy(sums.sum(1, dtype=np.float64))


def columns_backward(x: Tensor | None, out: Tensor, grad: Tensor, columns: Tensor | None, p: float) -> Tensor:
    """``scale · g + pull · (x - mean) + constant``, where g is ``grad``, propagated back through dropout and ReLU.

    Where ``out`` is 0, g is also zero. The rows of ``columns``, ``(4, F)``, are mean, scale, pull and constant. If
    ``columns`` is ``None``, the result is g, and ``x`` is not read.
    """
    given = (None if one is None else array(one) for one in (x, out, grad, columns))
    return _map(_columns_backward, out, *given, _scale(p, out))


def rows_forward(x: Tensor, affine: Tensor, eps: float, p: float, seed: int) -> tuple[Tensor, Tensor]:
    """Apply layer norm, ReLU and dropout. Also return the mean and the inverse standard deviation of every row."""
    out, result = empty(x.shape, x), torch.empty(2, len(x), dtype=wide_dtype(x))
    arrays = array(x), array(affine), _real(x)(eps), *_drop(p, seed, x), array(out), array(result)
    _over_blocks(_rows_forward, len(x), *arrays)
    return out, result


def rows_backward(
    x: Tensor, out: Tensor, grad: Tensor, weight: Tensor, moments: Tensor, p: float
) -> tuple[Tensor, Tensor]:
    """The gradient of ``x``, and the gradients of the bias and the weight, float64 ``(2, F)``."""
    sums, grad_x = _partials(x), empty(out.shape, out)
    arrays = array(x), array(out), array(grad), array(weight), array(moments), _scale(p, x), array(grad_x), sums
    _over_blocks(_rows_backward, len(x), *arrays)
    return grad_x, torch.from_numpy(sums.sum(1, dtype=np.float64))


# -- how the loops are called -----------------------------------------------------------------------------------------


def _over_blocks(function: Any, rows: int, *args: Any) -> None:
    """Call ``function(lo, hi, *args)`` for ranges of blocks. A block has ``BLOCK`` rows."""
    run(function, even_ranges(-(-rows // BLOCK), get_threads()), *args)


def _map(function: Any, like: Tensor, *args: Any) -> Tensor:
    """A new matrix with the shape and dtype of ``like``, which ``function`` fills block by block."""
    out = empty(like.shape, like)
    _over_blocks(function, len(like), *args, array(out))
    return out


def _partials(x: Tensor) -> np.ndarray:
    """Two sums for every block of rows and every column, initialised with 0."""
    return np.zeros((2, -(-len(x) // BLOCK), x.shape[1]), _real(x))


def _drop(p: float, seed: int, x: Tensor) -> tuple[Any, Any, Any]:
    """The seed, the threshold and the scale of dropout, in the dtypes that the kernels need."""
    return np.uint64(seed), np.uint32(hashing.threshold(p)), _scale(p, x)


def _scale(p: float, x: Tensor) -> Any:
    return _real(x)(hashing.scale(p))


def _real(x: Tensor) -> Any:
    """``wide_dtype`` as a numpy dtype."""
    return np.float64 if x.dtype == torch.float64 else np.float32


# -- the loops --------------------------------------------------------------------------------------------------------
# lo and hi count blocks of BLOCK rows. Dropout multiplies the row by ``factor``. All arrays of one row stay in the
# first-level cache.


@kernel
def _factors(row: int, seed: Any, least: Any, scale: Any, factor: Any) -> None:
    if least > 0:
        key = hashing.row_key(seed, row)
        for j in range(factor.shape[0]):
            factor[j] = scale if hashing.column_bits(key, j) >= least else factor.dtype.type(0)


@kernel
def _block_moments(lo: int, hi: int, x: Any, sums: Any) -> None:
    """For each block, sum x and x², after subtracting the block's first row from x.

    Without the subtraction, a mean far from 0 would make the variance a small difference of two large numbers.
    """
    for b in range(lo, hi):
        shift = sums[0, b].copy()
        for j in range(shift.shape[0]):
            shift[j] = widen(x[b * BLOCK, j])
        for i in range(b * BLOCK, min((b + 1) * BLOCK, x.shape[0])):
            for j in range(shift.shape[0]):
                value = widen(x[i, j]) - shift[j]
                sums[0, b, j] += value
                sums[1, b, j] += value * value


@kernel
def _join_moments(x: Any, sums: Any, moments: Any) -> None:
    """Compute mean and variance from the sums of the blocks (Chan et al.): the variance within blocks plus the variance
    between blocks.
    """
    mean, spread, seen = moments[0], moments[1], 0
    for b in range(sums.shape[1]):
        count = min(BLOCK, x.shape[0] - b * BLOCK)
        for j in range(mean.shape[0]):
            total, square = np.float64(sums[0, b, j]), np.float64(sums[1, b, j])
            shift = np.float64(widen(x[b * BLOCK, j])) + total / count - mean[j]
            mean[j] += shift * count / (seen + count)
            spread[j] += max(square - total * total / count, 0.0) + shift * shift * seen * count / (seen + count)
        seen += count
    for j in range(mean.shape[0]):
        spread[j] /= seen


@kernel
def _columns_forward(
    lo: int, hi: int, x: Any, columns: Any, relu: bool, seed: Any, least: Any, scale: Any, out: Any
) -> None:
    factor = np.full(x.shape[1], scale)
    zero = factor.dtype.type(0)
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        _factors(i, seed, least, scale, factor)
        for j in range(x.shape[1]):
            z = widen(x[i, j])
            if columns is not None:  # known when this is compiled
                z = (z - columns[0, j]) * columns[1, j] + columns[2, j]
            out[i, j] = narrow(zero if relu and z <= 0 else z * factor[j], out)


@kernel
def _columns_sums(lo: int, hi: int, x: Any, out: Any, grad: Any, columns: Any, scale: Any, sums: Any) -> None:
    zero = columns.dtype.type(0)
    mean, rstd = columns[0], columns[1]
    for b in range(lo, hi):
        for i in range(b * BLOCK, min((b + 1) * BLOCK, x.shape[0])):
            for j in range(x.shape[1]):
                g = zero if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
                sums[0, b, j] += g
                sums[1, b, j] += g * (widen(x[i, j]) - mean[j]) * rstd[j]


@kernel
def _columns_backward(lo: int, hi: int, x: Any, out: Any, grad: Any, columns: Any, scale: Any, grad_x: Any) -> None:
    for i in range(lo * BLOCK, min(hi * BLOCK, out.shape[0])):
        for j in range(out.shape[1]):
            g = scale * 0 if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
            if columns is not None:
                g = columns[1, j] * g + columns[2, j] * (widen(x[i, j]) - columns[0, j]) + columns[3, j]
            grad_x[i, j] = narrow(g, grad_x)


@kernel
def _rows_forward(
    lo: int, hi: int, x: Any, affine: Any, eps: Any, seed: Any, least: Any, scale: Any, out: Any, moments: Any
) -> None:
    zero, one, width = affine.dtype.type(0), affine.dtype.type(1), affine.dtype.type(x.shape[1])
    factor = np.full(x.shape[1], one)
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        _factors(i, seed, least, scale, factor)
        total = square = zero
        for j in range(x.shape[1]):
            total += widen(x[i, j])
        mean = total / width
        for j in range(x.shape[1]):
            value = widen(x[i, j]) - mean
            square += value * value
        rstd = one / np.sqrt(square / width + eps)
        moments[0, i] = mean
        moments[1, i] = rstd
        for j in range(x.shape[1]):
            z = (widen(x[i, j]) - mean) * rstd * affine[0, j] + affine[1, j]
            out[i, j] = narrow(zero if z <= 0 else z * factor[j], out)


@kernel
def _rows_backward(
    lo: int, hi: int, x: Any, out: Any, grad: Any, weight: Any, moments: Any, scale: Any, grad_x: Any, sums: Any
) -> None:
    zero, width = weight.dtype.type(0), weight.dtype.type(x.shape[1])
    for b in range(lo, hi):
        for i in range(b * BLOCK, min((b + 1) * BLOCK, x.shape[0])):
            mean, rstd = moments[0, i], moments[1, i]
            total = dot = zero
            for j in range(x.shape[1]):
                g = zero if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
                normed = (widen(x[i, j]) - mean) * rstd
                sums[0, b, j] += g
                sums[1, b, j] += g * normed
                total += g * weight[j]
                dot += g * weight[j] * normed
            total /= width
            dot /= width
            for j in range(x.shape[1]):
                g = zero if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
                normed = (widen(x[i, j]) - mean) * rstd
                grad_x[i, j] = narrow(rstd * (g * weight[j] - total - normed * dot), grad_x)
