"""Random numbers that depend on a key and a counter alone, so that any thread may draw any of them in any order.

``mix`` is the output function of SplitMix64; torch has the same numbers in ``uniform_torch``, for any device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.hashing import GOLDEN, mix64, mix64_torch, shift, signed
from handful.kernels.threads import kernel

_UNIT = 2.0**-53


@kernel
def mix(key: int, counter: int) -> Any:
    """64 random bits for this key and counter; they serve as a key in turn."""
    return mix64(np.uint64(key) + np.uint64(counter) * np.uint64(GOLDEN))


@kernel
def uniform(key: int, counter: int) -> float:
    """A float64 in [0, 1)."""
    return float(mix(key, counter) >> np.uint64(11)) * _UNIT


@kernel
def below(key: int, counter: int, bound: int) -> int:
    """An integer in [0, bound)."""
    return int(uniform(key, counter) * bound)


def uniform_torch(key: int, counter: Tensor) -> Tensor:
    """``uniform`` for every counter (int64); float64."""
    bits = mix64_torch(counter * signed(GOLDEN) + signed(key))
    return shift(bits, 11).to(torch.float64) * _UNIT
