"""What follows a convolution, in one pass: norm → ReLU → dropout, forward and backward.

    out = max(0, norm(x)) · keep / (1 - p),   keep[i, j] = hash(seed, i, j) ≥ p

The mathematics of ``torch.nn.BatchNorm1d`` or ``LayerNorm``, ``relu`` and inverted dropout. No mask is stored: an
element of the output is positive where its gradient passes. bfloat16 and float16 are stored as such and summed in
float32. The loops are in ``activation_numba`` and ``activation_triton``.

``seed`` names the dropout mask; derive it from (seed, epoch, step, layer) with ``handful.random.derived_seed``.
"""

from __future__ import annotations

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
    if ops is None:
        return batch_norm_act_torch(x, weight, bias, running_mean, running_var, training, momentum, eps, p, seed)
    if training:
        mean, var = ops.moments(x)
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
    if loops("activation", x.device) is None:
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
    if loops("activation", x.device) is None:
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
    if loops("activation", x.device) is None:
        return dropout_torch(x, p, training, seed)
    return _Act.apply(x, False, p, seed)  # type: ignore[no-any-return, no-untyped-call]


def dropout_torch(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """The same in plain torch, for any device; the mask is that of the kernels, bit for bit."""
    if not training or p == 0.0:
        return x
    keep = hashing.keep_torch(seed, x.shape[0], x.shape[1], p, x.device)
    return (x.to(wide_dtype(x)) * keep * hashing.scale(p)).to(x.dtype)


def _check(x: Tensor, p: float) -> None:
    if x.ndim != 2:
        raise ValueError(f"x must be (rows, columns), got {tuple(x.shape)}")
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout must lie between 0 and 1, got {p}")


# -- their derivatives ------------------------------------------------------------------------------------------------


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
        rstd = (var + eps).rsqrt()
        columns = torch.stack([mean, weight.double() * rstd, bias.double()]).to(wide_dtype(x))
        out: Tensor = loops("activation", x.device).columns_forward(x, columns, p, seed)
        ctx.save_for_backward(x, weight, bias, out, mean, var)
        ctx.training, ctx.eps, ctx.p, ctx.seed = training, eps, p, seed
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out, mean, var = ctx.saved_tensors
        if torch.is_grad_enabled():

            def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                known, spread = (None, None) if ctx.training else (mean.to(wide_dtype(x)), var.to(wide_dtype(x)))
                return batch_norm_act_torch(x, weight, bias, known, spread, ctx.training, 0.0, ctx.eps, ctx.p, ctx.seed)

            return *twin_gradients(plain, (x, weight, bias), grads[0]), *(None,) * 6
        ops, wide, n, grad = loops("activation", x.device), wide_dtype(x), len(x), grads[0].contiguous()
        rstd = (var + ctx.eps).rsqrt()
        columns = torch.stack([mean, rstd]).to(wide)
        grad_bias, grad_weight = ops.columns_sums(x, out, grad, columns, ctx.p)
        slope = weight.double() * rstd
        pull = torch.zeros(2, len(mean), dtype=torch.float64, device=x.device)
        if ctx.training:  # the mean and the variance depend on x too
            pull = torch.stack([-slope * rstd * grad_weight / n, -slope * grad_bias / n])
        columns = torch.stack([mean, slope, *pull]).to(wide)
        grad_x = ops.columns_backward(x, out, grad, columns, ctx.p)
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), *(None,) * 6


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

            def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
                return layer_norm_act_torch(x, weight, bias, ctx.eps, ctx.p, True, ctx.seed)

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
        # ReLU and dropout are piecewise linear: the backward pass is linear in grad, so it is its own derivative.
        return _ActBackward.apply(grads[0], out, ctx.p, ctx.seed), None, None, None  # type: ignore[no-untyped-call]


class _ActBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, out: Tensor | None, p: float, seed: int) -> Tensor:
        ctx.save_for_backward(out)
        ctx.p, ctx.seed = p, seed
        ops, grad = loops("activation", grad.device), grad.contiguous()
        return ops.act_forward(grad, False, p, seed) if out is None else ops.act_backward(out, grad, p)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        return _ActBackward.apply(grads[0], out, ctx.p, ctx.seed), None, None, None  # type: ignore[no-untyped-call]
