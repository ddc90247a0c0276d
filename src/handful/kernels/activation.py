"""What follows a convolution, in one pass: norm → ReLU → dropout, forward and backward.

    out = max(0, norm(x)) · keep / (1 - p),   keep[i, j] = hash(seed, i, j) ≥ p

The mathematics of ``torch.nn.BatchNorm1d`` or ``LayerNorm``, ``relu`` and inverted dropout. No mask is stored: an
element of the output is positive where its gradient passes. Sums over rows are taken in blocks of a fixed size and then
over the blocks, so that they do not depend on the number of threads. bfloat16 is stored as such and summed in float32.

``seed`` names the dropout mask; derive it from (seed, epoch, step, layer) with ``handful.random.derived_seed``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, layer_norm

from handful.kernels import hashing
from handful.kernels.bfloat16 import array, narrow, wide_dtype, widen
from handful.kernels.memory import empty
from handful.kernels.threads import even_ranges, get_threads, kernel, run
from handful.kernels.twin import twin_gradients

BLOCK = 256
"""How many rows are summed at once: a block with 256 columns of float32 fits in the second-level cache."""


# -- the public functions ---------------------------------------------------------------------------------------------


def batch_norm_act(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    p: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """Batch norm over the rows of ``x`` ``(N, F)``, ReLU, dropout. In training, the running statistics are updated."""
    _check(x, p)
    if training and len(x) < 2:
        raise ValueError(f"batch norm needs at least two rows, got {len(x)}")
    if x.device.type != "cpu":
        return batch_norm_act_torch(x, weight, bias, running_mean, running_var, training, momentum, eps, p, seed)
    if training:
        mean, var = _moments(x)
        if running_mean is not None and running_var is not None:
            with torch.no_grad():
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                running_var.lerp_((var * (len(x) / (len(x) - 1))).to(running_var.dtype), momentum)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, var = running_mean.double(), running_var.double()
    return _BatchNormAct.apply(x, weight, bias, mean, var, training, eps, p if training else 0.0, seed)  # type: ignore[no-any-return, no-untyped-call]


def batch_norm_act_torch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    p: float = 0.0,
    seed: int = 0,
) -> Tensor:
    """The same in plain torch, for any device."""
    wide = wide_dtype(x)
    normed = batch_norm(x.to(wide), running_mean, running_var, weight.to(wide), bias.to(wide), training, momentum, eps)
    return dropout_torch(normed.relu(), p, training, seed).to(x.dtype)


def layer_norm_act(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, p: float = 0.0, training: bool = False, seed: int = 0
) -> Tensor:
    """Layer norm of each row of ``x`` ``(N, F)``, ReLU, dropout."""
    _check(x, p)
    if x.device.type != "cpu":
        return layer_norm_act_torch(x, weight, bias, eps, p, training, seed)
    return _LayerNormAct.apply(x, weight, bias, eps, p if training else 0.0, seed)  # type: ignore[no-any-return, no-untyped-call]


def layer_norm_act_torch(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, p: float = 0.0, training: bool = False, seed: int = 0
) -> Tensor:
    """The same in plain torch, for any device."""
    wide = wide_dtype(x)
    normed = layer_norm(x.to(wide), x.shape[1:], weight.to(wide), bias.to(wide), eps)
    return dropout_torch(normed.relu(), p, training, seed).to(x.dtype)


def act(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """ReLU and dropout of ``x`` ``(N, F)``."""
    _check(x, p)
    if x.device.type != "cpu":
        return act_torch(x, p, training, seed)
    return _Act.apply(x, True, p if training else 0.0, seed)  # type: ignore[no-any-return, no-untyped-call]


def act_torch(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """The same in plain torch, for any device."""
    return dropout_torch(x.relu(), p, training, seed)


def dropout(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """Dropout of ``x`` ``(N, F)`` alone."""
    _check(x, p)
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu":
        return dropout_torch(x, p, training, seed)
    return _Act.apply(x, False, p, seed)  # type: ignore[no-any-return, no-untyped-call]


def dropout_torch(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """The same in plain torch, for any device; the mask is that of the kernels, bit for bit."""
    if not training or p == 0.0:
        return x
    keep = hashing.bits_torch(seed, x.shape[0], x.shape[1], x.device) >= hashing.threshold(p)
    return (x.to(wide_dtype(x)) * keep * _scale(p)).to(x.dtype)


def _check(x: Tensor, p: float) -> None:
    if x.ndim != 2:
        raise ValueError(f"x must be (rows, columns), got {tuple(x.shape)}")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout must lie between 0 and 1, got {p}")


def _scale(p: float) -> float:
    """What a kept element is multiplied by; nothing is kept where p is 1."""
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


# -- how the kernels are called ---------------------------------------------------------------------------------------


def _over_blocks(function: Any, rows: int, *args: Any) -> None:
    """Call ``function(lo, hi, *args)`` on ranges of blocks of ``BLOCK`` rows."""
    run(function, even_ranges(-(-rows // BLOCK), get_threads()), *args)


def _partials(x: Tensor) -> np.ndarray:
    """Two sums for every block of rows and every column."""
    return np.empty((2, -(-len(x) // BLOCK), x.shape[1]), _real(x))


def _drop(p: float, seed: int, x: Tensor) -> tuple[Any, Any, Any]:
    """Seed, threshold and scale as the kernels take them."""
    return np.uint64(seed), np.uint32(hashing.threshold(p)), _scalar(_scale(p), x)


def _scalar(value: float, x: Tensor) -> Any:
    return _real(x)(value)


def _real(x: Tensor) -> Any:
    """``wide_dtype`` as numpy has it."""
    return np.float64 if x.dtype == torch.float64 else np.float32


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of every column, in float64."""
    sums, moments = _partials(x), np.empty((2, x.shape[1]))
    _over_blocks(_block_moments, len(x), array(x), sums)
    _join_moments(array(x), sums, moments)
    mean, var = torch.from_numpy(moments)
    return mean, var


