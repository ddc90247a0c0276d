from __future__ import annotations

import math

import pytest
from scipy import stats

from handful.statistics import mean_ci95


def test_the_interval_is_students_t() -> None:
    values = [0.71, 0.74, 0.70, 0.73, 0.72]
    low, high = stats.t.interval(0.95, 4, loc=0.72, scale=stats.sem(values))
    summary = mean_ci95(values)
    assert summary["mean"] == pytest.approx(0.72)
    assert summary["ci95"] == pytest.approx((high - low) / 2)


def test_one_value_has_no_interval() -> None:
    assert math.isnan(mean_ci95([0.5])["ci95"])
