"""Means over seeds and their 95% confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit


def mean_ci95(values: Sequence[float]) -> dict[str, float]:
    """The mean of ``values`` and the half-width of its 95% interval, t_{0.975, n-1} · s / √n; NaN if n is 1.

    >>> {name: round(value, 3) for name, value in mean_ci95([1.0, 2.0, 3.0]).items()}
    {'mean': 2.0, 'ci95': 2.484}
    """
    array = np.asarray(values, float)
    n = len(array)
    half = float(stdtrit(n - 1, 0.975) * array.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return {"mean": float(array.mean()), "ci95": half}