class _BatchNormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        var: Tensor,
        training: bool,
        eps: float,
        p: float,
        seed: int,
    ) -> Tensor:
        wide = wide_dtype(x)
        rstd = (var + eps).rsqrt()
        out = empty(x.shape, x)
        columns = torch.stack([mean, weight.double() * rstd, bias.double()]).to(wide)
        _over_blocks(_columns_forward, len(x), array(x), array(columns), *_drop(p, seed, x), array(out))
        ctx.save_for_backward(x, weight, bias, out, mean, var)
        ctx.training, ctx.eps, ctx.p, ctx.seed = training, eps, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out, mean, var = ctx.saved_tensors
        if torch.is_grad_enabled():

            def twin(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                known, spread = (None, None) if ctx.training else (mean.to(wide_dtype(x)), var.to(wide_dtype(x)))
                return batch_norm_act_torch(x, weight, bias, known, spread, ctx.training, 0.0, ctx.eps, ctx.p, ctx.seed)

            return *twin_gradients(twin, (x, weight, bias), grads[0]), *(None,) * 6
        wide, n, grad = wide_dtype(x), len(x), array(grads[0])
        rstd, scale, sums = (var + ctx.eps).rsqrt(), _scalar(_scale(ctx.p), x), _partials(x)
        columns = torch.stack([mean, rstd]).to(wide)
        _over_blocks(_columns_sums, n, array(x), array(out), grad, array(columns), scale, sums)
        grad_bias, grad_weight = torch.from_numpy(sums.sum(1, dtype=np.float64))
        slope = weight.double() * rstd
        pull = torch.zeros(2, len(mean), dtype=torch.float64)
        if ctx.training:  # the mean and the variance depend on x too
            pull = torch.stack([-slope * rstd * grad_weight / n, -slope * grad_bias / n])
        grad_x = empty(out.shape, out)
        columns = torch.stack([mean, slope, *pull]).to(wide)
        _over_blocks(_columns_backward, n, array(x), array(out), grad, array(columns), scale, array(grad_x))
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), *(None,) * 6


class _LayerNormAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, p: float, seed: int) -> Tensor:
        wide = wide_dtype(x)
        out = empty(x.shape, x)
        moments = torch.empty(2, len(x), dtype=wide)
        affine = torch.stack([weight, bias]).to(wide)
        _over_blocks(
            _rows_forward,
            len(x),
            array(x),
            array(affine),
            _scalar(eps, x),
            *_drop(p, seed, x),
            array(out),
            array(moments),
        )
        ctx.save_for_backward(x, weight, bias, out, moments)
        ctx.eps, ctx.p, ctx.seed = eps, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out, moments = ctx.saved_tensors
        if torch.is_grad_enabled():

            def twin(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                return layer_norm_act_torch(x, weight, bias, ctx.eps, ctx.p, True, ctx.seed)

            return *twin_gradients(twin, (x, weight, bias), grads[0]), *(None,) * 3
        sums, grad_x = _partials(x), empty(out.shape, out)
        _over_blocks(
            _rows_backward,
            len(x),
            array(x),
            array(out),
            array(grads[0]),
            array(weight.to(moments.dtype)),
            array(moments),
            _scalar(_scale(ctx.p), x),
            array(grad_x),
            sums,
        )
        grad_bias, grad_weight = torch.from_numpy(sums.sum(1, dtype=np.float64))
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), *(None,) * 3


class _Act(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, relu: bool, p: float, seed: int) -> Tensor:
        out = empty(x.shape, x)
        _over_blocks(_act_forward, len(x), array(x), relu, *_drop(p, seed, x), array(out))
        ctx.save_for_backward(out if relu else None)
        ctx.relu, ctx.p, ctx.seed = relu, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        # ReLU and dropout are piecewise linear: the backward pass is linear in grad, so it is its own derivative.
        return _ActBackward.apply(grads[0], out, ctx.p, ctx.seed), None, None, None  # type: ignore[no-untyped-call]


