"""An analysis that is not in the paper: the effect of an exact first hop and a mean-field neighbour on edge removal,
term (II) of the bias.

If the first hop is exact, the output of the first layer on a block equals its output on the full graph. Only the other
L − 1 of the L hops lose edges. In the second layer, a node of degree d keeps K ~ H_{N,d} neighbours. Without a
mean-field neighbour, the aggregation of the node is 0 with probability H_{N,d}(0). With a mean-field neighbour h'_v of
weight λ, the aggregation is

    z_v = (Σ_{u ∈ N(v) ∩ B} h_u + λ·h'_v) / (K + λ)

Given K, the neighbours in the block are a uniform sample of all neighbours. Hence E[z_v] = E[K/(K + λ)]·h̄_v + E[λ/(K +
λ)]·h'_v, where h̄_v is the mean over all neighbours. In a linear network, h'_v = h̄_v, since the first layer of the
mean is the mean of the first layer; so E[z_v] is exactly h̄_v. With an activation σ, the remaining bias is the Jensen
gap, E[λ/(K + λ)]·(σ of the mean − mean of σ).
"""

from __future__ import annotations

import numpy as np

from handful.theory.thinning import block_sizes, hypergeometric


def empty_row_probability(nodes: int, parts: int, degree: int) -> float:
    """Pr(K = 0): the probability that a node with this degree has no neighbour in its own block. The probability is
    averaged over the block sizes.

    >>> round(empty_row_probability(1000, 4, 3), 2)
    0.42
    """
    return float(sum(size * hypergeometric(nodes, int(size), degree)[0] for size in block_sizes(nodes, parts)) / nodes)


def expected_weights(nodes: int, block: int, degree: int, mean_field: float) -> tuple[float, float]:
    """The expected weight of each neighbour, and of the mean-field neighbour, in the aggregation of a node with this
    degree.

    The two weights are E[K/(K + λ)]/d and E[λ/(K + λ)], for K ~ H_{N,d}. The weights of all d neighbours and of the
    mean-field neighbour sum to 1. If λ = 0, the mean-field neighbour has weight 0, and the neighbours together have
    weight Pr(K > 0).

    >>> each, stand_in = expected_weights(100, 25, degree=4, mean_field=1.0)
    >>> round(4 * each + stand_in, 12)
    1.0
    """
    law, kept = hypergeometric(nodes, block, degree), np.arange(degree + 1)
    share = np.divide(kept, kept + mean_field, out=np.zeros(degree + 1), where=kept + mean_field > 0)
    together = float(law @ share)
    return together / max(1, degree), 1 - together if mean_field else 0.0


def row_variance(nodes: int, block: int, degree: int, mean_field: float) -> float:
    """The variance of z_v over the random blocks, if the mean-field neighbour is h'_v = h̄_v. The unit is S²_v = Σ_u
    (h_u − h̄_v)²/(d − 1).

    Given K, the variance is (K/(K + λ))²·(1/K − 1/d). The second factor is the variance of the mean of K values that
    are drawn from d values without replacement. The conditional expectation of z_v is the same for all K, so it adds no
    variance.

    >>> plain, shrunk = (row_variance(100, 25, 4, value) for value in (1e-9, 1.0))
    >>> shrunk < 0.5 * plain
    True
    """
    law, kept = hypergeometric(nodes, block, degree)[1:], np.arange(1, degree + 1)
    return float(law @ ((kept / (kept + mean_field)) ** 2 * (1 / kept - 1 / degree)))
