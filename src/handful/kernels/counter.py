"""Random numbers that depend on a key and a counter alone, so that any thread may draw any of them in any order.

``mix`` is the output function of SplitMix64; torch has the same numbers in ``uniform_torch``, for any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.threads import kernel

GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_UNIT = 2.0**-53


@kernel
def mix(key: int, counter: int) -> Any:
    """64 random bits for this key and counter; they serve as a key in turn."""
    z = np.uint64(key) + np.uint64(counter) * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return z ^ (z >> np.uint64(31))


@kernel
def uniform(key: int, counter: int) -> float:
    """A float64 in [0, 1)."""
    return float(mix(key, counter) >> np.uint64(11)) * _UNIT


@kernel
def below(key: int, counter: int, bound: int) -> int:
    """An integer in [0, bound)."""
    return int(uniform(key, counter) * bound)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _shifted(z: Tensor, by: int) -> Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)  # torch shifts in copies of the sign


def uniform_torch(key: int, counter: Tensor) -> Tensor:
    """``uniform`` for every counter (int64); float64."""
    z = counter * _signed(GOLDEN) + _signed(key % (1 << 64))
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return _shifted(z ^ _shifted(z, 31), 11).to(torch.float64) * _UNIT
