"""Linear layers, in float32, or in bfloat16 with float32 master weights.

bfloat16 is used if the input is bfloat16, or if autocast requests it. On a CPU with hardware support for
bfloat16, torch's own product is used. On other CPUs, torch's product is several times slower in bfloat16 than in
float32. There, chunks of rows are converted to float32, multiplied while they are in the cache, and converted back.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from llvmlite.binding import get_host_cpu_features
from torch import Tensor
from torch.nn import functional as F

from handful.kernels import memory
from handful.kernels.dispatch import Fused, Saved

CHUNK = 8192
"""The number of rows that are converted to float32 at once."""


@cache
def native_bfloat16() -> bool:
    """Whether this CPU can multiply bfloat16 in hardware."""
    features = get_host_cpu_features()
    return any(features.get(name, False) for name in ("avx512bf16", "amx-bf16", "bf16"))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x · weightᵀ + bias``, for ``x`` ``(N, in)`` and ``weight`` ``(out, in)``."""
    if x.device.type == "cpu":
        x = as_asked(x)
        large = x.dtype == weight.dtype == torch.float32 and 4 * len(x) * len(weight) >= memory.SMALLEST
        if x.dtype == torch.bfloat16 or (large and not x.requires_grad):
            return PooledLinear()(x, weight, bias)
    return F.linear(x, weight, bias)


def as_asked(x: Tensor) -> Tensor:
    """``x`` in bfloat16 if autocast requests it on the device of ``x``, else ``x`` itself."""
    device = x.device.type
    asked = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
    return x.to(torch.bfloat16) if asked else x


def add_linear(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Add ``x · weightᵀ`` to ``out`` in place. If all dtypes are equal, no other tensor of this size is made."""
    if out.dtype == x.dtype == weight.dtype:
        return out.addmm_(x, weight.T)
    return out.add_(linear(x, weight))


class PooledLinear(Fused):
    """A linear layer that writes its output to memory reused from earlier activations.

    In bfloat16, the inputs and the output are rounded.
    """

    def twin(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return F.linear(x.float(), weight.to(x.dtype).float(), bias).to(x.dtype)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Saved]:
        with torch.autocast("cpu", enabled=False):
            return product(x, weight.to(x.dtype).T, bias), (x, weight, bias)

    def backward(self, grad: Tensor, saved: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        x, weight, bias = saved
        with torch.autocast("cpu", enabled=False):
            return (
                product(grad, weight.to(x.dtype)) if needed[0] else None,
                outer(grad, x).to(weight.dtype) if needed[1] else None,
                grad.sum(0, dtype=torch.float32).to(bias.dtype) if needed[2] else None,
            )


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, onto: Tensor | None = None) -> Tensor:
    """``a · b + bias`` on the CPU, for ``a`` and ``b`` of the same dtype. If ``onto`` is given, add ``a · b`` to
    ``onto``.
    """
    out = memory.empty((len(a), b.shape[1]), a) if onto is None else onto
    if a.dtype != torch.bfloat16 or native_bfloat16():
        if onto is not None:
            return out.addmm_(a, b)
        return torch.mm(a, b, out=out) if bias is None else torch.addmm(bias.to(a.dtype), a, b, out=out)
    wide, shift = b.float(), None if bias is None else bias.float()
    for lo in range(0, len(a), CHUNK):
        rows, there = a[lo : lo + CHUNK].float(), out[lo : lo + CHUNK]
        more = there.float() if onto is not None else shift
        there.copy_(rows @ wide if more is None else torch.addmm(more, rows, wide))
    return out


def outer(a: Tensor, b: Tensor) -> Tensor:
    """``aᵀ · b`` on the CPU, for ``a`` and ``b`` of the same dtype. The result is float32 for bfloat16."""
    if a.dtype != torch.bfloat16:
        return torch.mm(a.T, b)
    if native_bfloat16():
        return torch.mm(a.T, b).float()
    out = torch.zeros(a.shape[1], b.shape[1])
    for lo in range(0, len(a), CHUNK):
        out.addmm_(a[lo : lo + CHUNK].float().T, b[lo : lo + CHUNK].float())
    return out
