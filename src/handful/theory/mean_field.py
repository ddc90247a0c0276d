"""The effect of an exact first hop and a mean-field neighbour on term (II), edge removal; this is not in the paper.

With an exact first hop, the first layer of a block equals the first layer on the full graph. Only the other L − 1 of L
hops lose edges. In the next layer a node of degree d keeps K ~ H_{N,d} neighbours. Without a mean-field neighbour, the
aggregation of the node is 0 with probability H_{N,d}(0). With a mean-field neighbour of weight λ, the aggregation is

    z_v = (Σ_{u ∈ N(v) ∩ B} h_u + λ·h'_v) / (K + λ)

Given K, the neighbours in the block are a uniform sample. Hence E[z_v] = E[K/(K + λ)]·h̄_v + E[λ/(K + λ)]·h'_v, where
h̄_v is the mean over all neighbours. In a linear network h'_v = h̄_v: the first layer of the mean is the mean of the
first layer. So E[z_v] = h̄_v exactly in a linear network. With an activation σ, the remaining bias is Jensen's gap,
E[λ/(K + λ)]·(σ of the mean − mean of σ).
"""

from __future__ import annotations

import numpy as np

from handful.theory.thinning import block_sizes, hypergeometric


def empty_row_probability(nodes: int, parts: int, degree: int) -> float:
    """Pr(K = 0), the probability that a node of this degree has no neighbour in its block, averaged over the block
    sizes.

    >>> round(empty_row_probability(1000, 4, 3), 2)
    0.42
    """
    sizes = block_sizes(nodes, parts)
    return float(sum(size * hypergeometric(nodes, int(size), degree)[0] for size in sizes) / nodes)


def expected_weights(nodes: int, block: int, degree: int, mean_field: float) -> tuple[float, float]:
    """The expected weights of each neighbour and of the mean-field neighbour, in the row of a node of this degree.

    E[K/(K + λ)]/d and E[λ/(K + λ)], for K ~ H_{N,d}. The weights of all d neighbours and of the mean-field neighbour
    sum to 1. With λ = 0 the mean-field neighbour has no weight, and all neighbours together have the weight Pr(K > 0).

    >>> each, stand_in = expected_weights(100, 25, degree=4, mean_field=1.0)
    >>> round(4 * each + stand_in, 12)
    1.0
    """
    law, kept = hypergeometric(nodes, block, degree), np.arange(degree + 1)
    share = np.divide(kept, kept + mean_field, out=np.zeros(degree + 1), where=kept + mean_field > 0)
    together = float(law @ share)
    return together / max(1, degree), 1 - together if mean_field else 0.0


def row_variance(nodes: int, block: int, degree: int, mean_field: float) -> float:
    """Var(z_v) over the blocks, in units of S²_v = Σ_u (h_u − h̄_v)²/(d − 1), for a mean-field neighbour h'_v = h̄_v.

    Given K, the variance is (K/(K + λ))²·(1/K − 1/d): the variance of the mean of K of d values drawn without
    replacement, reduced by λ. The expectation given K is the same for all K, so the expectation adds no variance.

    >>> plain, shrunk = (row_variance(100, 25, 4, value) for value in (1e-9, 1.0))
    >>> shrunk < 0.5 * plain
    True
    """
    law, kept = hypergeometric(nodes, block, degree)[1:], np.arange(1, degree + 1)
    return float(law @ ((kept / (kept + mean_field)) ** 2 * (1 / kept - 1 / degree)))
