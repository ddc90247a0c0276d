from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from handful.kernels.tail_fit import exponents, fit_tail, ks_distance


def test_exponents_of_largest_likelihood() -> None:
    mean_log, x_min = np.array([0.3, 1.2, 2.5, 1.4]), np.array([1.0, 1.0, 7.0, 3.0])
    for mean, least, alpha in zip(mean_log, x_min, exponents(mean_log, x_min), strict=True):
        best = minimize_scalar(
            lambda a, mean=mean, least=least: np.log(zeta(a, least)) + a * mean, bounds=(1.001, 20), method="bounded"
        )
        assert alpha == pytest.approx(best.x, abs=1e-4)


@pytest.mark.parametrize("alpha", [1.05, 1.7, 2.5, 3.5, 8.0])
@pytest.mark.parametrize("x_min", [1, 7, 300])
def test_the_exponent_of_a_law_is_found_again(alpha: float, x_min: int) -> None:
    step = 1e-4 * (alpha - 1)  # E[ln X] is the slope of -ln zeta, here to the fourth order
    steps = np.array([-2, -1, 1, 2])
    mean_log = -np.log(zeta(alpha + steps * step, x_min)) @ np.array([1, -8, 8, -1]) / (12 * step)
    assert exponents(np.array([mean_log]), np.array([float(x_min)]))[0] == pytest.approx(alpha, rel=1e-6)


def test_the_exponent_is_bounded_where_no_law_fits() -> None:
    found = exponents(np.array([1e9, 1.0]), np.array([1.0, 1e9]))
    assert found[0] == pytest.approx(1, abs=1e-4)
    assert 1 < found[1] <= 60


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
    found = ks_distance(values[first:], counts[first:], 2.4)
    assert found == pytest.approx(distance_by_definition(data, int(values[first]), 2.4), abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_best_of_the_candidates(seed: int) -> None:
    data, values, counts = counted(seed)
    fits = []
    for i, x_min in enumerate(values[:6]):
        tail = data[data >= x_min]
        alpha = exponents(np.array([np.log(tail).mean()]), np.array([x_min]))[0]
        fits.append((distance_by_definition(data, int(x_min), alpha), i, alpha, len(tail)))
    distance, place, alpha, tail = min(fit for fit in fits if fit[3] >= 50)
    found = fit_tail(values, counts, 6, 50)
    assert (found[0], found[3]) == (place, tail)
    assert found[1] == pytest.approx(alpha, abs=1e-9)
    assert found[2] == pytest.approx(distance, abs=1e-9)
