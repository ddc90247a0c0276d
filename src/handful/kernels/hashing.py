"""Random bits without the state of a generator: a hash of (seed, row, column), the same on every device and thread.

A row's 64-bit key is the splitmix64 finaliser of seed and row. The bits of a column are a 32-bit finaliser (multiply
and xor-shift, twice) of the two halves of the key and the column index. Nothing is stored, and each element can be
computed independently.

``mix``, ``uniform`` and ``below`` draw one number for a key and a counter, so that any thread can draw any number in
any order. ``mix`` is the output function of SplitMix64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.threads import kernel

GOLDEN = 0x9E3779B97F4A7C15
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
WEYL = 0x9E3779B9
MIX32 = (0x7FEB352D, 0x846CA68B)

_GOLDEN, _MIX_A, _MIX_B = np.uint64(GOLDEN), np.uint64(MIX[0]), np.uint64(MIX[1])
_WEYL, _MIX32_A, _MIX32_B = np.uint32(WEYL), np.uint32(MIX32[0]), np.uint32(MIX32[1])


@kernel
def mix64(z: Any) -> Any:
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_A
    z = (z ^ (z >> np.uint64(27))) * _MIX_B
    return z ^ (z >> np.uint64(31))


@kernel
def row_key(seed: Any, row: int) -> Any:
    """The 64-bit key of a row; ``seed`` is a uint64."""
    return mix64(mix64(seed) + (np.uint64(row) + np.uint64(1)) * _GOLDEN)


@kernel
def column_bits(key: Any, column: int) -> Any:
    """32 random bits for a column of the row with this key."""
    # Every step is cast back: numba widens 32-bit arithmetic to 64 bits, which has no fast vector multiply.
    z = np.uint32(np.uint32(column) * _WEYL + np.uint32(key))
    z = np.uint32((z ^ (z >> np.uint32(16))) * _MIX32_A)
    z = np.uint32(z ^ np.uint32(key >> np.uint64(32)))
    z = np.uint32((z ^ (z >> np.uint32(15))) * _MIX32_B)
    return np.uint32(z ^ (z >> np.uint32(16)))


def bits_torch(seed: int, rows: int, columns: int, device: torch.device | str) -> Tensor:
    """The random bits of a matrix, computed in int32, since the products of int32 wrap around.

    The bits are computed in place, with one temporary array of four bytes per element.
    """
    key = mix64_torch(torch.tensor([signed(seed)], device=device))
    key = mix64_torch(key + (torch.arange(rows, device=device) + 1) * signed(GOLDEN))
    low, high = (half.to(torch.int32)[:, None] for half in (key, key >> 32))
    z = (torch.arange(columns, device=device) * WEYL).to(torch.int32) + low
    z.bitwise_xor_(shift(z, 16, 32)).mul_(signed(MIX32[0], 32)).bitwise_xor_(high)
    z.bitwise_xor_(shift(z, 15, 32)).mul_(signed(MIX32[1], 32))
    return z.bitwise_xor_(shift(z, 16, 32))


def mix64_torch(z: Tensor) -> Tensor:
    """``mix64`` in plain torch, for int64."""
    z = (z ^ shift(z, 30)) * signed(MIX[0])
    z = (z ^ shift(z, 27)) * signed(MIX[1])
    return z ^ shift(z, 31)


def shift(z: Tensor, by: int, bits: int = 64) -> Tensor:
    """Logical right shift of signed numbers; torch's own shift copies the sign bit."""
    return (z >> by).bitwise_and_((1 << (bits - by)) - 1)


def signed(value: int, bits: int = 64) -> int:
    """Convert an unsigned number to the signed number with the same bits."""
    return value - (1 << bits) if value >> (bits - 1) else value


def keep_torch(seed: int, rows: int, columns: int, p: float, device: torch.device | str = "cpu") -> Tensor:
    """The dropout mask, bool ``(rows, columns)``: which elements to keep. The mask is computed in plain torch, on any
    device.
    """
    # Unsigned numbers in int32 compare correctly if the highest bit of both is flipped.
    return bits_torch(seed, rows, columns, device).bitwise_xor_(-(1 << 31)) >= threshold(p) - (1 << 31)


def threshold(p: float) -> int:
    """The dropout threshold. An element is dropped if its random bits are below the threshold; this is true for a
    fraction ``p`` of all elements.
    """
    return min(round(p * 2**32), 2**32 - 1)


def scale(p: float) -> float:
    """The factor of the elements that dropout keeps; 0 if ``p`` is 1, since dropout then keeps no elements."""
    return 1.0 / (1.0 - p) if p < 1.0 else 0.0


@kernel
def mix(key: int, counter: int) -> Any:
    """64 random bits for this key and counter; the result can be the key of further draws."""
    return mix64(np.uint64(key) + np.uint64(counter) * np.uint64(GOLDEN))


@kernel
def uniform(key: int, counter: int) -> float:
    """A random float64 in [0, 1)."""
    return float(mix(key, counter) >> np.uint64(11)) * 2.0**-53


@kernel
def below(key: int, counter: int, bound: int) -> int:
    """A random integer in [0, bound)."""
    return int(uniform(key, counter) * bound)
