"""One layer of LADIES: the nodes from which the rows of some targets are estimated, and their weights.

    P = row-normalised A + I,   U = P[previous],   p_i = Σ_v U_vi² / Σ_j Σ_v U_vj²
    draw min(budget, #{p > 0}) nodes without replacement by p;   S = batch ∪ drawn
    adjacency = row-normalised U[:, S] / p_S

The batch's nodes, for which the loss is taken, are the first of ``previous``. Other nodes of ``previous`` are sources
only if they are drawn again. A node has an empty row if neither it nor a neighbour is drawn.

To draw nodes one after another without replacement, every node gets an exponential arrival time with rate p_i, and the
first to arrive are drawn. A node's time depends on the key and its id alone, so numba and torch draw the same nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from handful.kernels.csr import starts_torch
from handful.kernels.hashing import uniform, uniform_torch
from handful.kernels.threads import kernel

Csr = tuple[Tensor, Tensor, Tensor | None]
"""``indptr``, ``indices`` and, if there are any, the weights of a graph."""


class Layer(NamedTuple):
    """A drawn rectangle: the ids of its sources, the batch first and the others ascending, and its CSR with weights."""

    nodes: Tensor
    indptr: Tensor
    indices: Tensor
    weight: Tensor
    own: Tensor
    """int64 ``(targets,)``, the source number of each target; -1 for a target that was not drawn."""


@kernel
def importance(indptr: Any, indices: Any, weight: Any, previous: Any) -> Any:
    """float64 ``(N,)``: the column sums of U², which are p before they are divided by their sum."""
    out = np.zeros(indptr.shape[0] - 1)
    for i in range(previous.shape[0]):
        v = previous[i]
        stop = indptr[v + 1]
        own = total = 1.0  # the I of A + I, to which the node's own loops are added
        for e in range(indptr[v], stop):
            w = 1.0 if weight is None else np.float64(weight[e])
            total += w
            if indices[e] == v:
                own += w
        out[v] += (own / total) ** 2
        e = indptr[v]
        while e < stop:
            u = indices[e]
            value = 0.0
            while e < stop and indices[e] == u:  # rows ascend: repeated edges are neighbours, and add up
                value += 1.0 if weight is None else np.float64(weight[e])
                e += 1
            if u != v:
                out[u] += (value / total) ** 2
    return out


@kernel
def _arrivals(nodes: Any, rate: Any, key: int) -> Any:
    out = np.empty(nodes.shape[0])
    for i in range(nodes.shape[0]):
        out[i] = -np.log1p(-uniform(key, nodes[i])) / rate[nodes[i]]
    return out


@kernel
def _keep_columns(indptr: Any, indices: Any, weight: Any, previous: Any, q: Any, place: Any) -> Any:
    """U[:, S] / p_S with rows that sum to one; the totals of P's rows cancel."""
    room = previous.shape[0]
    for i in range(previous.shape[0]):
        room += indptr[previous[i] + 1] - indptr[previous[i]]
    out_ptr = np.zeros(previous.shape[0] + 1, np.int64)
    columns, values = np.empty(room, np.int32), np.empty(room, np.float32)
    at = 0
    for i in range(previous.shape[0]):
        v = previous[i]
        begin, total = at, 0.0
        at += place[v] >= 0  # the node's own column comes first
        own = 1.0
        e, stop = indptr[v], indptr[v + 1]
        while e < stop:
            u = indices[e]
            value = 0.0
            while e < stop and indices[e] == u:
                value += 1.0 if weight is None else np.float64(weight[e])
                e += 1
            if u == v:
                own += value
            elif place[u] >= 0 and value > 0:
                value /= q[u]
                columns[at], values[at] = place[u], value
                total += value
                at += 1
        if place[v] >= 0:
            columns[begin], values[begin] = place[v], own / q[v]
            total += own / q[v]
        for k in range(begin, at):
            values[k] /= total
        out_ptr[i + 1] = at
    return out_ptr, columns[:at].copy(), values[:at].copy()


