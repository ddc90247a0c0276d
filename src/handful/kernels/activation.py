"""What follows a convolution, in one pass: norm → ReLU → dropout, forward and backward.

    out = max(0, norm(x)) · keep / (1 - p),   keep[i, j] = hash(seed, i, j) ≥ p

The mathematics of ``torch.nn.BatchNorm1d`` or ``LayerNorm``, ``relu`` and inverted dropout. No mask is stored: an
element of the output is positive where its gradient passes. bfloat16 and float16 are stored as such and summed in
float32. The loops are in ``activation_numba`` and ``activation_triton``.

``seed`` names the dropout mask; derive it from (seed, epoch, step, layer) with ``handful.random.derive_seed``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, layer_norm

from handful.kernels import hashing
from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.dispatch import loops, twin_gradients

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
    ops = loops("activation", x.device)
    p = p if training else 0.0
    if ops is None:
        norm = partial(batch_norm, running_mean=running_mean, running_var=running_var, momentum=momentum, eps=eps)
        return _plain(partial(norm, training=training), x, weight, bias, p, seed)
    if training:
        stats = ops.moments(x)
        if running_mean is not None and running_var is not None:
            with torch.no_grad():
                running_mean.lerp_(stats[0].to(running_mean.dtype), momentum)
                running_var.lerp_((stats[1] * (len(x) / (len(x) - 1))).to(running_var.dtype), momentum)
    else:
        assert running_mean is not None
        assert running_var is not None
        stats = torch.stack([running_mean, running_var]).double()
    return _BatchNormAct.apply(x, weight, bias, stats, training, eps, p, seed)  # type: ignore[no-any-return, no-untyped-call]


def layer_norm_act(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, p: float = 0.0, training: bool = False, seed: int = 0
) -> Tensor:
    """Layer norm of each row of ``x`` ``(N, F)``, ReLU, dropout."""
    _check(x, p)
    p = p if training else 0.0
    if loops("activation", x.device) is None:
        return _plain(partial(layer_norm, normalized_shape=x.shape[1:], eps=eps), x, weight, bias, p, seed)
    return _LayerNormAct.apply(x, weight, bias, eps, p, seed)  # type: ignore[no-any-return, no-untyped-call]


def act(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0, relu: bool = True) -> Tensor:
    """ReLU, if ``relu`` is true, and dropout of ``x`` ``(N, F)``."""
    _check(x, p)
    p = p if training else 0.0
    if loops("activation", x.device) is None:
        return _dropped(x.relu() if relu else x, p, seed)
    return _Act.apply(x, relu, p, seed)  # type: ignore[no-any-return, no-untyped-call]


def dropout(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """Dropout of ``x`` ``(N, F)`` alone."""
    _check(x, p)
    return act(x, p, training, seed, relu=False) if training and p > 0.0 else x


def _check(x: Tensor, p: float) -> None:
    if x.ndim != 2:
        raise ValueError(f"x must be (rows, columns), got {tuple(x.shape)}")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout must lie between 0 and 1, got {p}")


# -- the same in plain torch, for any device --------------------------------------------------------------------------


def _plain(norm: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor, p: float, seed: int) -> Tensor:
    wide = wide_dtype(x)
    normed = norm(x.to(wide), weight=weight.to(wide), bias=bias.to(wide))
    return _dropped(normed.relu(), p, seed).to(x.dtype)


def _dropped(x: Tensor, p: float, seed: int) -> Tensor:
    """``x`` after dropout, with the mask that the kernels use, bit for bit."""
    if p == 0.0:
        return x
    keep = hashing.keep_torch(seed, x.shape[0], x.shape[1], p, x.device)
    return (x.to(wide_dtype(x)) * keep * hashing.scale(p)).to(x.dtype)


# -- their derivatives ------------------------------------------------------------------------------------------------


class _BatchNormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stats: Tensor, train: bool, eps: float, p: float, seed: int
    ) -> Tensor:
        mean, rstd = stats[0], (stats[1] + eps).rsqrt()
        columns = torch.stack([mean, weight.double() * rstd, bias.double()]).to(wide_dtype(x))
        out: Tensor = loops("activation", x.device).columns_forward(x, columns, p, seed)
        ctx.save_for_backward(x, weight, bias, out, stats)
        ctx.training, ctx.eps, ctx.p, ctx.seed = train, eps, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out, stats = ctx.saved_tensors
        wide, (mean, var) = wide_dtype(x), stats
        if torch.is_grad_enabled():
            mean, var = (None, None) if ctx.training else stats.to(wide)
            norm = partial(batch_norm, running_mean=mean, running_var=var, training=ctx.training, eps=ctx.eps)
            plain = partial(_plain, norm, p=ctx.p, seed=ctx.seed)
            return *twin_gradients(plain, (x, weight, bias), grads[0]), *(None,) * 5
        ops, n, grad = loops("activation", x.device), len(x), grads[0].contiguous()
        rstd = (var + ctx.eps).rsqrt()
        columns = torch.stack([mean, rstd]).to(wide)
        grad_bias, grad_weight = ops.columns_sums(x, out, grad, columns, ctx.p)
        slope = weight.double() * rstd
        pull = torch.zeros(2, len(mean), dtype=torch.float64, device=x.device)
        if ctx.training:  # the mean and the variance depend on x too
            pull = torch.stack([-slope * rstd * grad_weight / n, -slope * grad_bias / n])
        columns = torch.stack([mean, slope, *pull]).to(wide)
        grad_x = ops.columns_backward(x, out, grad, columns, ctx.p)
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), *(None,) * 5


class _LayerNormAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, p: float, seed: int) -> Tensor:
        affine = torch.stack([weight, bias]).to(wide_dtype(x))
        out, moments = loops("activation", x.device).rows_forward(x, affine, eps, p, seed)
        ctx.save_for_backward(x, weight, bias, out, moments)
        ctx.eps, ctx.p, ctx.seed = eps, p, seed
        return out  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out, moments = ctx.saved_tensors
        if torch.is_grad_enabled():
            norm = partial(layer_norm, normalized_shape=x.shape[1:], eps=ctx.eps)
            plain = partial(_plain, norm, p=ctx.p, seed=ctx.seed)
            return *twin_gradients(plain, (x, weight, bias), grads[0]), *(None,) * 3
        ops, grad = loops("activation", x.device), grads[0].contiguous()
        grad_x, sums = ops.rows_backward(x, out, grad, weight.to(moments.dtype), moments, ctx.p)
        grad_bias, grad_weight = sums
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), *(None,) * 3


class _Act(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, relu: bool, p: float, seed: int) -> Tensor:
        out: Tensor = loops("activation", x.device).act_forward(x, relu, p, seed)
        ctx.save_for_backward(out if relu else None)
        ctx.relu, ctx.p, ctx.seed = relu, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        grad, p, seed = grads[0], ctx.p, ctx.seed
        if torch.is_grad_enabled():  # linear in grad, and in plain torch its own derivative
            passes = hashing.keep_torch(seed, len(grad), grad.shape[1], p, grad.device) if out is None else out > 0
            return grad * passes * hashing.scale(p), None, None, None
        ops, grad = loops("activation", grad.device), grad.contiguous()
        result = ops.act_forward(grad, False, p, seed) if out is None else ops.act_backward(out, grad, p)
        return result, None, None, None
