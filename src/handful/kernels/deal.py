"""Parts of nodes in small types: how many nodes each has, and which node has a given rank in its part."""

from __future__ import annotations

from typing import Any

import numpy as np

from handful.kernels.threads import even_ranges, get_threads, kernel, run


@kernel
def _counts(lo: int, hi: int, part: Any, out: Any) -> None:
    for v in range(lo, hi):
        if part[v] < out.shape[0]:
            out[part[v]] += 1


def counts(part: np.ndarray, m: int) -> np.ndarray:
    """int64 ``(m,)``: how often each number below ``m`` is there. numpy's ``bincount`` would make them int64 first.

    >>> counts(np.array([0, 2, 0, 3], np.uint8), 3)
    array([2, 0, 1])
    """
    ranges = even_ranges(len(part), get_threads() if len(part) > 100_000 else 1)
    found = np.zeros((len(ranges), m), np.int64)

    def count(k: int, _: int) -> None:
        _counts(*ranges[k], part, found[k])

    run(count, [(k, k + 1) for k in range(len(ranges))])
    return found.sum(0)  # type: ignore[no-any-return]


@kernel
def _of_rank(part: Any, ranks: Any, cursor: Any, end: Any, seen: Any, out: Any) -> None:
    for v in range(part.shape[0]):
        p = part[v]
        at = cursor[p]
        if at < end[p] and ranks[at] == seen[p]:
            out[at] = v
            cursor[p] = at + 1
        seen[p] += 1


def of_rank(part: np.ndarray, ranks: list[np.ndarray]) -> list[np.ndarray]:
    """int64: of each part p the nodes of ``ranks[p]``, distinct, where the first node of a part has rank 0.

    One pass over ``part``, whose numbers are all below ``len(ranks)``; no permutation of the nodes is made.

    >>> of_rank(np.array([1, 0, 1, 1], np.uint8), [np.array([0]), np.array([2, 1])])
    [array([1]), array([3, 2])]
    """
    order = [np.argsort(of_part) for of_part in ranks]
    first = np.append(0, np.cumsum([len(of_part) for of_part in ranks]))
    ascending = np.concatenate([of_part[by] for of_part, by in zip(ranks, order, strict=True)]).astype(np.int64)
    found = np.empty(len(ascending), np.int64)
    _of_rank(part, ascending, first[:-1].copy(), first[1:], np.zeros(len(ranks), np.int64), found)
    out = np.empty_like(found)
    for begin, by in zip(first, order, strict=False):
        out[begin + by] = found[begin : begin + len(by)]
    return np.split(out, first[1:-1])
