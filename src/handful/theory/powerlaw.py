"""The power-law exponent of the degrees in graphs and samples. The exponent is estimated by maximum likelihood
(Clauset, Shalizi and Newman, 2009).

The law is p(x) = x^{−α} / ζ(α, x_min) for integers x ≥ x_min, where ζ is the Hurwitz zeta function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import zeta

from handful.batch import Sample
from handful.graph import Graph
from handful.kernels import csr
from handful.samplers.full import full_adjacency
from handful.statistics import finite_mean


@dataclass(frozen=True)
class PowerLaw:
    """A power law fitted to the values of at least ``x_min``: the exponent ``alpha``, the Kolmogorov–Smirnov
    ``distance``, and ``tail``, the number of these values.
    """

    alpha: float
    x_min: int
    distance: float
    tail: int


def fit_power_law(data: ArrayLike, min_tail: int = 50) -> PowerLaw:
    """Fit a discrete power law to ``data``, by Clauset's method.

    For a given x_min, α maximises −n·ln ζ(α, x_min) − α·Σ ln x over the values x ≥ x_min. α is at most 60, and NaN if
    the data have fewer than two distinct positive values. x_min is the data value whose fit has the smallest
    Kolmogorov–Smirnov distance; the largest value is not tried.

    Args:
        data: integers; only positive values are used.
        min_tail: the minimum number of values in a fit; estimates from fewer values are unreliable (Clauset et al.,
            section 3.3).

    >>> fit_power_law([1] * 800 + [2] * 130 + [3] * 40 + [4] * 20 + [5] * 10).x_min
    1
    """
    values, counts = np.unique(np.asarray(data, np.int64), return_counts=True)
    values, counts = values[values > 0].astype(np.float64), counts[values > 0]
    if len(values) < 2:
        return PowerLaw(float("nan"), int(values[0]) if len(values) else 0, float("nan"), int(counts.sum()))
    tail, sum_log = (np.cumsum(x[::-1])[::-1] for x in (counts, counts * np.log(values)))
    tried = max(1, int(np.count_nonzero(tail[:-1] >= min_tail)))
    alpha = exponents(sum_log[:tried] / tail[:tried], values[:tried])
    distance = [ks_distance(values[i:], counts[i:], alpha[i]) for i in range(tried)]
    best = int(np.argmin(distance))
    return PowerLaw(float(alpha[best]), int(values[best]), distance[best], int(tail[best]))


def exponents(mean_log: np.ndarray, x_min: np.ndarray) -> np.ndarray:
    """The maximum-likelihood α for each pair of ``mean_log`` and ``x_min``: the solution of E_α[ln X] = ``mean_log``,
    by bisection.

    E_α[ln X] is the derivative of −ln ζ with respect to α, and it decreases in α.
    """
    lo, hi = np.full_like(x_min, 1.0 + 1e-6), np.full_like(x_min, 60.0)
    with np.errstate(divide="ignore", invalid="ignore"):  # ζ(α, x) underflows where both are large
        for _ in range(48):
            mid = (lo + hi) / 2
            step = 1e-5 * (mid - 1)
            above = np.log(zeta(mid - step, x_min) / zeta(mid + step, x_min)) > 2 * step * mean_log
            lo, hi = np.where(above, mid, lo), np.where(above, hi, mid)
    return (lo + hi) / 2  # type: ignore[no-any-return]


def ks_distance(values: np.ndarray, counts: np.ndarray, alpha: float) -> float:
    """The maximum of |empirical CDF − fitted CDF| over all integers x ≥ values[0]. The maximum is reached at one of
    ``values``, or just before one.
    """
    seen, from_here = np.cumsum(counts) / counts.sum(), zeta(alpha, values)
    at, before_next = (1 - above / from_here[0] for above in (from_here - values**-alpha, from_here[1:]))
    return float(max(np.abs(at - seen).max(), np.abs(before_next - seen[:-1]).max(initial=0)))


def degrees(graph: Graph | Sample) -> np.ndarray:
    """int64 ``(N,)``: the number of distinct neighbours of each node in a graph or a sampled subgraph; self-loops do
    not count.

    The direction of edges does not matter. The edges of all layers of a batch are merged into one graph. If every layer
    has its own nodes (LADIES), the result instead has one entry per target and layer: the number of edges of the target
    in this layer, without its self-loop.

    >>> degrees(Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 1, 1]])).tolist()
    [1, 2, 1]
    """
    if isinstance(graph, Sample) and any(layer.own_rows is not None for layer in graph.layers):
        drawn = [(la.degree - (1 if la.own_rows is None else (la.own_rows >= 0).long())) for la in graph.layers]
        return torch.cat(drawn).cpu().numpy()
    layers = [layer.square() for layer in graph.layers] if isinstance(graph, Sample) else [full_adjacency(graph)]
    if len(layers) == 1 and layers[0].symmetric:
        indptr, indices = layers[0].indptr.cpu().numpy(), layers[0].indices.cpu().numpy()
    else:
        ends = np.concatenate([layer.edge_index.cpu().numpy() for layer in layers], axis=1)
        indptr, indices, _ = csr.coo_to_csr(ends.ravel(), ends[::-1].ravel(), graph.num_nodes, graph.num_nodes)
    return np.diff(csr.simplify(indptr, indices, drop_loops=True, merge=True)[0])


def alpha_error(sampled: Sequence[float], alpha_full: float) -> float:
    """|α_Sampl − α_Full|, where α_Sampl is the mean exponent of the sampled subgraphs. Subgraphs whose exponent is NaN
    are left out.

    >>> alpha_error([2.0, 3.0, float("nan")], alpha_full=2.0)
    0.5
    """
    return abs(finite_mean(sampled) - alpha_full)
