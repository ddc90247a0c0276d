"""Fitting a discrete power law to counted values, by maximum likelihood.

The law is p(x) = x^{−α} / ζ(α, x_min) on the whole numbers x ≥ x_min, with ζ the Hurwitz zeta function.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np

from handful.kernels.threads import kernel

# B_{2j} / (2j)! of the Euler–Maclaurin formula.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
_DIRECT = 10
_LOWEST, _HIGHEST = 1.0 + 1e-6, 60.0


@kernel
def hurwitz_zeta(s: float, q: float) -> tuple[float, float]:
    """ζ(s, q) = Σ_{k≥0} (k + q)^{−s} and its derivative in s, by Euler–Maclaurin; relative error below 1e-10."""
    value, slope = 0.0, 0.0
    for k in range(_DIRECT):
        term = exp(-s * log(q + k))
        value += term
        slope -= log(q + k) * term
    x = q + _DIRECT
    lx = log(x)
    power = exp(-s * lx)
    value += power * x / (s - 1) + power / 2
    slope -= power * x / (s - 1) * (lx + 1 / (s - 1)) + power * lx / 2
    rising, rising_slope, below = s, 1.0, power / x
    for j in range(len(_BERNOULLI)):
        value += _BERNOULLI[j] * rising * below
        slope += _BERNOULLI[j] * below * (rising_slope - rising * lx)
        for shift in (2 * j + 1, 2 * j + 2):
            rising_slope = rising_slope * (s + shift) + rising
            rising *= s + shift
        below /= x * x
    return value, slope


@kernel
def exponent(mean_log: float, x_min: float) -> float:
    """The α of largest likelihood: the root of E_α[ln X] = mean of ln x, by bisection, since E_α[ln X] falls in α."""
    lo, hi = _LOWEST, _HIGHEST
    for _ in range(48):
        mid = (lo + hi) / 2
        value, slope = hurwitz_zeta(mid, x_min)
        if -slope / value > mean_log:
            lo = mid
        else:
            hi = mid
    return (lo + hi) / 2


@kernel
def ks_distance(values: Any, logs: Any, counts: Any, first: int, alpha: float, tail: int) -> float:
    """sup_x |empirical − fitted CDF| over all whole x ≥ values[first]: at each value, and just before the next one."""
    total = hurwitz_zeta(alpha, values[first])[0]
    above, seen, worst = total, 0, 0.0
    for i in range(first, values.shape[0]):
        seen += counts[i]
        empirical = seen / tail
        above -= exp(-alpha * logs[i])
        worst = max(worst, abs(1 - above / total - empirical))
        if i + 1 < values.shape[0] and values[i + 1] > values[i] + 1:
            above = hurwitz_zeta(alpha, values[i + 1])[0]
            worst = max(worst, abs(1 - above / total - empirical))
    return worst


@kernel
def fit_tail(values: Any, logs: Any, counts: Any, candidates: int, min_tail: int) -> tuple[int, float, float, int]:
    """The fit of least distance among those that start at one of the first ``candidates`` values.

    Args:
        values: float64, the distinct values, ascending.
        logs: float64, their logarithms.
        counts: int64, how often each value occurs.
        candidates: how many values to try as x_min.
        min_tail: tails with fewer observations are not tried, except the first.

    Returns:
        The place of x_min in ``values``, α, the Kolmogorov–Smirnov distance, and the observations from x_min on.
    """
    tail, sum_log = 0, 0.0
    for i in range(values.shape[0]):
        tail += counts[i]
        sum_log += counts[i] * logs[i]
    best, best_alpha, best_distance, best_tail = -1, 0.0, np.inf, 0
    for i in range(candidates):
        if tail < min_tail and best >= 0:
            break
        alpha = exponent(sum_log / tail, values[i])
        distance = ks_distance(values, logs, counts, i, alpha, tail)
        if distance < best_distance:
            best, best_alpha, best_distance, best_tail = i, alpha, distance, tail
        tail -= counts[i]
        sum_log -= counts[i] * logs[i]
    return best, best_alpha, best_distance, best_tail
