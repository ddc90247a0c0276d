"""Induced subgraphs: of one node set, or of all the parts of a partition in one pass over the edges.

The one pass reads the rows in order and keeps a source if its part is that of the row. There is no branch: it always
writes, and adds the result of the comparison to the cursor. Only the edges that are kept, one in m, are then
renumbered, part by part.

Hubs are nodes that every part holds. As sources they are kept by the same pass, whatever the row. Their own rows are
another cut of the graph in every part: these few, long rows are read once for each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.kernels.threads import even_ranges, get_threads, kernel, over_rows, run


@dataclass(frozen=True, eq=False)
class Survivors:
    """The edges inside a part: those of row ``v`` are ``kept[start[v] : start[v] + count[v]]``.

    ``kept`` holds sources, or, if ``are_edges``, places in ``indices``. The rows of hubs are those of one part at a
    time, at the end of ``kept``: ``cut_hubs`` fills them.
    """

    kept: np.ndarray
    start: np.ndarray
    count: np.ndarray
    are_edges: bool


@kernel
def _stays(code: Any, own: Any, hub: Any) -> Any:
    """Whether a source of part ``code`` stays in a row of part ``own``."""
    if hub is None:  # known when this is compiled
        return code == own
    return (code == own) | (code == hub)


@kernel
def _keep_inside(
    lo: int, hi: int, indptr: Any, indices: Any, part: Any, hub: Any, as_edges: bool, kept: Any, start: Any, count: Any
) -> None:
    cursor = indptr[lo]
    for v in range(lo, hi):
        own = part[v]
        if hub is not None and own == hub:
            continue
        begin = cursor
        if as_edges:
            for e in range(indptr[v], indptr[v + 1]):
                kept[cursor] = e
                cursor += _stays(part[indices[e]], own, hub)
        else:
            for e in range(indptr[v], indptr[v + 1]):
                kept[cursor] = indices[e]
                cursor += _stays(part[indices[e]], own, hub)
        start[v] = begin
        count[v] = cursor - begin


def keep_inside(
    indptr: np.ndarray, indices: np.ndarray, part: np.ndarray, with_edges: bool = False, hub: Any = None
) -> Survivors:
    """Every edge whose source has the ``part`` of its row or is a hub, in one pass over the CSR for all parts.

    A node is a hub where its part is ``hub``, a number of the same type. The rows of hubs have room of their own, which
    ``cut_hubs`` fills.
    """
    n, edges = len(indptr) - 1, len(indices)
    hubs = np.empty(0, np.int64) if hub is None else np.flatnonzero(part == hub)
    ends = edges + np.cumsum(indptr[hubs + 1] - indptr[hubs])
    # As long as the edge list, but only the pages with kept edges are ever touched.
    kept = np.empty(int(ends[-1]) if len(hubs) else edges, np.int64 if with_edges else indices.dtype)
    start, count = np.empty(n, np.int64), np.empty(n, np.int32)
    over_rows(_keep_inside, indptr, indices, part, hub, with_edges, kept, start, count)
    start[hubs] = ends - (indptr[hubs + 1] - indptr[hubs])
    return Survivors(kept, start, count, with_edges)


@kernel
def _cut_hubs(
    lo: int, hi: int, work: Any, hubs: Any, indptr: Any, indices: Any, part: Any, own: Any, hub: Any, as_edges: bool,
    kept: Any, start: Any, count: Any,
) -> None:  # fmt: skip
    for i in range(lo, hi):
        v = hubs[i]
        cursor = start[v]
        for e in range(indptr[v], indptr[v + 1]):
            kept[cursor] = e if as_edges else indices[e]
            cursor += _stays(part[indices[e]], own, hub)
        count[v] = cursor - start[v]


def cut_hubs(
    survivors: Survivors, hubs: np.ndarray, indptr: np.ndarray, indices: np.ndarray, part: np.ndarray, own: int
) -> None:
    """Let the rows of ``hubs``, ids ascending, keep the sources that are in part ``own`` or are hubs."""
    work = np.zeros(len(hubs) + 1, np.int64)
    np.cumsum(indptr[hubs + 1] - indptr[hubs], out=work[1:])
    codes = part, part.dtype.type(own), part[hubs[0]]
    into = survivors.are_edges, survivors.kept, survivors.start, survivors.count
    over_rows(_cut_hubs, work, hubs, indptr, indices, *codes, *into)


@kernel
def _ones(word: Any) -> Any:
    """The number of ones in 64 bits: first within pairs, then fours, then bytes, then in all."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _mark(nodes: Any, member: Any, before: Any) -> None:
    """Set the bit of every node in ``member``, and in ``before`` how many bits are set before each word."""
    member[:] = 0
    for i in range(nodes.shape[0]):
        member[nodes[i] >> 6] |= np.uint64(1) << np.uint64(nodes[i] & 63)
    count = 0
    for word in range(member.shape[0]):
        before[word] = count
        count += _ones(member[word])


@kernel
def _renumber(
    lo: int, hi: int, indptr: Any, nodes: Any, kept: Any, start: Any, indices: Any, member: Any, before: Any,
    helper: Any, out: Any, edges: Any,
) -> None:  # fmt: skip
    as_edges = edges.shape[0] > 0
    for i in range(lo, hi):
        begin, at = start[nodes[i]], indptr[i]
        for k in range(indptr[i + 1] - at):
            u = np.int64(kept[begin + k])
            if as_edges:
                edges[at + k] = u
                u = np.int64(indices[u])
            word, bit = member[u >> 6], np.uint64(1) << np.uint64(u & 63)
            if helper is None or word & bit:
                out[at + k] = before[u >> 6] + _ones(word & (bit - np.uint64(1)))
            else:
                out[at + k] = helper[u]


