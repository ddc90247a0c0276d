"""``hashing`` inside Triton kernels: the bits stay in registers, and are those of the CPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels import hashing

_GOLDEN = tl.constexpr(hashing.GOLDEN)
_MIX_A, _MIX_B = tl.constexpr(hashing.MIX[0]), tl.constexpr(hashing.MIX[1])
_WEYL = tl.constexpr(hashing.WEYL)
_MIX32_A, _MIX32_B = tl.constexpr(hashing.MIX32[0]), tl.constexpr(hashing.MIX32[1])


@triton.jit
def mix64(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> 30)) * _MIX_A
    z = (z ^ (z >> 27)) * _MIX_B
    return z ^ (z >> 31)


@triton.jit
def bits(seed, rows, cols):
    """uint32 ``(rows, cols)``: the random bits of ``hashing.bits``; ``seed`` points to an int64."""
    start = mix64(tl.load(seed).to(tl.uint64, bitcast=True))
    key = mix64(start + (rows.to(tl.uint64) + 1) * _GOLDEN)
    low, high = key.to(tl.uint32)[:, None], (key >> 32).to(tl.uint32)[:, None]
    z = cols.to(tl.uint32)[None, :] * _WEYL + low
    z = ((z ^ (z >> 16)) * _MIX32_A) ^ high
    z = (z ^ (z >> 15)) * _MIX32_B
    return z ^ (z >> 16)


@triton.jit
def factor(seed, rows, cols, LEAST: tl.constexpr, SCALE: tl.constexpr, WIDE: tl.constexpr):
    """What dropout multiplies each element of a tile by."""
    one = tl.full([rows.shape[0], cols.shape[0]], SCALE, WIDE)
    if LEAST > 0:
        one = tl.where(bits(seed, rows, cols) >= LEAST, one, one * 0)
    return one


def seed_of(seed: int, like: Tensor) -> Tensor:
    """``seed`` where a kernel reads it: as an argument, Triton would compile for each size of number."""
    return torch.full((1,), hashing.signed(seed), dtype=torch.int64, device=like.device)