def layer_numba(graph: Csr, previous: Tensor, batch: int, budget: int, key: int) -> Layer:
    """The layer on the CPU."""
    above = previous.numpy()
    arrays = [None if tensor is None else tensor.numpy() for tensor in graph]
    q = importance(*arrays, above)
    candidates = np.flatnonzero(q)
    take = min(budget, len(candidates))
    drawn = np.sort(candidates[np.argpartition(_arrivals(candidates, q, key), take - 1)[:take]])
    place = np.full(len(q), -1, np.int32)
    place[above[:batch]] = np.arange(batch)
    new = drawn[place[drawn] < 0]
    place[new] = np.arange(batch, batch + len(new))
    kept = (*_keep_columns(*arrays, above, q, place), place[above].astype(np.int64))
    return Layer(torch.cat([previous[:batch], torch.from_numpy(new)]), *(torch.from_numpy(array) for array in kept))


def layer_torch(graph: Csr, previous: Tensor, batch: int, budget: int, key: int) -> Layer:
    """The same layer in plain torch, for any device."""
    indptr, indices, weight = graph
    device, n, targets = indptr.device, len(indptr) - 1, len(previous)
    own = torch.arange(targets, device=device)
    degree = indptr[previous + 1] - indptr[previous]
    row = torch.repeat_interleave(own, degree)
    edge = torch.arange(len(row), device=device) + (indptr[previous] - degree.cumsum(0) + degree)[row]
    one = torch.ones(targets, dtype=torch.float64, device=device)
    a = torch.ones_like(edge, dtype=torch.float64) if weight is None else weight[edge].to(torch.float64)
    # A + I, repeated entries added up, in the order of (row, column).
    entry = torch.cat([row * n + indices[edge], own * n + previous])
    entry, merged = torch.unique(entry, return_inverse=True)
    value = torch.zeros(len(entry), dtype=torch.float64, device=device).index_add_(0, merged, torch.cat([a, one]))
    row, column = entry // n, entry % n
    value /= torch.zeros_like(one).index_add_(0, row, value)[row]

    nodes, column = torch.unique(column, return_inverse=True)
    importance = torch.zeros(len(nodes), dtype=torch.float64, device=device).index_add_(0, column, value * value)
    arrival = -torch.log1p(-uniform_torch(key, nodes)) / importance  # infinite where the importance is 0
    take = min(budget, int((importance > 0).sum()))
    is_new = torch.zeros(len(nodes), dtype=torch.bool, device=device)
    is_new[arrival.topk(take, largest=False).indices] = True
    first = torch.searchsorted(nodes, previous)
    is_new[first[:batch]] = False
    new = is_new.nonzero().squeeze(1)
    place = torch.full((len(nodes),), -1, device=device)
    place[first[:batch]] = own[:batch]
    place[new] = torch.arange(batch, batch + len(new), device=device)

    kept = (place[column] >= 0) & (value > 0)
    row, column = row[kept], column[kept]
    value = value[kept] / importance[column]
    value /= torch.zeros_like(one).index_add_(0, row, value)[row]
    out_ptr = starts_torch(torch.bincount(row, minlength=targets))
    sources = torch.cat([previous[:batch], nodes[new]])
    return Layer(sources, out_ptr, place[column].to(torch.int32), value.to(torch.float32), place[first])


def layer(graph: Csr, previous: Tensor, batch: int, budget: int, key: int) -> Layer:
    """Draw the sources of ``previous`` by the fastest implementation on their device.

    Args:
        graph: the CSR to draw from.
        previous: int64, distinct ids; the first ``batch`` of them are always sources too.
        budget: the number of nodes to draw.
        key: the key of the random numbers.
    """
    draw = layer_numba if previous.device.type == "cpu" else layer_torch
    return draw(graph, previous, batch, budget, key)


def transition(indptr: Tensor, indices: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """P = row-normalised A + I of the whole graph, as CSR: its own column first in each row, float32 weights."""
    n = len(indptr) - 1
    loops = torch.arange(n, device=indptr.device)
    out_ptr = indptr + torch.arange(n + 1, device=indptr.device)
    out, values = indices.new_empty(len(indices) + n), torch.ones(len(indices) + n, device=indptr.device)
    is_loop = torch.zeros(len(out), dtype=torch.bool, device=indptr.device)
    is_loop[out_ptr[:-1]] = True
    out[is_loop], out[~is_loop] = loops.to(indices.dtype), indices
    if weight is not None:
        values[~is_loop] = weight.to(torch.float32)
    row = torch.repeat_interleave(loops, out_ptr.diff())
    total = torch.zeros(n, dtype=torch.float64, device=indptr.device).index_add_(0, row, values.double())
    return out_ptr, out, (values / total[row]).to(torch.float32)
