from __future__ import annotations

import itertools
import math
from typing import Any

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from handful.kernels import hashing
from handful.kernels.hashing import below, mix
from handful.random import derive_seed

ROWS, COLUMNS = 2000, 256
SEEDS = [derive_seed(42, epoch, step, layer) for epoch, step, layer in itertools.product(range(2), range(2), range(3))]


@numba.njit
def _fill(seed: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = hashing.column_bits(hashing.row_key(seed, i), j)


def bits(seed: int, rows: int, columns: int) -> Tensor:
    """Uniform integers in [0, 2³²), as kernels have them."""
    out = np.empty((rows, columns), np.int64)
    _fill(np.uint64(seed), out)
    return torch.from_numpy(out)


def uniform(seed: int, rows: int = ROWS, columns: int = COLUMNS) -> np.ndarray:
    return bits(seed, rows, columns).numpy() / 2.0**32


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """In standard errors: beyond 5 happens by chance less than once in a million."""
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1] * math.sqrt(a.size))


@settings(max_examples=50)
@given(seed=st.integers(0, 2**64 - 1), rows=st.integers(0, 20), columns=st.integers(0, 40))
def test_equals_the_torch_twin_bit_for_bit(seed: int, rows: int, columns: int) -> None:
    ours = bits(seed, rows, columns)
    assert torch.equal(ours, hashing.bits_torch(seed, rows, columns, "cpu").long() & 0xFFFFFFFF)
    assert ours.numel() == 0 or 0 <= int(ours.min()) <= int(ours.max()) < 2**32


def test_does_not_depend_on_the_shape() -> None:
    assert torch.equal(bits(7, 300, 50)[:100, :20], bits(7, 100, 20))


@pytest.mark.parametrize("seed", [0, 1, 2**63, *SEEDS[:4]])
def test_is_uniform(seed: int) -> None:
    u = uniform(seed)
    n = u.size
    assert abs(u.mean() - 0.5) < 5 * math.sqrt(1 / 12 / n)
    assert abs(u.var() - 1 / 12) < 5 * math.sqrt(1 / 180 / n)
    counts = np.bincount((u.ravel() * 1024).astype(int), minlength=1024)
    assert stats.chisquare(counts).pvalue > 1e-5
    # Rows and columns are each uniform too: their means are as normal means of uniform values are.
    for axis, length in ((0, ROWS), (1, COLUMNS)):
        z = (u.mean(axis) - 0.5) * math.sqrt(12 * length)
        assert stats.kstest(z, "norm").pvalue > 1e-5


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_every_bit_is_fair_and_independent_of_the_others(seed: int) -> None:
    values = bits(seed, ROWS, COLUMNS).numpy().ravel()
    ones = (values[:, None] >> np.arange(32)) & 1
    z = (ones.mean(0) - 0.5) * 2 * math.sqrt(len(values))
    assert np.abs(z).max() < 5
    between = np.corrcoef(ones.T) * math.sqrt(len(values))
    assert np.abs(between[~np.eye(32, dtype=bool)]).max() < 5.5


@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8, 16, 64])
def test_rows_and_columns_are_not_correlated(seed: int, lag: int) -> None:
    u = uniform(seed)
    assert abs(correlation(u[:-lag], u[lag:])) < 5
    assert abs(correlation(u[:, :-lag], u[:, lag:])) < 5
    assert abs(correlation(u[:-lag, :-lag], u[lag:, lag:])) < 5


def test_all_pairs_of_columns_and_of_rows() -> None:
    u = uniform(SEEDS[0])
    for values in (u.T, u[:COLUMNS]):
        between = np.corrcoef(values) * math.sqrt(values.shape[1])
        off = between[np.triu_indices(len(values), 1)]
        assert np.abs(off).max() < 6
        assert abs(off.var() - 1) < 0.05


def test_layers_steps_epochs_and_near_seeds_are_not_correlated() -> None:
    draws = [uniform(seed) for seed in [*SEEDS, 0, 1, 2, 3, 1 << 32, hashing.GOLDEN]]
    for a, b in itertools.combinations(draws, 2):
        assert abs(correlation(a, b)) < 5
        assert abs(correlation(a[1:], b[:-1])) < 5  # nor when one is the other's shift
        assert abs(correlation(a[:-1], b[1:])) < 5


def test_no_two_rows_share_a_key() -> None:
    first = bits(SEEDS[0], 300_000, 2)
    key = first[:, 0] * 2**31 + first[:, 1] // 2
    assert len(key.unique()) == len(key)


def test_pairs_fill_the_square() -> None:
    """Neighbouring columns, and neighbouring rows, are uniform together."""
    u = uniform(SEEDS[1])
    for a, b in ((u[:, :-1], u[:, 1:]), (u[:-1], u[1:])):
        cell = (a.ravel()[::2] * 32).astype(int) * 32 + (b.ravel()[::2] * 32).astype(int)
        assert stats.chisquare(np.bincount(cell, minlength=1024)).pvalue > 1e-5


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_threshold_drops_the_share_p(p: float) -> None:
    dropped = bits(SEEDS[2], ROWS, COLUMNS) < hashing.threshold(p)
    n = dropped.numel()
    assert abs(float(dropped.double().mean()) - p) < 5 * math.sqrt(p * (1 - p) / n)
    runs = int((dropped[:, 1:] != dropped[:, :-1]).sum())
    pairs = ROWS * (COLUMNS - 1)
    expected = 2 * p * (1 - p)
    assert abs(runs / pairs - expected) < 5 * math.sqrt(expected / pairs)


def test_threshold_at_the_ends() -> None:
    assert hashing.threshold(0.0) == 0
    assert hashing.threshold(1.0) == 2**32 - 1


def test_mix_is_splitmix64() -> None:
    """The published first outputs of SplitMix64 for seed 0: its state is the golden ratio times the call's number."""
    assert [int(mix(0, k)) for k in (1, 2, 3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_uniform_is_uniform() -> None:
    for key in (0, 12345, 2**63 + 11):
        counters = np.concatenate([np.arange(20_000), [2**31 + 5, 2**40]])
        values = np.array([hashing.uniform(np.uint64(key), c) for c in counters])
        assert values.min() >= 0
        assert values.max() < 1
        histogram = np.histogram(values, 20, (0, 1))[0]
        assert ((histogram - 1000) ** 2 / 1000).sum() < 50  # chi square, 19 degrees of freedom


def test_below_reaches_every_value_and_no_other() -> None:
    for bound in (1, 2, 3, 7):
        assert {below(9, k, bound) for k in range(500)} == set(range(bound))
