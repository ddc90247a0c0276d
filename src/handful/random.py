"""The random streams of handful. Keys (seed, epoch, step, …) identify a stream, so that a run can be repeated."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *keys: int) -> np.random.Generator:
    """The random number generator for these keys.

    The generator gives the same numbers on every machine and device, and for any number of threads.

    Args:
        seed: the seed of the run.
        keys: the other keys of the stream, such as epoch and step; the order of the keys matters.

    >>> generator(42, 0, 1).integers(100, size=3).tolist() == generator(42, 0, 1).integers(100, size=3).tolist()
    True
    """
    return np.random.Generator(np.random.Philox(_sequence(seed, keys)))


def derive_seed(seed: int, *keys: int) -> int:
    """A 63-bit seed for these keys, for torch and for kernels that draw random numbers by hashing.

    >>> derive_seed(42, 0) != derive_seed(42, 1), 0 <= derive_seed(42) < 2**63
    (True, True)
    """
    return int(_sequence(seed, keys).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _sequence(seed: int, keys: tuple[int, ...]) -> np.random.SeedSequence:
    # Spawn keys (1,) and (1, 0) give different streams. As entropy they would give the same: numpy pads with zeros.
    return np.random.SeedSequence(seed, spawn_key=keys)
