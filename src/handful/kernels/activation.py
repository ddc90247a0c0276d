"""Norm, ReLU and dropout after a convolution, in one pass: the forward and the backward kernels.

    out = max(0, norm(x)) · keep / (1 - p),   keep[i, j] = hash(seed, i, j) ≥ p

The result is the same as from ``torch.nn.BatchNorm1d`` or ``LayerNorm``, then ``relu``, then inverted dropout. No mask
is stored: the gradient passes where the output is positive. Inputs in bfloat16 or float16 are summed in
float32. The kernels are in ``activation_numba`` and ``activation_triton``.

``seed`` determines the dropout mask; derive it from (seed, epoch, step, layer) with ``handful.random.derive_seed``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, layer_norm

from handful.kernels import hashing
from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.dispatch import Fused, loops

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
    """Batch norm over the rows of ``x``, ``(N, F)``, then ReLU, then dropout. In training, update the running
    statistics.

    The caller ensures that ``x`` has at least two rows in training. For all functions here, the caller ensures that
    ``p`` is between 0 and 1.
    """
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
    return _BatchNormAct(p, seed, eps, stats, training)(x, weight, bias)


def layer_norm_act(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, p: float = 0.0, training: bool = False, seed: int = 0
) -> Tensor:
    """Layer norm of each row of ``x``, ``(N, F)``, then ReLU, then dropout."""
    return _LayerNormAct(p if training else 0.0, seed, eps)(x, weight, bias)


def act(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0, relu: bool = True) -> Tensor:
    """Apply ReLU, if ``relu`` is true, and then dropout to ``x``, ``(N, F)``."""
    return _Act(p if training else 0.0, seed, relu)(x)


def dropout(x: Tensor, p: float = 0.0, training: bool = False, seed: int = 0) -> Tensor:
    """Apply only dropout to ``x``, ``(N, F)``, without norm and ReLU."""
    return act(x, p, training, seed, relu=False) if training and p > 0.0 else x


# -- the same in plain torch, for any device --------------------------------------------------------------------------


def _plain(norm: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor, p: float, seed: int) -> Tensor:
    wide = wide_dtype(x)
    normed = norm(x.to(wide), weight=weight.to(wide), bias=bias.to(wide))
    return _dropped(normed.relu(), p, seed).to(x.dtype)


def _dropped(x: Tensor, p: float, seed: int) -> Tensor:
    """``x`` after dropout. The mask is exactly the mask of the kernels."""
    if p == 0.0:
        return x
    keep = hashing.keep_torch(seed, x.shape[0], x.shape[1], p, x.device)
    return (x.to(wide_dtype(x)) * keep * hashing.scale(p)).to(x.dtype)


# -- their derivatives ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Op(Fused):
    kernel = "activation"
    p: float
    seed: int


@dataclass(frozen=True)
class _BatchNormAct(_Op):
    eps: float
    stats: Tensor
    training: bool

    def twin(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mean, var = (None, None) if self.training else self.stats.to(wide_dtype(x))
        norm = partial(batch_norm, running_mean=mean, running_var=var, training=self.training, eps=self.eps)
        return _plain(norm, x, weight, bias, self.p, self.seed)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        columns = torch.stack([self.stats[0], weight.double() * self.rstd, bias.double()]).to(wide_dtype(x))
        out = loops("activation", x.device).columns_forward(x, columns, True, self.p, self.seed)
        return out, (x, weight, bias, out)

    def backward(self, grad: Tensor, saved: tuple[Tensor, ...], needed: tuple[bool, ...]) -> tuple[Tensor, ...]:
        x, weight, bias, out = saved
        ops, n, wide, mean, rstd = loops("activation", x.device), len(x), wide_dtype(x), self.stats[0], self.rstd
        grad_bias, grad_weight = ops.columns_sums(x, out, grad, torch.stack([mean, rstd]).to(wide), self.p)
        slope = weight.double() * rstd
        pull = torch.zeros(2, len(mean), dtype=torch.float64, device=x.device)
        if self.training:  # the mean and the variance depend on x too
            pull = torch.stack([-slope * rstd * grad_weight / n, -slope * grad_bias / n])
        grad_x = ops.columns_backward(x, out, grad, torch.stack([mean, slope, *pull]).to(wide), self.p)
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype)

    @property
    def rstd(self) -> Tensor:
        return (self.stats[1] + self.eps).rsqrt()


@dataclass(frozen=True)
class _LayerNormAct(_Op):
    eps: float

    def twin(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        norm = partial(layer_norm, normalized_shape=x.shape[1:], eps=self.eps)
        return _plain(norm, x, weight, bias, self.p, self.seed)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        affine = torch.stack([weight, bias]).to(wide_dtype(x))
        out, moments = loops("activation", x.device).rows_forward(x, affine, self.eps, self.p, self.seed)
        return out, (x, weight, bias, out, moments)

    def backward(self, grad: Tensor, saved: tuple[Tensor, ...], needed: tuple[bool, ...]) -> tuple[Tensor, ...]:
        x, weight, bias, out, moments = saved
        ops = loops("activation", x.device)
        grad_x, (grad_bias, grad_weight) = ops.rows_backward(x, out, grad, weight.to(moments.dtype), moments, self.p)
        return grad_x, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype)


@dataclass(frozen=True)
class _Act(_Op):
    relu: bool

    def twin(self, x: Tensor) -> Tensor:
        return _dropped(x.relu() if self.relu else x, self.p, self.seed)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        out = loops("activation", x.device).columns_forward(x, None, self.relu, self.p, self.seed)
        return out, (out,)  # x is not kept: a gradient passes where the output is positive

    def backward(self, grad: Tensor, saved: tuple[Tensor, ...], needed: tuple[bool, ...]) -> tuple[Tensor, ...]:
        ops = loops("activation", grad.device)
        if self.relu:
            return (ops.columns_backward(None, saved[0], grad, None, self.p),)
        return (ops.columns_forward(grad, None, False, self.p, self.seed),)
