"""Hubs: nodes of large in-degree, which Random Node Sampling can put into every part as helpers.

They are the largest, the same in all epochs, or drawn anew for every epoch: node v of in-degree d_v is then a helper
with probability π_v = min(1, c·d_v), independently of all others. All parts of an epoch have the same helpers, so that
one pass over the edges cuts them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from handful.errors import SamplerError
from handful.graph import Graph
from handful.random import generator

Hubs = int | float | str
"""How hubs are chosen: a share of the nodes, a number of them, ``degree>=K``, ``drawn=SHARE``, or ``auto``."""
WANTED = "a share of the nodes in (0, 1), a whole number of nodes from 1 on, degree>=K, drawn=SHARE or auto"
THRESHOLD = re.compile(r"degree\s*>=\s*(\d+)")
DRAWN = re.compile(r"drawn\s*=\s*(\d*\.?\d+(?:e-?\d+)?)")


def checked_hubs(hubs: Any) -> Hubs | None:
    """``hubs`` as plain values; ``None`` for none.

    Raises:
        SamplerError: it is no way to choose hubs.

    >>> checked_hubs(0.05), checked_hubs(6), checked_hubs("degree >= 100"), checked_hubs("drawn = .25")
    (0.05, 6, 'degree>=100', 'drawn=0.25')
    """
    if hubs is None or (isinstance(hubs, str) and hubs == "auto"):
        return hubs
    if isinstance(hubs, str) and (result := THRESHOLD.fullmatch(hubs.strip())):
        return f"degree>={int(result[1])}"
    if isinstance(hubs, str) and (result := DRAWN.fullmatch(hubs.strip())) and 0 < float(result[1]) < 1:
        return f"drawn={float(result[1])}"
    if isinstance(hubs, Integral) and not isinstance(hubs, bool) and int(hubs) >= 1:
        return int(hubs)
    if isinstance(hubs, Real) and not isinstance(hubs, Integral) and 0 < float(hubs) < 1:
        return float(hubs)
    raise SamplerError(f"hubs takes {WANTED}, got {hubs!r}")


# -- degrees ----------------------------------------------------------------------------------------------------------

ROWS = 1 << 20
"""How many nodes are looked at together: neither degrees nor edges may fit into memory a second time."""
TALLIED = 1 << 16
"""In-degrees below this are counted in a table; of others there are never many."""


def _degrees(graph: Graph) -> Iterator[tuple[int, np.ndarray]]:
    """The in-degrees by blocks of nodes, and the first node of each."""
    for begin in range(0, graph.num_nodes, ROWS):
        yield begin, graph.in_degrees(begin, min(begin + ROWS, graph.num_nodes))


def degree_tally(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The in-degrees that occur, ascending, and how many nodes have each.

    >>> [tally.tolist() for tally in degree_tally(Graph.from_edge_index([[0, 1, 2, 3], [3, 3, 3, 2]]))]
    [[0, 1, 3], [2, 1, 1]]
    """
    low, high = np.zeros(TALLIED, np.int64), [np.empty(0, np.int64)]
    for _, degree in _degrees(graph):
        low += np.bincount(degree[degree < TALLIED], minlength=TALLIED)
        high.append(degree[degree >= TALLIED])
    values, counts = np.unique(np.concatenate(high), return_counts=True)
    return np.concatenate([np.flatnonzero(low), values]), np.concatenate([low[low > 0], counts])


# -- the largest ------------------------------------------------------------------------------------------------------


def hubs_by_degree(graph: Graph, count: int) -> np.ndarray:
    """int64, the ``count`` nodes of largest in-degree, largest first; of equals, the smallest ids first.

    >>> hubs_by_degree(Graph.from_edge_index([[0, 1, 2, 3], [3, 3, 3, 2]]), count=3).tolist()
    [3, 2, 0]
    """
    n, first = graph.num_nodes, np.empty(0, np.int64)
    for begin, degree in _degrees(graph):
        # One number has both: the larger the degree, and then the smaller the id, the smaller it is.
        first = np.concatenate([first, np.arange(begin, begin + len(degree)) - degree * n])
        first = np.partition(first, count - 1)[:count] if len(first) > count else first
    return np.sort(first) % max(1, n)


def _count(graph: Graph, hubs: Hubs) -> int:
    if isinstance(hubs, str):
        least = int(hubs.partition(">=")[2])
        values, counts = degree_tally(graph)
        largest = int(values.max(initial=0))
        if least > largest:
            raise SamplerError(f"hubs: no node of {graph.name} has {hubs}: the largest in-degree is {largest}")
        return int(counts[values >= least].sum())
    if isinstance(hubs, float):
        return min(graph.num_nodes, max(1, round(hubs * graph.num_nodes)))
    if hubs > graph.num_nodes:
        raise SamplerError(f"hubs: {graph.name} has {graph.num_nodes} nodes, fewer than {hubs}")
    return hubs


# -- drawn by degree --------------------------------------------------------------------------------------------------

MORE_ROWS = 0.75
"""How many more rows than the graph has an epoch with ``auto`` may compute, as a share of N."""
_STREAM = 1 << 31
"""The key of the stream that draws helpers; smaller ones are the steps of an epoch."""