class _ActBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, out: Tensor | None, p: float, seed: int) -> Tensor:
        ctx.save_for_backward(out)
        ctx.p, ctx.seed = p, seed
        grad_x = empty(grad.shape, grad)
        if out is None:
            _over_blocks(_act_forward, len(grad), array(grad), False, *_drop(p, seed, grad), array(grad_x))
        else:
            _over_blocks(_act_backward, len(grad), array(out), array(grad), _scalar(_scale(p), grad), array(grad_x))
        return grad_x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        return _ActBackward.apply(grads[0], out, ctx.p, ctx.seed), None, None, None  # type: ignore[no-untyped-call]


# -- the loops --------------------------------------------------------------------------------------------------------
# lo and hi count blocks of BLOCK rows. Dropout multiplies the row by ``factor``. All arrays of one row stay in the
# first-level cache.


@kernel
def _factors(row: int, seed: Any, least: Any, scale: Any, factor: Any) -> None:
    key = hashing.row_key(seed, row)
    for j in range(factor.shape[0]):
        factor[j] = scale if hashing.column_bits(key, j) >= least else factor.dtype.type(0)


@kernel
def _block_moments(lo: int, hi: int, x: Any, sums: Any) -> None:
    """Sums of x and of its square in each block, after the block's first row is subtracted.

    Without that, the variance would be the small difference of two large numbers if the mean is far from 0.
    """
    sums[:, lo:hi] = 0
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
    """Mean and variance from the sums of the blocks: the spread within and the spread between them (Chan et al.)."""
    mean, spread, seen = moments[0], moments[1], 0
    mean[:] = 0
    spread[:] = 0
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
def _columns_forward(lo: int, hi: int, x: Any, columns: Any, seed: Any, least: Any, scale: Any, out: Any) -> None:
    zero = columns.dtype.type(0)
    mean, slope, bias = columns[0], columns[1], columns[2]
    factor = np.full(x.shape[1], columns.dtype.type(1))
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        if least > 0:
            _factors(i, seed, least, scale, factor)
        for j in range(x.shape[1]):
            z = (widen(x[i, j]) - mean[j]) * slope[j] + bias[j]
            out[i, j] = narrow(zero if z <= 0 else z * factor[j], out)


@kernel
def _columns_sums(lo: int, hi: int, x: Any, out: Any, grad: Any, columns: Any, scale: Any, sums: Any) -> None:
    zero = columns.dtype.type(0)
    mean, rstd = columns[0], columns[1]
    sums[:, lo:hi] = 0
    for b in range(lo, hi):
        for i in range(b * BLOCK, min((b + 1) * BLOCK, x.shape[0])):
            for j in range(x.shape[1]):
                g = zero if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
                sums[0, b, j] += g
                sums[1, b, j] += g * (widen(x[i, j]) - mean[j]) * rstd[j]


@kernel
def _columns_backward(lo: int, hi: int, x: Any, out: Any, grad: Any, columns: Any, scale: Any, grad_x: Any) -> None:
    zero = columns.dtype.type(0)
    mean, slope, pull, constant = columns[0], columns[1], columns[2], columns[3]
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        for j in range(x.shape[1]):
            g = zero if widen(out[i, j]) <= 0 else widen(grad[i, j]) * scale
            grad_x[i, j] = narrow(slope[j] * g + pull[j] * (widen(x[i, j]) - mean[j]) + constant[j], grad_x)


@kernel
def _rows_forward(
    lo: int, hi: int, x: Any, affine: Any, eps: Any, seed: Any, least: Any, scale: Any, out: Any, moments: Any
) -> None:
    zero, one, width = affine.dtype.type(0), affine.dtype.type(1), affine.dtype.type(x.shape[1])
    factor = np.full(x.shape[1], one)
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        if least > 0:
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
    sums[:, lo:hi] = 0
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


@kernel
def _act_forward(lo: int, hi: int, x: Any, relu: bool, seed: Any, least: Any, scale: Any, out: Any) -> None:
    factor = np.full(x.shape[1], scale)
    for i in range(lo * BLOCK, min(hi * BLOCK, x.shape[0])):
        if least > 0:
            _factors(i, seed, least, scale, factor)
        for j in range(x.shape[1]):
            value = widen(x[i, j])
            out[i, j] = narrow(factor.dtype.type(0) if relu and value <= 0 else value * factor[j], out)


@kernel
def _act_backward(lo: int, hi: int, out: Any, grad: Any, scale: Any, grad_x: Any) -> None:
    for i in range(lo * BLOCK, min(hi * BLOCK, out.shape[0])):
        for j in range(out.shape[1]):
            value = widen(grad[i, j]) * scale
            grad_x[i, j] = narrow(scale * 0 if widen(out[i, j]) <= 0 else value, grad_x)
