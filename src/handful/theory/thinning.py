"""The degree distribution under Random Node Sampling (paper, "Tail degree distribution under RNS"): the exact law, and
its tail."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln


def block_sizes(nodes: int, parts: int) -> np.ndarray:
    """The sizes ``(parts,)`` of the blocks of ``nodes``; they differ by at most one.

    >>> block_sizes(10, 4).tolist()
    [3, 3, 2, 2]
    """
    if not 1 <= parts <= nodes:
        raise ValueError(f"cannot deal {nodes} nodes into {parts} parts")
    return nodes // parts + (np.arange(parts) < nodes % parts)


def edge_survival(nodes: int, parts: int) -> float:
    """The probability that the two ends of an edge are in the same block.

    (N/m − 1)/(N − 1) if m divides N; in general Σ_B |B|(|B| − 1) / (N(N − 1)) over the blocks.

    >>> edge_survival(100, 4) == (100 / 4 - 1) / (100 - 1)
    True
    """
    size = block_sizes(nodes, parts)
    return float(np.sum(size * (size - 1)) / (nodes * (nodes - 1))) if nodes > 1 else 1.0


def hypergeometric(nodes: int, block: int, degree: int) -> np.ndarray:
    """H_{N,d}(k) for k = 0…d: the probability that a node of degree d has k neighbours in its block of ``block`` nodes.

    C(d, k) C(N−1−d, n−k) / C(N−1, n) with n = ``block`` − 1: the n other nodes of the block are drawn without
    replacement from N−1 nodes, and d of these are neighbours. The node has ``degree`` distinct neighbours, not counting
    itself.

    >>> hypergeometric(3, 2, 1).round(3).tolist()
    [0.5, 0.5]
    """
    if not 0 <= degree < nodes:
        raise ValueError(f"a node of a simple graph of {nodes} nodes cannot have degree {degree}")
    k = np.arange(degree + 1)  # scipy.stats.hypergeom takes hundreds of times as long
    others, drawn = nodes - 1, block - 1
    possible = (k <= drawn) & (drawn - k <= others - degree)
    out = np.zeros(degree + 1)
    ways = _log_binomial(degree, k[possible]) + _log_binomial(others - degree, drawn - k[possible])
    out[possible] = np.exp(ways - _log_binomial(others, np.asarray(drawn)))
    return out


def _log_binomial(n: int, k: np.ndarray) -> np.ndarray:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def thinned_degree_law(degrees: ArrayLike, parts: int) -> np.ndarray:
    """p̃(k) = Σ_{d≥k} ν(d)·H_{N,d}(k), for k = 0 to the largest degree: the exact degree law of a sampled part.

    ν is the law of ``degrees``. The block of a random node has size b with probability proportional to b. If m does not
    divide N, the law is the mixture over the two block sizes.

    Args:
        degrees: ``(N,)``, the degree of every node of a simple undirected graph.
        parts: m, the number of parts.

    >>> triangle = [2, 2, 2]
    >>> thinned_degree_law(triangle, 3).tolist()  # every node alone
    [1.0, 0.0, 0.0]
    """
    degrees = np.asarray(degrees, np.int64)
    nodes = len(degrees)
    law = np.bincount(degrees) / nodes
    sizes, blocks = np.unique(block_sizes(nodes, parts), return_counts=True)
    out = np.zeros(len(law))
    for size, times in zip(sizes, blocks, strict=True):
        for degree in np.flatnonzero(law).tolist():
            weight = size * times / nodes * law[degree]
            out[: degree + 1] += weight * hypergeometric(nodes, int(size), degree)
    return out


def power_law_tail(k: ArrayLike, constant: float, alpha: float, parts: int) -> np.ndarray:
    """C·m^{1−α}·k^{−α}: the tail of p̃ for ν(d) = C·d^{−α}(1 + o(1)), as k → ∞ with k = o(N/m).

    The tail has the same exponent as in the whole graph: Random Node Sampling preserves the exponent.

    >>> round(float(power_law_tail(10, 1.0, 2.0, 4)), 6)
    0.0025
    """
    return np.asarray(constant * float(parts) ** (1.0 - alpha) * np.asarray(k, np.float64) ** -alpha)
