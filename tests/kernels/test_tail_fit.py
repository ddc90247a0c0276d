from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from handful.kernels.tail_fit import exponent, fit_tail, hurwitz_zeta, ks_distance


@given(st.floats(1.01, 12), st.integers(1, 3000))
@settings(max_examples=200)
def test_zeta_and_its_derivative(s: float, q: int) -> None:
    value, slope = hurwitz_zeta(s, float(q))
    assert value == pytest.approx(zeta(s, q), rel=1e-10)
    step = 1e-5 * (s - 1)
    assert slope == pytest.approx((zeta(s + step, q) - zeta(s - step, q)) / (2 * step), rel=1e-4)


@pytest.mark.parametrize(("mean_log", "x_min"), [(0.3, 1), (1.2, 1), (2.5, 7), (1.4, 3)])
def test_exponent_of_largest_likelihood(mean_log: float, x_min: int) -> None:
    best = minimize_scalar(lambda a: np.log(zeta(a, x_min)) + a * mean_log, bounds=(1.001, 20), method="bounded")
    assert exponent(mean_log, float(x_min)) == pytest.approx(best.x, abs=1e-4)


def counted(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = np.random.default_rng(seed).zipf(2.3, 400)
    values, counts = np.unique(data, return_counts=True)
    return data, values.astype(float), counts


def distance_by_definition(data: np.ndarray, x_min: int, alpha: float) -> float:
    """The largest gap between the two distribution functions over all whole numbers from x_min to the largest."""
    x = np.arange(x_min, data.max() + 1)
    tail = np.sort(data[data >= x_min])
    fitted = 1 - zeta(alpha, x + 1.0) / zeta(alpha, float(x_min))
    return float(np.abs(fitted - np.searchsorted(tail, x, side="right") / len(tail)).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("first", [0, 2])
def test_distance(seed: int, first: int) -> None:
    data, values, counts = counted(seed)
    found = ks_distance(values, np.log(values), counts, first, 2.4, counts[first:].sum())
    assert found == pytest.approx(distance_by_definition(data, int(values[first]), 2.4), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_best_of_the_candidates(seed: int) -> None:
    data, values, counts = counted(seed)
    fits = []
    for i, x_min in enumerate(values[:6]):
        tail = data[data >= x_min]
        alpha = exponent(np.log(tail).mean(), x_min)
        fits.append((distance_by_definition(data, int(x_min), alpha), i, alpha, len(tail)))
    distance, place, alpha, tail = min(fit for fit in fits if fit[3] >= 50)
    found = fit_tail(values, np.log(values), counts, 6, 50)
    assert (found[0], found[3]) == (place, tail)
    assert found[1] == pytest.approx(alpha, abs=1e-9)
    assert found[2] == pytest.approx(distance, abs=1e-9)
