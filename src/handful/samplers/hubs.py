"""Hubs: the nodes of largest in-degree, which Random Node Sampling can put into every part as helpers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from handful.errors import SamplerError
from handful.graph import Graph

Hubs = int | float | str
"""How hubs are chosen: a share of the nodes, a number of them, ``degree>=K``, or ``auto``."""
WANTED = "a share of the nodes in (0, 1), a whole number of nodes from 1 on, degree>=K or auto"
THRESHOLD = re.compile(r"degree\s*>=\s*(\d+)")


def checked_hubs(hubs: Any) -> Hubs | None:
    """``hubs`` as plain values; ``None`` for none.

    Raises:
        SamplerError: it is no way to choose hubs.

    >>> checked_hubs(0.05), checked_hubs(6), checked_hubs("degree >= 100"), checked_hubs("auto")
    (0.05, 6, 'degree>=100', 'auto')
    """
    if hubs is None:
        return None
    if isinstance(hubs, str) and hubs == "auto":
        return hubs
    if isinstance(hubs, str) and (found := THRESHOLD.fullmatch(hubs.strip())):
        return f"degree>={int(found[1])}"
    if isinstance(hubs, Integral) and not isinstance(hubs, bool) and int(hubs) >= 1:
        return int(hubs)
    if isinstance(hubs, Real) and not isinstance(hubs, Integral) and 0 < float(hubs) < 1:
        return float(hubs)
    raise SamplerError(f"hubs takes {WANTED}, got {hubs!r}")


def hubs_by_degree(graph: Graph, count: int) -> np.ndarray:
    """int64, the ``count`` nodes of largest in-degree, largest first; of equals, the smallest ids first.

    >>> hubs_by_degree(Graph.from_edge_index([[0, 1, 2, 3], [3, 3, 3, 2]]), count=3).tolist()
    [3, 2, 0]
    """
    tally = np.zeros(TALLIED + 1, np.int64)
    for _, degree in _degrees(graph):
        tally += np.bincount(np.minimum(degree, TALLIED), minlength=TALLIED + 1)
    at_least = np.append(np.cumsum(tally[::-1])[::-1], 0)
    least = max(0, int(np.searchsorted(-at_least, -count, side="right")) - 1)
    # Of the nodes of that very degree only the first are taken; of those beyond the tally there are never many.
    equals = count - int(at_least[least + 1]) if least < TALLIED else graph.num_nodes
    chosen, degrees = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin, degree in _degrees(graph):
        equal = np.flatnonzero(degree == least)[:equals]
        equals -= len(equal)
        here = np.concatenate([np.flatnonzero(degree > least), equal])
        chosen.append(begin + here)
        degrees.append(degree[here])
    ids = np.concatenate(chosen)
    return ids[np.lexsort((ids, -np.concatenate(degrees)))][:count]


TALLIED = 1 << 16
"""In-degrees from this on are not told apart when hubs are counted."""
ROWS = 1 << 20
"""How many nodes are looked at together: neither degrees nor edges may fit into memory a second time."""


def _degrees(graph: Graph) -> Iterator[tuple[int, np.ndarray]]:
    """The in-degrees by blocks of nodes, and the first node of each."""
    for begin in range(0, graph.num_nodes, ROWS):
        yield begin, graph.in_degrees(begin, min(begin + ROWS, graph.num_nodes))


MORE_ROWS = 0.2
"""How many more rows than the graph has an epoch with ``auto`` may compute, as a share of N."""


def auto_count(graph: Graph, parts: int) -> int:
    """How many hubs ``auto`` takes: the most whose epoch costs about what an epoch on the full graph does.

    With h hubs an epoch of m parts computes up to N + (m − 1)·h rows and aggregates about

        A(h) = E₀/m + E₁ + m·E₂

    edges, where E₂ have hubs at both ends, E₁ at one end and E₀ at none: an edge between two other nodes is kept if
    they share a part, one at a hub is kept in the part of its other end, and one between hubs in every part. ``auto``
    is the largest h with A(h) ≤ E and (m − 1)·h ≤ ``MORE_ROWS``·N.

    >>> import handful as hf
    >>> auto_count(hf.load("debian"), parts=4)
    2042
    """
    n, m = graph.num_nodes, parts
    most = 0 if m == 1 else min(n, int(MORE_ROWS * n / (m - 1)))  # one part has every node already
    either, both = hub_edges(graph, most)
    aggregated = (graph.num_edges - either) / m + (either - both) + m * both
    return int(np.searchsorted(aggregated > graph.num_edges, True)) - 1


def hub_edges(graph: Graph, most: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 ``(most + 1,)`` each: how many edges have an end, and both ends, among the h largest hubs, h = 0 … most.

    >>> star = Graph.from_edge_index([[0, 1, 2, 0, 0, 0], [0, 0, 0, 1, 2, 3]])
    >>> [counts.tolist() for counts in hub_edges(star, 2)]
    [[0, 6, 6], [0, 1, 3]]
    """
    indptr, indices = graph.topology
    rank = np.full(graph.num_nodes, most, np.int32)
    rank[hubs_by_degree(graph, most)] = np.arange(most)
    either, both = np.zeros(most + 2, np.int64), np.zeros(most + 2, np.int64)
    for begin in range(0, graph.num_nodes, ROWS):
        ends = indptr[begin : begin + ROWS + 1]
        target = np.repeat(rank[begin : begin + ROWS], np.diff(ends))
        source = rank[indices[ends[0] : ends[-1]]]
        either[1:] += np.bincount(np.minimum(source, target), minlength=most + 1)
        both[1:] += np.bincount(np.maximum(source, target), minlength=most + 1)
    return np.cumsum(either)[:-1], np.cumsum(both)[:-1]


_known: WeakKeyDictionary[Graph, dict[tuple[Hubs, int], np.ndarray]] = WeakKeyDictionary()


def hub_nodes(graph: Graph, hubs: Hubs | None, parts: int) -> np.ndarray:
    """int64, ascending: the nodes that ``hubs`` chooses for ``parts`` parts; of equal in-degrees the smallest ids.

    Raises:
        SamplerError: the graph has fewer nodes than asked for, or none of that degree.

    >>> star = Graph.from_edge_index([[0, 1, 2, 3, 4], [3, 3, 3, 2, 2]])
    >>> [hub_nodes(star, hubs, parts=2).tolist() for hubs in (None, 1, 0.4, "degree>=2")]
    [[], [3], [2, 3], [2, 3]]
    """
    if hubs is None:
        return np.empty(0, np.int64)
    known = _known.setdefault(graph, {})
    if (hubs, parts) not in known:
        known[hubs, parts] = np.sort(hubs_by_degree(graph, _count(graph, hubs, parts)))
    return known[hubs, parts]


def _count(graph: Graph, hubs: Hubs, parts: int) -> int:
    if hubs == "auto":
        return auto_count(graph, parts)
    if isinstance(hubs, str):
        least = int(hubs.partition(">=")[2])
        largest = max((int(degree.max()) for _, degree in _degrees(graph)), default=0)
        if least > largest:
            raise SamplerError(f"hubs: no node of {graph.name} has {hubs}: the largest in-degree is {largest}")
        return sum(int((degree >= least).sum()) for _, degree in _degrees(graph))
    if isinstance(hubs, float):
        return min(graph.num_nodes, max(1, round(hubs * graph.num_nodes)))
    if hubs > graph.num_nodes:
        raise SamplerError(f"hubs: {graph.name} has {graph.num_nodes} nodes, fewer than {hubs}")
    return hubs
