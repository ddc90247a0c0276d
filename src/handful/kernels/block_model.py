"""Draw a graph and its features from a stochastic block model. Every random number is a hash of (key, counter).

A *place* is an index into ``member``, which lists the nodes class by class. Pairs ``first[p]`` to ``first[p + 1] - 1``
belong to place p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.buckets import in_buckets, sorted_rows
from handful.kernels.csr import Array, starts
from handful.kernels.hashing import below, mix, uniform
from handful.kernels.threads import even_ranges, get_threads, kernel, row_ranges, run


@kernel
def _draw(lo: int, hi: int, begin: int, first: Any, start: Any, member: Any, low: Any, high: Any, offset: Any,
          power: float, homophily: float, key: Any, out: Any) -> None:  # fmt: skip
    """Draw the second node of each pair of the places ``begin + lo`` to ``begin + hi - 1``."""
    classes = start.shape[0] - 1
    own = np.searchsorted(start, begin + lo, side="right") - 1
    for i in range(lo, hi):
        while begin + i >= start[own + 1]:
            own += 1
        for e in range(first[i], first[i + 1]):
            c = own
            if uniform(key, 3 * e) >= homophily:
                c = (own + 1 + below(key, 3 * e + 1, classes - 1)) % classes
            u = uniform(key, 3 * e + 2)
            rank = int((low[c] + u * (high[c] - low[c])) ** (1 / power) - offset[c])
            out[e - first[0]] = member[min(start[c] + max(rank, 0), start[c + 1] - 1)]


def draw_ends(
    first: Array, start: Array, member: Array, offset: Array, power: float, homophily: float, key: Any, begin: int = 0
) -> Array:
    """Draw the second node of every pair that belongs to the given places.

    With probability ``homophily``, the second node has the class of the pair's place; otherwise it has another class,
    drawn uniformly. The rank of the second node in its class is ⌊(low + u·(high − low))^(1/power) − offset⌋, with u
    uniform in [0, 1), low = offset^power and high = (size of the class + offset)^power.

    Args:
        first: int64 ``(places + 1,)``, the first pair of each given place.
        start: int64 ``(classes + 1,)``, the first place of each class.
        member: the node at each place, for all places of the graph.
        offset: float64 ``(classes,)``, the offset of each class in the formula of the rank.
        power: the power in the formula of the rank, for all classes.
        homophily: the fraction of pairs within a class.
        key: uint64, the key of the random numbers.
        begin: the first of the given places.

    Returns:
        ``(pairs,)``, node ids, with the dtype of ``member``.
    """
    out = np.empty(int(first[-1] - first[0]), member.dtype)
    by_class = list(zip(np.diff(start).tolist(), offset.tolist(), strict=True))
    low, high = (np.array([(k * size + o) ** power for size, o in by_class]) for k in (0, 1))
    ranges = row_ranges(first - first[0], get_threads())
    run(_draw, ranges, begin, first, start, member, low, high, offset, power, homophily, key, out)
    return out


def simple_rows(first: Array, member: Array, other: Array) -> tuple[Array, Array]:
    """``indptr`` and ``indices`` of the simple undirected graph with the edges ``(member[place], other[pair])``.

    Pairs that join a node with itself are dropped, and repeated pairs are merged.
    """
    n = len(member)
    records = in_buckets(np.repeat(member, np.diff(first)), other, n, base=0, shift=62, buckets=1, both=True)[0]
    degree, sources = sorted_rows(records, 0, n, loops=False, repeated=False)
    # A copy if pairs were merged: a view would keep the memory of all pairs.
    return starts(degree), sources if len(sources) == len(records) else sources.copy()


@kernel
def _noisy(lo: int, hi: int, begin: int, y: Any, means: Any, key: Any, out: Any) -> None:
    """Add normal noise to the means. The Box–Muller method converts two uniform numbers to two normal numbers."""
    columns = out.shape[1]
    for i in range(lo, hi):
        own = mix(key, begin + i)
        for j in range(0, columns, 2):
            radius = np.sqrt(-2 * np.log(1 - uniform(own, j)))
            angle = 2 * np.pi * uniform(own, j + 1)
            out[i, j] = means[y[i], j] + radius * np.cos(angle)
            if j + 1 < columns:
                out[i, j + 1] = means[y[i], j + 1] + radius * np.sin(angle)


def noisy_means(y: Array, means: Array, key: np.uint64, begin: int = 0) -> Array:
    """float32 ``(nodes, features)``: for each node i, row ``y[i]`` of ``means`` plus standard normal noise.

    ``begin`` is the id of the first node: the noise of a node depends only on its id and on ``key``.
    """
    out = np.empty((len(y), means.shape[1]), np.float32)
    run(_noisy, even_ranges(len(y), get_threads()), begin, y, means, key, out)
    return out
