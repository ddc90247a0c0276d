"""Find the nodes from which given targets can be reached in a few hops, and the CSR rows of these nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from handful.kernels.bfloat16 import array
from handful.kernels.csr import starts_torch
from handful.kernels.dispatch import backend, loops
from handful.kernels.threads import even_ranges, get_threads, kernel, run

FAR = np.iinfo(np.int32).max


@kernel
def _mark(lo: int, hi: int, nodes: Any, hop: int, indptr: Any, indices: Any, distance: Any) -> None:
    # Threads may mark the same node at once, but all of them write the same number.
    for i in range(lo, hi):
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            u = indices[e]
            if distance[u] > hop:
                distance[u] = hop


@kernel
def _rows(lo: int, hi: int, order: Any, indptr: Any, indices: Any, place: Any, new_indptr: Any, out: Any) -> None:
    for i in range(lo, hi):
        at = new_indptr[i] - indptr[order[i]]
        for e in range(indptr[order[i]], indptr[order[i] + 1]):
            out[at + e] = place[indices[e]]


class Reach(NamedTuple):
    """The nodes from which given targets can be reached in at most a given number of hops.

    ``order`` lists the node ids by distance, nearest first. Ids at the same distance are in ascending order.
    ``counts[k]`` is the number of nodes within k hops. All nodes except those at the largest distance keep their rows:
    the row of node ``order[i]`` starts at ``indptr[i]``. ``edges[k]`` is the number of edges in the rows of the nodes
    within k hops.
    """

    order: Tensor
    counts: list[int]
    indptr: Tensor
    edges: list[int]


def reach(indptr: Tensor, indices: Tensor, targets: Tensor, hops: int) -> Reach:
    """All nodes from which ``targets`` can be reached by a path of at most ``hops`` edges.

    On a GPU, the host waits for the device only once, for all counts.

    Args:
        indptr, indices: the CSR of a square matrix.
        targets: node ids.
        hops: the maximum number of edges of a path.
    """
    if backend(indptr.device) != "numba":
        return _reach_on_device(indptr, indices, targets, hops)
    distance = np.full(len(indptr) - 1, FAR, np.int32)
    distance[array(targets)] = 0
    layers = [np.flatnonzero(distance == 0)]
    for hop in range(1, hops + 1):
        ranges = even_ranges(len(layers[-1]), get_threads())
        run(_mark, ranges, layers[-1], hop, array(indptr), array(indices), distance)
        layers.append(np.flatnonzero(distance == hop))
    counts, kept = np.cumsum([*map(len, layers)]).tolist(), torch.from_numpy(np.concatenate(layers))
    ends = starts_torch(indptr.diff().index_select(0, kept[: counts[-2] if hops else 0]))
    return Reach(kept, counts, ends, ends[counts[:-1]].tolist())


def _reach_on_device(indptr: Tensor, indices: Tensor, targets: Tensor, hops: int) -> Reach:
    """``reach`` for devices other than the CPU. All nodes are sorted by distance at once, so that the host does not
    wait for the size of each hop.
    """
    distance = torch.full((len(indptr) - 1,), FAR, dtype=torch.int32, device=indptr.device)
    distance.index_fill_(0, targets, 0)
    ops = loops("subgraph", indptr.device)
    spread = spread_torch if ops is None else ops.spread
    spread(indptr, indices, distance, hops)
    distance, order = torch.sort(distance, stable=True)
    ends = starts_torch(torch.where(distance < hops, indptr.diff()[order], 0))
    within = torch.searchsorted(distance, torch.arange(1, hops + 2, dtype=torch.int32, device=indptr.device))
    counts, edges = torch.stack([within, ends[within]]).tolist()
    return Reach(order[: counts[-1]], counts, ends[: (counts[-2] if hops else 0) + 1], edges[:-1])


def spread_torch(indptr: Tensor, indices: Tensor, distance: Tensor, hops: int) -> None:
    """Write the distance of each node to the nearest target, in edges and up to ``hops``, to ``distance``.

    Before the call, ``distance``, int32 ``(N,)``, is 0 at the targets and ``FAR`` elsewhere. This version uses plain
    torch and runs on any device.
    """
    degree, sources = indptr.diff(), indices.to(torch.int64)
    for hop in range(1, hops + 1):
        near = torch.where(distance < hop, hop, FAR).to(torch.int32)
        result = torch.repeat_interleave(near, degree, output_size=len(sources))
        distance.scatter_reduce_(0, sources, result, "amin")


def with_all(indptr: Tensor, reach: Reach) -> Reach:
    """Append all other nodes of the graph to ``reach``, and give all nodes their rows."""
    missing = torch.ones(len(indptr) - 1, dtype=torch.bool, device=indptr.device)
    missing[reach.order] = False
    order = torch.cat([reach.order, missing.nonzero().squeeze(1)])
    ends = starts_torch(indptr.diff()[order])
    return Reach(order, [*reach.counts[:-1], len(order)], ends, [*reach.edges, int(indptr[-1])])


def rows_among(indptr: Tensor, indices: Tensor, reach: Reach) -> tuple[Tensor, Tensor]:
    """The sources in the rows of ``reach``, as indices into ``reach.order``, and the index of every node.

    The index of a node that is not in ``reach`` is undefined.
    """
    rows = len(reach.indptr) - 1
    place = torch.empty(len(indptr) - 1, dtype=torch.int32, device=indptr.device)
    place.scatter_(0, reach.order, torch.arange(len(reach.order), dtype=torch.int32, device=indptr.device))
    if backend(indptr.device) != "numba":
        return place[indices[edges_of_rows(indptr, reach)].to(torch.int64)], place
    out = torch.empty(reach.edges[-1] if rows else 0, dtype=torch.int32)
    given = reach.order, indptr, indices, place, reach.indptr, out
    run(_rows, even_ranges(rows, get_threads()), *map(array, given))
    return out, place


def edges_of_rows(indptr: Tensor, reach: Reach) -> Tensor:
    """The indices, in the CSR, of the edges in the rows of ``reach``, row by row."""
    rows, edges = reach.order[: len(reach.indptr) - 1], reach.edges[-1] if reach.edges else 0
    shift = torch.repeat_interleave(indptr[rows] - reach.indptr[:-1], reach.indptr.diff(), output_size=edges)
    return shift + torch.arange(edges, device=indptr.device)