def inclusion_factor(degree: np.ndarray, count: np.ndarray, total: float) -> float:
    """c with Σ count·min(1, c·degree) = ``total``; infinity where even all of them come to less.

    Args:
        degree: ascending, positive.
        count: how much there is of each degree.

    >>> inclusion_factor(np.array([1, 2, 8]), np.array([4, 2, 1]), total=3.0)  # 4/4 + 2·2/4 + 1
    0.25
    """
    if total >= count.sum():
        return float("inf")
    linear = np.cumsum(count * degree)  # of the smallest degrees, which are below 1/c
    full = np.append(np.cumsum(count[::-1])[::-1][1:], 0)  # of those above them
    factor = (total - full) / linear
    return float(factor[np.flatnonzero(factor * degree <= 1 + 1e-12)[-1]])


def auto_factor(graph: Graph, parts: int) -> float:
    """c of ``auto``: an epoch aggregates about E edges, as one on the full graph, and computes 1.75·N rows at most.

    Let δ be the share of all ends of edges that helpers hold, Σ_v d_v·π_v / E. Of an edge whose ends are independent,
    each end is in a given part with probability δ + (1 − δ)/m, so that an epoch of m parts aggregates

        A = m·(δ + (1 − δ)/m)²·E = (1 + (m − 1)·δ)²·E/m

    edges, and A ≤ E means δ ≤ 1/(√m + 1). ``auto`` takes this δ, or less where the rows N + (m − 1)·Σ_v π_v would come
    to more than (1 + ``MORE_ROWS``)·N. Nothing is drawn for one part, which has every node.

    >>> import handful as hf
    >>> debian = hf.load("debian")
    >>> round(float(inclusion(debian, "auto", parts=4).mean()), 3)
    0.051
    """
    if parts == 1:
        return 0.0
    degree, count = _positive(graph)
    by_edges = inclusion_factor(degree, count * degree, graph.num_edges / (parts**0.5 + 1))
    return min(by_edges, inclusion_factor(degree, count, MORE_ROWS * graph.num_nodes / (parts - 1)))


def _positive(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    degree, count = degree_tally(graph)
    return degree[degree > 0], count[degree > 0]


def _probability(degree: np.ndarray, factor: float) -> np.ndarray:
    chance: np.ndarray = np.minimum(1.0, np.where(degree > 0, factor, 0.0) * np.maximum(degree, 1))
    return chance


# -- as a sampler asks for them ---------------------------------------------------------------------------------------

_known: WeakKeyDictionary[Graph, dict[tuple[Hubs, int], Any]] = WeakKeyDictionary()


def _choose(graph: Graph, hubs: Hubs | None, parts: int) -> np.ndarray | float:
    """The nodes that ``hubs`` chooses, ascending, or the factor by which it draws them; found once for a graph."""
    if hubs is None:
        return np.empty(0, np.int64)
    known = _known.setdefault(graph, {})
    if (hubs, parts) not in known:
        if hubs == "auto":
            known[hubs, parts] = auto_factor(graph, parts)
        elif isinstance(hubs, str) and hubs.startswith("drawn"):
            share = float(hubs.partition("=")[2])  # of the nodes, drawn in expectation
            known[hubs, parts] = inclusion_factor(*_positive(graph), share * graph.num_nodes)
        else:
            known[hubs, parts] = np.sort(hubs_by_degree(graph, _count(graph, hubs)))
    return known[hubs, parts]  # type: ignore[no-any-return]


def hub_nodes(graph: Graph, hubs: Hubs | None, parts: int, seed: int, epoch: int) -> np.ndarray:
    """int64, ascending: the helpers of all ``parts`` parts of an epoch.

    Raises:
        SamplerError: the graph has fewer nodes than asked for, or none of that degree.

    >>> star = Graph.from_edge_index([[0, 1, 2, 3, 4], [3, 3, 3, 2, 2]])
    >>> [hub_nodes(star, hubs, 2, seed=0, epoch=0).tolist() for hubs in (None, 1, 0.4, "degree>=2", "drawn=0.4")]
    [[], [3], [2, 3], [2, 3], [2, 3]]
    """
    chosen = _choose(graph, hubs, parts)
    if not isinstance(chosen, float):
        return chosen
    rng, drawn = generator(seed, epoch, _STREAM), [np.empty(0, np.int64)]
    for begin, degree in _degrees(graph):
        drawn.append(begin + np.flatnonzero(rng.random(len(degree)) < _probability(degree, chosen)))
    return np.concatenate(drawn)


def inclusion(graph: Graph, hubs: Hubs | None, parts: int) -> np.ndarray:
    """float64 ``(N,)``: π, the probability of every node to be a helper in an epoch; 0 or 1 where nothing is drawn.

    >>> star = Graph.from_edge_index([[0, 1, 2, 3], [3, 3, 3, 2]])
    >>> [inclusion(star, hubs, parts=2).tolist() for hubs in (1, "drawn=0.25")]
    [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.25, 0.75]]
    """
    chosen = _choose(graph, hubs, parts)
    if isinstance(chosen, float):
        return np.concatenate([np.empty(0), *(_probability(degree, chosen) for _, degree in _degrees(graph))])
    out = np.zeros(graph.num_nodes)
    out[chosen] = 1
    return out


def expected_share(graph: Graph, hubs: Hubs | None, parts: int) -> float:
    """The share of the nodes that are helpers, in expectation where they are drawn."""
    chosen = _choose(graph, hubs, parts)
    if isinstance(chosen, float):
        degree, count = degree_tally(graph)
        return float(count @ _probability(degree, chosen)) / max(1, graph.num_nodes)
    return len(chosen) / max(1, graph.num_nodes)
