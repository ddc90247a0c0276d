"""Find the edges inside the parts of a partition, in one pass over an edge list. The edges of each part stay in the
order of the edge list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from handful.kernels.csr import Array, index_dtype, starts
from handful.kernels.subgraph import AHEAD, count_parts, unsigned
from handful.kernels.threads import even_ranges, kernel, prefetch, run

FEW = 3
"""If there are at most this many parts, a part stores the indices of its edges. If there are more, a part stores the
two ends of its edges, which take twice the memory.
"""


class Inside(NamedTuple):
    """The edges of one part: either their indices in an edge list (``places``), or their sources and targets
    (``ends``).
    """

    places: Array | None
    ends: tuple[Array, Array] | None

    def numbered(self, source: Array, target: Array, of_source: Array, of_target: Array, threads: int = 1) -> Array:
        """The ends of the edges with new indices, ``(2, edges)``, with the dtype of the edge list.

        Args:
            source, target: the edge list.
            of_source, of_target: the new index of each node, as a source and as a target.
            threads: the maximum number of threads.
        """
        ends = self.ends or (source, target)
        out = np.empty((2, len(ends[0] if self.places is None else self.places)), source.dtype)
        ranges = even_ranges(out.shape[1], threads if out.shape[1] > 20_000 else 1)
        run(_renumber, ranges, self.places, *map(unsigned, ends), of_source, of_target, out)
        return out


@kernel
def _keep(
    lo: int, hi: int, source: Any, target: Any, source_part: Any, target_part: Any, none: int,
    kept: Any, kept_target: Any, own: Any,
) -> int:  # fmt: skip
    """Write the edges inside a part, and the part of each edge, consecutively from index ``lo``; return the end.

    An edge is written as its index if ``kept_target`` is ``None``, else as its two ends.
    """
    line, last = source_part.reshape((1, source_part.shape[0])), np.uint64(max(hi - 1, 0))
    at = np.uint64(lo)
    for e in range(at, np.uint64(hi)):
        prefetch(line, 0, source[min(e + AHEAD, last)])
        part = source_part[source[e]]
        kept[at] = e if kept_target is None else source[e]  # always: there is no branch to mispredict
        if kept_target is not None:
            kept_target[at] = target[e]
        own[at] = part
        at += np.uint64((part == target_part[target[e]]) & (part != none))
    return np.int64(at)  # type: ignore[return-value]


@kernel
def _scatter(lo: int, hi: int, cursor: Any, own: Any, kept: Any, kept_target: Any, out: Any, out_target: Any) -> None:
    for k in range(np.uint64(lo), np.uint64(hi)):
        at = cursor[own[k]]
        out[at] = kept[k]
        if kept_target is not None:
            out_target[at] = kept_target[k]
        cursor[own[k]] = at + 1


@kernel
def _renumber(lo: int, hi: int, ids: Any, source: Any, target: Any, of_source: Any, of_target: Any, out: Any) -> None:
    for k in range(np.uint64(lo), np.uint64(hi)):
        e = k if ids is None else np.uint64(ids[k])
        out[0, k] = of_source[source[e]]
        out[1, k] = of_target[target[e]]


def inside(
    source: Array, target: Array, source_part: Array, target_part: Array, m: int,
    with_places: bool = False, threads: int = 1,
) -> list[Inside]:  # fmt: skip
    """The edges inside each part, in the order of the edge list.

    Args:
        source, target: the ends of every edge, which are not checked.
        source_part, target_part: the part of every node, 0 to ``m - 1``; ``m`` for a node in no part.
        m: the number of parts.
        with_places: whether the caller needs the indices of the edges.
        threads: the maximum number of threads.

    >>> part = np.array([0, 1, 0, 1], np.uint8)
    >>> [found.places for found in inside(np.array([0, 1, 2, 3, 0]), np.array([2, 3, 1, 1, 0]), part, part, 2)]
    [array([0, 4], dtype=int32), array([1, 3], dtype=int32)]
    """
    edges, with_places = len(source), with_places or m <= FEW
    # As long as the edge list, but only the pages with kept edges are ever touched.
    own = np.empty(edges, source_part.dtype)
    kept = np.empty(edges, index_dtype(edges if with_places else len(source_part)))
    kept_target = None if with_places else np.empty(edges, index_dtype(len(target_part)))
    ranges = even_ranges(edges, threads if edges > 20_000 else 1)
    stops = run(_keep, ranges, unsigned(source), unsigned(target), source_part, target_part, m, kept, kept_target, own)
    held = [(lo, stop) for (lo, _), stop in zip(ranges, stops, strict=True)]
    count = np.zeros((len(held), m), np.int64)
    run(count_parts, [(*ends, row) for ends, row in zip(held, count, strict=True)], own)
    first = starts(count.sum(axis=0))
    out = np.empty(int(first[-1]), kept.dtype)
    out_target = None if kept_target is None else np.empty(len(out), kept_target.dtype)
    pieces = [(*ends, row) for ends, row in zip(held, first[:-1] + np.cumsum(count, axis=0) - count, strict=True)]
    run(_scatter, pieces, own, kept, kept_target, out, out_target)
    del own, kept, kept_target
    result = np.split(out, first[1:-1])
    if out_target is None:  # separate arrays: the memory of a part is free after its use
        return [Inside(places.copy(), None) for places in result]
    return [Inside(None, both) for both in zip(result, np.split(out_target, first[1:-1]), strict=True)]
