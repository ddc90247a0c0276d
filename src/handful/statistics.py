"""Means over seeds with 95% confidence intervals, and tests of the differences between methods."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
import scipy  # it imports its submodules on use: their import takes as long as training on a small graph
from numpy.typing import ArrayLike


def mean_ci95(values: ArrayLike) -> dict[str, float]:
    """The mean of ``values``, and the half-width of its 95% confidence interval: t_{0.975, n-1} · s / √n, or NaN if n
    is 1.

    >>> {name: round(value, 3) for name, value in mean_ci95([1.0, 2.0, 3.0]).items()}
    {'mean': 2.0, 'ci95': 2.484}
    """
    array = np.asarray(values, float)
    n = len(array)
    half = student_t(0.975, n - 1) * float(array.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return {"mean": float(array.mean()), "ci95": half}


def finite_mean(values: ArrayLike) -> float:
    """The mean of the finite values; NaN if no value is finite.

    >>> finite_mean([1.0, float("nan"), 3.0])
    2.0
    """
    array = np.asarray(values, float)
    known = array[np.isfinite(array)]
    return float(known.mean()) if len(known) else float("nan")


def student_t(share: float, freedom: int) -> float:
    """The quantile at probability ``share`` of Student's t distribution with ``freedom`` degrees of freedom.

    >>> round(student_t(0.975, 2), 3)
    4.303
    """
    return float(scipy.special.stdtrit(freedom, share))


def share_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% confidence interval of a share of ``count`` cases.

    >>> [round(end, 3) for end in share_interval(0.5, 10)]
    [0.237, 0.763]
    """
    result = scipy.stats.binomtest(round(share * count), count).proportion_ci(method="wilson")
    return float(result.low), float(result.high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust several p-values by Holm's method, which controls the probability of at least one false rejection.

    NaN stays NaN and does not count as a test.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    p = np.array(p_values, float)
    order = p.argsort()  # NaN comes last
    p[order] = np.maximum.accumulate(np.minimum(1, p[order] * (np.isfinite(p).sum() - np.arange(len(p)))))
    return list(map(float, p))


def paired_t(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The two-sided p-value of Student's paired t-test; 1 if all differences are 0, NaN for fewer than two pairs.

    >>> round(paired_t([2.0, 3.0, 4.0], [1.0, 1.0, 3.0]), 3)
    0.057
    """
    off = np.subtract(ours, theirs)
    if len(off) < 2:
        return float("nan")
    if np.ptp(off) == 0:  # all pairs have the same difference
        return float(off[0] == 0)
    return float(scipy.stats.ttest_rel(ours, theirs).pvalue)


def wilcoxon_signed(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test; 1 if all differences are 0.

    >>> round(wilcoxon_signed([5.0, 6.0, 7.0, 8.0, 9.0], [4.0, 4.0, 4.0, 4.0, 4.0]), 4)
    0.0625
    """
    off = np.subtract(ours, theirs)
    return float(scipy.stats.wilcoxon(off).pvalue) if off.any() else 1.0


def mean_ranks(scores: ArrayLike, highest: bool = True) -> np.ndarray:
    """The mean rank of each method over the data sets, ``(methods,)``. Rank 1 is the best; tied methods share their
    mean rank.

    Args:
        scores: ``(data sets, methods)``.
        highest: whether a larger score is better.

    >>> mean_ranks([[0.9, 0.8, 0.7], [0.5, 0.6, 0.5]]).tolist()
    [1.75, 1.5, 2.75]
    """
    scores = np.asarray(scores, float)
    return np.asarray(scipy.stats.rankdata(-scores if highest else scores, axis=1).mean(0))


def friedman(scores: ArrayLike) -> float:
    """The p-value of Friedman's test that all methods have equal ranks; ``scores`` has the shape (data sets, methods).

    The test needs at least three methods and two data sets.

    >>> friedman([[3, 2, 1], [3, 2, 1], [3, 2, 1], [3, 2, 1]]) < 0.05
    True
    """
    return float(scipy.stats.friedmanchisquare(*np.asarray(scores, float).T).pvalue)


def critical_difference(methods: int, data_sets: int, alpha: float = 0.05) -> float:
    """Nemenyi's critical difference between the mean ranks of two methods: q_α·√(k(k + 1)/(6N)), for k methods and N
    data sets.

    q_α is the upper α quantile of the studentised range of k groups, divided by √2 (Demšar, 2006).

    >>> round(critical_difference(4, 14), 2)  # Demšar's example: 2.569·√(4·5/(6·14)) = 1.25
    1.25
    """
    q = float(scipy.stats.studentized_range.ppf(1 - alpha, methods, np.inf)) / sqrt(2)
    return q * sqrt(methods * (methods + 1) / (6 * data_sets))
