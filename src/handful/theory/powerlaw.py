"""The exponent of a graph's degrees by maximum likelihood (Clauset, Shalizi and Newman, 2009); how samplers move it.

The law is p(x) = x^{−α} / ζ(α, x_min) on the whole numbers x ≥ x_min, with ζ the Hurwitz zeta function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from handful.batch import Batch
from handful.graph import Graph
from handful.kernels import csr
from handful.kernels.threads import kernel
from handful.samplers.full import full_adjacency

# B_{2j} / (2j)! of the Euler–Maclaurin formula.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)
_DIRECT = 10
_LOWEST, _HIGHEST = 1.0 + 1e-6, 60.0


@dataclass(frozen=True)
class PowerLaw:
    """A fitted tail: exponent ``alpha`` from ``x_min`` on, Kolmogorov–Smirnov ``distance``, ``tail`` observations."""

    alpha: float
    x_min: int
    distance: float
    tail: int


@kernel
def _zeta(s: float, q: float) -> tuple[float, float]:
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
def _alpha(mean_log: float, x_min: float) -> float:
    """The root of E_α[ln X] = mean of ln x, which the likelihood's maximum satisfies; the left side falls in α."""
    lo, hi = _LOWEST, _HIGHEST
    for _ in range(48):
        mid = (lo + hi) / 2
        value, slope = _zeta(mid, x_min)
        if -slope / value > mean_log:
            lo = mid
        else:
            hi = mid
    return (lo + hi) / 2


@kernel
def _distance(values: Any, logs: Any, counts: Any, first: int, alpha: float, tail: int) -> float:
    """sup_x |empirical − fitted CDF| over all whole x ≥ values[first]: at each value, and just before the next one."""
    total = _zeta(alpha, values[first])[0]
    above, seen, worst = total, 0, 0.0
    for i in range(first, values.shape[0]):
        seen += counts[i]
        empirical = seen / tail
        above -= exp(-alpha * logs[i])
        worst = max(worst, abs(1 - above / total - empirical))
        if i + 1 < values.shape[0] and values[i + 1] > values[i] + 1:
            above = _zeta(alpha, values[i + 1])[0]
            worst = max(worst, abs(1 - above / total - empirical))
    return worst


@kernel
def _fit(values: Any, logs: Any, counts: Any, candidates: int, min_tail: int) -> tuple[int, float, float, int]:
    tail, sum_log = 0, 0.0
    for i in range(values.shape[0]):
        tail += counts[i]
        sum_log += counts[i] * logs[i]
    best, best_alpha, best_distance, best_tail = -1, 0.0, np.inf, 0
    for i in range(candidates):
        if tail < min_tail and best >= 0:
            break
        alpha = _alpha(sum_log / tail, values[i])
        distance = _distance(values, logs, counts, i, alpha, tail)
        if distance < best_distance:
            best, best_alpha, best_distance, best_tail = i, alpha, distance, tail
        tail -= counts[i]
        sum_log -= counts[i] * logs[i]
    return best, best_alpha, best_distance, best_tail


def fit_power_law(data: ArrayLike, x_min: int | None = None, min_tail: int = 50) -> PowerLaw:
    """The discrete power law that fits ``data`` (whole numbers; zeros are left out), by Clauset's method.

    For a given x_min, α maximises −n·ln ζ(α, x_min) − α·Σ ln x over the x ≥ x_min. Where ``x_min`` is ``None`` it is
    the value of the data (not the largest) whose fit has the least Kolmogorov–Smirnov distance; tails of fewer than
    ``min_tail`` observations are not tried, since the estimate is unreliable there (their section 3.3). NaN where
    fewer than two distinct values are left. α is searched up to 60.

    >>> fit_power_law([1] * 800 + [2] * 130 + [3] * 40 + [4] * 20 + [5] * 10).x_min
    1
    """
    values, counts = np.unique(np.asarray(data, np.int64), return_counts=True)
    keep = values >= (1 if x_min is None else x_min)
    values, counts = values[keep].astype(np.float64), counts[keep]
    if len(values) < 2:
        return PowerLaw(float("nan"), int(values[0]) if len(values) else 0, float("nan"), int(counts.sum()))
    candidates = len(values) - 1 if x_min is None else 1
    if x_min is not None and values[0] > x_min:
        # The law starts at x_min whether or not the data hold it.
        values, counts = np.insert(values, 0, float(x_min)), np.insert(counts, 0, 0)
    best, alpha, distance, tail = _fit(values, np.log(values), counts, candidates, min_tail)
    return PowerLaw(float(alpha), int(values[best]), float(distance), int(tail))


def degrees(graph: Graph | Batch) -> np.ndarray:
    """How many distinct neighbours each node has among the edges of a graph or a sampled subgraph, loops left out.

    The direction of edges does not matter. The edges of a batch are those of all its layers, as one graph.
    """
    layers = [layer.square() for layer in graph.layers] if isinstance(graph, Batch) else [full_adjacency(graph)]
    if len(layers) == 1 and layers[0].symmetric:
        indptr, indices = layers[0].indptr.cpu().numpy(), layers[0].indices.cpu().numpy()
    else:
        ends = np.concatenate([layer.edge_index.cpu().numpy() for layer in layers], axis=1)
        rows, cols = np.concatenate([ends[0], ends[1]]), np.concatenate([ends[1], ends[0]])
        indptr, indices, _ = csr.coo_to_csr(rows, cols, graph.num_nodes, graph.num_nodes)
    return np.diff(csr.simplify(indptr, indices, drop_loops=True, merge=True)[0])


def alpha_error(sampled: Sequence[float], alpha_full: float) -> float:
    """|α_Sampl − α_Full|, with α_Sampl the mean over sampled subgraphs; those without an exponent are left out."""
    known = [alpha for alpha in sampled if np.isfinite(alpha)]
    return abs(float(np.mean(known)) - alpha_full) if known else float("nan")


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's ρ of two quantities over the samplers: 1 where the same sampler order sorts both."""
    from scipy.stats import spearmanr

    if len(x) < 2 or len(set(x)) < 2 or len(set(y)) < 2:
        return float("nan")
    return float(spearmanr(x, y).statistic)
