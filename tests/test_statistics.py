from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from handful.statistics import (
    critical_difference,
    friedman,
    holm,
    mean_ci95,
    mean_ranks,
    paired_t,
    wilcoxon_signed,
)


def test_the_interval_is_students_t() -> None:
    values = [0.71, 0.74, 0.70, 0.73, 0.72]
    low, high = stats.t.interval(0.95, 4, loc=0.72, scale=stats.sem(values))
    summary = mean_ci95(values)
    assert summary["mean"] == pytest.approx(0.72)
    assert summary["ci95"] == pytest.approx((high - low) / 2)


def test_one_value_has_no_interval() -> None:
    assert math.isnan(mean_ci95([0.5])["ci95"])


def test_holm_by_its_definition() -> None:
    """Reject in order while p_(i) ≤ α/(k − i): the adjusted value is the least α at which that happens."""
    p = [0.011, 0.04, 0.02, 0.3, float("nan")]
    adjusted = holm(p)
    assert math.isnan(adjusted[4])
    for alpha in np.linspace(0.001, 1, 1500):
        rejected: set[int] = set()
        for i in sorted(range(4), key=lambda i: p[i]):
            if p[i] > alpha / (4 - len(rejected)):
                break
            rejected.add(i)
        assert {i for i in range(4) if adjusted[i] <= alpha} == rejected


def test_paired_tests_against_their_definitions() -> None:
    a, b = [0.71, 0.74, 0.70, 0.77, 0.73], [0.70, 0.71, 0.70, 0.72, 0.735]
    off = np.subtract(a, b)
    t = off.mean() / (off.std(ddof=1) / math.sqrt(5))
    assert paired_t(a, b) == pytest.approx(2 * stats.t.sf(abs(t), 4))
    assert paired_t(a, a) == wilcoxon_signed(a, a) == 1.0
    assert paired_t([2.0, 3.0], [1.0, 2.0]) == 0.0
    assert math.isnan(paired_t([1.0], [2.0]))
    # Every sign that the ranks 1 to 6 of |differences| may have: how often their sum is as extreme as the one seen.
    x = [1.0, -2.0, 3.0, 4.0, 5.0, 6.0]
    sums = [sum(r for r, sign in zip(range(1, 7), signs, strict=True) if sign) for signs in product((0, 1), repeat=6)]
    seen = sum(abs(v) for v in x if v > 0)
    extreme = [s for s in sums if min(s, 21 - s) <= min(seen, 21 - seen)]
    assert wilcoxon_signed(x, [0.0] * 6) == pytest.approx(len(extreme) / 64)


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_quantiles_of_demsar_s_table(methods: int, q: float) -> None:
    expected = q * math.sqrt(methods * (methods + 1) / (6 * 11))
    assert critical_difference(methods, 11) == pytest.approx(expected, rel=1e-3)


def test_ranks_share_their_mean_and_friedman_has_its_formula() -> None:
    assert mean_ranks([[1.0, 2.0, 2.0]]).tolist() == [3.0, 1.5, 1.5]
    assert mean_ranks([[1.0, 2.0, 2.0]], highest=False).tolist() == [1.0, 2.5, 2.5]
    scores = np.array([[3, 2, 1], [3, 1, 2], [3, 2, 1], [2, 3, 1]])
    sums = np.array([rank.sum() for rank in np.stack([stats.rankdata(-row) for row in scores]).T])
    chi = 12 / (4 * 3 * 4) * (sums**2).sum() - 3 * 4 * 4
    assert friedman(scores) == pytest.approx(stats.chi2.sf(chi, 2))