def part_csr(
    survivors: Survivors, own: np.ndarray, helpers: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The CSR of one part in its own numbering, and the edges it is made of (empty unless they were kept).

    ``own`` are the part's nodes, ascending. The new number of a node is its rank among them, which is computed from a
    bitmap. The bitmap takes a fifth of a byte per node and stays in the cache; a table of new numbers would not. The
    ``helpers`` come after them; they are few enough for a table.
    """
    nodes, helper = own, None
    if len(helpers):
        nodes, helper = np.concatenate([own, helpers]), np.empty(len(survivors.start), np.int32)
        helper[helpers] = np.arange(len(own), len(nodes), dtype=np.int32)
    words = len(survivors.start) // 64 + 1
    member, before = np.empty(words, np.uint64), np.empty(words, np.int32)
    _mark(own, member, before)
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(survivors.count[nodes], out=indptr[1:])
    out = np.empty(int(indptr[-1]), np.int32)
    edges = np.empty(len(out) if survivors.are_edges else 0, np.int64)
    told = nodes, survivors.kept, survivors.start, indices, member, before, helper, out, edges
    over_rows(_renumber, indptr, *told)
    return indptr, out, edges


def parts(
    indptr: np.ndarray,
    indices: np.ndarray,
    part: np.ndarray,
    m: int,
    with_edges: bool = False,
    hubs: np.ndarray | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """The nodes of parts 0 to ``m - 1`` in turn, and what ``part_csr`` gives of each.

    Nodes are the part's own, ascending, then the ``hubs`` that are not its own. Both ``part``, where m and above is in
    none, and ``hubs``, ids ascending, are of the whole graph.
    """
    ends = np.cumsum(np.bincount(part, minlength=m))
    order = np.argsort(part, kind="stable")
    code, hub, helpers = part, None, np.empty(0, np.int64)
    if hubs is not None and len(hubs):
        code = np.minimum(part, m).astype(np.min_scalar_type(m + 1))
        code[hubs] = hub = code.dtype.type(m + 1)
    survivors = keep_inside(indptr, indices, code, with_edges, hub)
    for p in range(m):
        own = order[ends[p - 1] if p else 0 : ends[p]]
        if hubs is not None and len(hubs):
            cut_hubs(survivors, hubs, indptr, indices, code, p)
            helpers = hubs[part[hubs] != p]
        yield np.concatenate([own, helpers]) if len(helpers) else own, *part_csr(survivors, own, helpers, indices)


@kernel
def _count_inside(lo: int, hi: int, nodes: Any, indptr: Any, indices: Any, local: Any, count: Any) -> None:
    for i in range(lo, hi):
        inside = 0
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            inside += local[indices[e]] >= 0
        count[i] = inside


@kernel
def _fill_inside(
    lo: int, hi: int, nodes: Any, indptr: Any, indices: Any, local: Any, out_ptr: Any, out: Any, edges: Any
) -> None:
    as_edges = edges.shape[0] > 0
    for i in range(lo, hi):
        at = out_ptr[i]
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            u = local[indices[e]]
            if u >= 0:
                out[at] = u
                if as_edges:
                    edges[at] = e
                at += 1


def induced(
    indptr: np.ndarray, indices: np.ndarray, nodes: np.ndarray, with_edges: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The CSR that ``nodes`` (distinct) induce, numbered in their order, and the edges it is made of if asked for.

    Rows ascend if ``nodes`` do.
    """
    local = np.full(len(indptr) - 1, -1, np.int32)
    local[nodes] = np.arange(len(nodes), dtype=np.int32)
    ranges = even_ranges(len(nodes), get_threads() if len(nodes) > 5_000 else 1)
    count = np.zeros(len(nodes), np.int64)
    run(_count_inside, ranges, nodes, indptr, indices, local, count)
    out_ptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(count, out=out_ptr[1:])
    out = np.empty(int(out_ptr[-1]), np.int32)
    edges = np.empty(len(out) if with_edges else 0, np.int64)
    run(_fill_inside, ranges, nodes, indptr, indices, local, out_ptr, out, edges)
    return out_ptr, out, edges


def induced_torch(indptr: Tensor, indices: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``induced`` in plain torch, for any device; always with the edges."""
    local = torch.full((len(indptr) - 1,), -1, dtype=torch.int32, device=indptr.device)
    local[nodes] = torch.arange(len(nodes), dtype=torch.int32, device=indptr.device)
    degree = indptr.diff()[nodes]
    first = degree.cumsum(0) - degree
    total = int(degree.sum())
    row = torch.repeat_interleave(torch.arange(len(nodes), device=indptr.device), degree, output_size=total)
    edges = torch.arange(total, device=indptr.device) - first[row] + indptr[nodes][row]
    sources = local[indices[edges].to(torch.int64)]
    inside = sources >= 0
    out_ptr = torch.zeros(len(nodes) + 1, dtype=torch.int64, device=indptr.device)
    out_ptr[1:] = torch.bincount(row[inside], minlength=len(nodes)).cumsum(0)
    return out_ptr, sources[inside], edges[inside]
