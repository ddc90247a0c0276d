"""Means over seeds and their 95% confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mean_ci95(values: Sequence[float]) -> dict[str, float]:
    """The mean of ``values`` and the half-width of its 95% interval, t_{0.975, n-1} · s / √n; NaN if n is 1.

    >>> {name: round(value, 3) for name, value in mean_ci95([1.0, 2.0, 3.0]).items()}
    {'mean': 2.0, 'ci95': 2.484}
    """
    array = np.asarray(values, float)
    n = len(array)
    half = student_t(0.975, n - 1) * float(array.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return {"mean": float(array.mean()), "ci95": half}


def student_t(share: float, freedom: int) -> float:
    """The point of Student's t distribution with so many degrees of freedom that ``share`` of it lies below.

    >>> round(student_t(0.975, 2), 3)
    4.303
    """
    from scipy.special import stdtrit  # when needed: it takes as long to import as a small graph to train on

    return float(stdtrit(freedom, share))
