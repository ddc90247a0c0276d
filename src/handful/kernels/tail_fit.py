"""Fitting a discrete power law to counted values, by maximum likelihood.

The law is p(x) = x^{−α} / ζ(α, x_min) on the whole numbers x ≥ x_min, with ζ the Hurwitz zeta function.
"""

from __future__ import annotations

import numpy as np

_LOWEST, _HIGHEST = 1.0 + 1e-6, 60.0


def exponents(mean_log: np.ndarray, x_min: np.ndarray) -> np.ndarray:
    """The α of largest likelihood for each pair: the root of E_α[ln X] = mean of ln x, by bisection.

    E_α[ln X] is the slope of −ln ζ, and falls in α.
    """
    from scipy.special import zeta

    lo, hi = np.full_like(x_min, _LOWEST), np.full_like(x_min, _HIGHEST)
    with np.errstate(divide="ignore", invalid="ignore"):  # ζ(α, x) underflows where both are large
        for _ in range(48):
            mid = (lo + hi) / 2
            step = 1e-5 * (mid - 1)
            above = np.log(zeta(mid - step, x_min) / zeta(mid + step, x_min)) > 2 * step * mean_log
            lo, hi = np.where(above, mid, lo), np.where(above, hi, mid)
    return (lo + hi) / 2  # type: ignore[no-any-return]


def ks_distance(values: np.ndarray, counts: np.ndarray, alpha: float) -> float:
    """sup_x |empirical − fitted CDF| over all whole x ≥ values[0]: at each value, and just before the next one."""
    from scipy.special import zeta

    seen, from_here = np.cumsum(counts) / counts.sum(), zeta(alpha, values)
    at, before_next = (1 - above / from_here[0] for above in (from_here - values**-alpha, from_here[1:]))
    return float(max(np.abs(at - seen).max(), np.abs(before_next - seen[:-1]).max(initial=0)))


def fit_tail(values: np.ndarray, counts: np.ndarray, candidates: int, min_tail: int) -> tuple[int, float, float, int]:
    """The fit of least distance among those that start at one of the first ``candidates`` values.

    Args:
        values: float64, the distinct values, ascending.
        counts: int64, how often each value occurs.
        candidates: how many values to try as x_min.
        min_tail: tails with fewer observations are not tried, except the first.

    Returns:
        The place of x_min in ``values``, α, the Kolmogorov–Smirnov distance, and the observations from x_min on.
    """
    tail, sum_log = (np.cumsum(x[::-1])[::-1] for x in (counts, counts * np.log(values)))
    tried = max(1, int(np.count_nonzero(tail[:candidates] >= min_tail)))
    alpha = exponents(sum_log[:tried] / tail[:tried], values[:tried])
    distance = [ks_distance(values[i:], counts[i:], alpha[i]) for i in range(tried)]
    best = int(np.argmin(distance))
    return best, float(alpha[best]), distance[best], int(tail[best])
