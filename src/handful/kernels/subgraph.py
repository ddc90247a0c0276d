"""Induced subgraphs: of one node set, or of all the parts of a partition in one pass over the edges.

The one pass reads the rows in order and keeps a source if its part is that of the row. There is no branch: it always
writes, and adds the result of the comparison to the cursor. Only the edges that are kept, one in m, are then
renumbered, part by part.
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

    ``kept`` holds sources, or, if ``are_edges``, places in ``indices``.
    """

    kept: np.ndarray
    start: np.ndarray
    count: np.ndarray
    are_edges: bool


@kernel
def _keep_inside(
    lo: int, hi: int, indptr: Any, indices: Any, part: Any, as_edges: bool, kept: Any, start: Any, count: Any
) -> None:
    cursor = indptr[lo]
    for v in range(lo, hi):
        own = part[v]
        begin = cursor
        if as_edges:
            for e in range(indptr[v], indptr[v + 1]):
                kept[cursor] = e
                cursor += part[indices[e]] == own
        else:
            for e in range(indptr[v], indptr[v + 1]):
                kept[cursor] = indices[e]
                cursor += part[indices[e]] == own
        start[v] = begin
        count[v] = cursor - begin


def keep_inside(indptr: np.ndarray, indices: np.ndarray, part: np.ndarray, with_edges: bool = False) -> Survivors:
    """Every edge whose two ends have the same ``part``, in one pass over the CSR for any number of parts."""
    n = len(indptr) - 1
    # As long as the edge list, but only the pages with kept edges are ever touched.
    kept = np.empty(len(indices), np.int64 if with_edges else indices.dtype)
    start, count = np.empty(n, np.int64), np.empty(n, np.int32)
    over_rows(_keep_inside, indptr, indices, part, with_edges, kept, start, count)
    return Survivors(kept, start, count, with_edges)


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
    lo: int, hi: int, nodes: Any, kept: Any, start: Any, indptr: Any, indices: Any, member: Any, before: Any,
    out: Any, edges: Any,
) -> None:  # fmt: skip
    as_edges = edges.shape[0] > 0
    for i in range(lo, hi):
        begin, at = start[nodes[i]], indptr[i]
        for k in range(indptr[i + 1] - at):
            u = np.int64(kept[begin + k])
            if as_edges:
                edges[at + k] = u
                u = np.int64(indices[u])
            lower = (np.uint64(1) << np.uint64(u & 63)) - np.uint64(1)
            out[at + k] = before[u >> 6] + _ones(member[u >> 6] & lower)


def part_csr(survivors: Survivors, nodes: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The CSR of one part in its own numbering, and the edges it is made of (empty unless they were kept).

    ``nodes`` are the part's nodes, ascending. The new number of a node is its rank among them, which is computed from a
    bitmap. The bitmap takes a fifth of a byte per node and stays in the cache; a table of new numbers would not.
    """
    words = len(survivors.start) // 64 + 1
    member, before = np.empty(words, np.uint64), np.empty(words, np.int32)
    _mark(nodes, member, before)
    indptr = np.zeros(len(nodes) + 1, np.int64)
    np.cumsum(survivors.count[nodes], out=indptr[1:])
    out = np.empty(int(indptr[-1]), np.int32)
    edges = np.empty(len(out) if survivors.are_edges else 0, np.int64)
    ranges = even_ranges(len(nodes), get_threads() if len(out) > 20_000 else 1)
    run(_renumber, ranges, nodes, survivors.kept, survivors.start, indptr, indices, member, before, out, edges)
    return indptr, out, edges


def parts(
    indptr: np.ndarray, indices: np.ndarray, part: np.ndarray, m: int, with_edges: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """The nodes of parts 0 to ``m - 1`` in turn, ascending, and what ``part_csr`` gives of each."""
    ends = np.cumsum(np.bincount(part, minlength=m))
    order = np.argsort(part, kind="stable")
    survivors = keep_inside(indptr, indices, part, with_edges)
    for p in range(m):
        nodes = order[ends[p - 1] if p else 0 : ends[p]]
        yield nodes, *part_csr(survivors, nodes, indices)


@kernel
def _edge_index(lo: int, hi: int, indptr: Any, indices: Any, out: Any) -> None:
    for v in range(lo, hi):
        for e in range(indptr[v], indptr[v + 1]):
            out[0, e] = indices[e]
            out[1, e] = v


def edge_index(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """``(2, E)`` int64 sources and targets of a CSR: the form that PyG has edges in."""
    out = np.empty((2, len(indices)), np.int64)
    over_rows(_edge_index, indptr, indices, out)
    return out


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
