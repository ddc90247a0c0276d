"""Every random draw in handful comes from here, named by (seed, epoch, step, …), so that a run can be repeated."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *keys: int) -> np.random.Generator:
    """The stream that belongs to these keys: the same on any machine, device and number of threads."""
    return np.random.Generator(np.random.Philox(_sequence(seed, keys)))


def derived_seed(seed: int, *keys: int) -> int:
    """A 63-bit seed for these keys, for torch and for kernels that hash their own counters."""
    state = _sequence(seed, keys).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def _sequence(seed: int, keys: tuple[int, ...]) -> np.random.SeedSequence:
    # As a spawn key, (1,) and (1, 0) differ; numpy pads plain entropy with zeros, and would take them for the same.
    return np.random.SeedSequence(seed, spawn_key=keys)
