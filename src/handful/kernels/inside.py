"""The edges inside the parts of a partition, in one pass over an edge list and in the order of that list."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.csr import index_dtype
from handful.kernels.threads import even_ranges, kernel, run


@kernel
def _keep(
    lo: int, hi: int, source: Any, target: Any, source_part: Any, target_part: Any, none: int, kept: Any, own: Any
) -> int:
    at = lo
    for e in range(lo, hi):
        part = source_part[source[e]]
        kept[at] = e  # always: there is no branch to mispredict
        own[at] = part
        at += (part == target_part[target[e]]) & (part != none)
    return at


@kernel
def _count(lo: int, hi: int, own: Any, count: Any) -> None:
    for k in range(lo, hi):
        count[own[k]] += 1


@kernel
def _scatter(lo: int, hi: int, own: Any, cursor: Any, kept: Any, out: Any) -> None:
    for k in range(lo, hi):
        at = cursor[own[k]]
        out[at] = kept[k]
        cursor[own[k]] = at + 1


def inside(
    source: np.ndarray, target: np.ndarray, source_part: np.ndarray, target_part: np.ndarray, m: int, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The places of all edges whose two ends have the same part, part by part and ascending; where each part begins.

    Args:
        source, target: of every edge; checked by the caller.
        source_part, target_part: of every node, 0 to ``m - 1``; ``m`` if it is in no part.

    >>> part = np.array([0, 1, 0, 1], np.uint8)
    >>> inside(np.array([0, 1, 2, 3, 0]), np.array([2, 3, 1, 1, 0]), part, part, 2)
    (array([0, 4, 1, 3], dtype=int32), array([0, 2, 4]))
    """
    # As long as the edge list, but only the pages with kept edges are ever touched.
    kept, own = np.empty(len(source), index_dtype(len(source))), np.empty(len(source), source_part.dtype)
    ranges = even_ranges(len(source), threads if len(source) > 20_000 else 1)
    stops = run(_keep, ranges, source, target, source_part, target_part, m, kept, own)
    held = [(lo, stop) for (lo, _), stop in zip(ranges, stops, strict=True)]
    count = np.zeros((len(held), m), np.int64)
    _each(_count, held, own, count)
    first = np.append(0, np.cumsum(count.sum(axis=0)))
    out = np.empty(int(first[-1]), kept.dtype)
    _each(_scatter, held, own, first[:-1] + np.cumsum(count, axis=0) - count, kept, out)
    return out, first


def _each(function: Any, ranges: list[tuple[int, int]], own: np.ndarray, rows: np.ndarray, *args: Any) -> None:
    """Call ``function`` on every range on a thread of its own, each with its own row of ``rows``."""

    def one(k: int, _: int) -> None:
        function(*ranges[k], own, rows[k], *args)

    run(one, [(k, k + 1) for k in range(len(ranges))])


@kernel
def _renumber(lo: int, hi: int, edges: Any, source: Any, target: Any, of_source: Any, of_target: Any, out: Any) -> None:
    for k in range(lo, hi):
        out[0, k] = of_source[source[edges[k]]]
        out[1, k] = of_target[target[edges[k]]]


def renumbered(
    edges: np.ndarray, source: np.ndarray, target: np.ndarray, of_source: np.ndarray, of_target: np.ndarray,
    threads: int = 1,
) -> np.ndarray:  # fmt: skip
    """``(2, edges)``, as wide as ``source``: the ends of these edges, numbered by ``of_source`` and ``of_target``."""
    out = np.empty((2, len(edges)), source.dtype)
    ranges = even_ranges(len(edges), threads if len(edges) > 20_000 else 1)
    run(_renumber, ranges, edges, source, target, of_source, of_target, out)
    return out
