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
from handful.kernels.dispatch import backend
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
def transition_rows(indptr: Any, indices: Any, weight: Any, rows: Any) -> Any:
    """U = P[rows] as CSR, a row's own column first; and float64 ``(N,)``, the column sums of U²: p, not yet divided by
    its sum."""
    room = rows.shape[0]
    for i in range(rows.shape[0]):
        room += indptr[rows[i] + 1] - indptr[rows[i]]
    out_ptr, importance = np.zeros(rows.shape[0] + 1, np.int64), np.zeros(indptr.shape[0] - 1)
    columns, values = np.empty(room, indices.dtype), np.empty(room)
    at = 0
    for i in range(rows.shape[0]):
        v = rows[i]
        begin, at = at, at + 1
        own = total = 1.0  # the I of A + I, to which the node's own loops are added
        e, stop = indptr[v], indptr[v + 1]
        while e < stop:
            u = indices[e]
            value = 0.0
            while e < stop and indices[e] == u:  # rows ascend: repeated edges are neighbours, and add up
                value += 1.0 if weight is None else np.float64(weight[e])
                e += 1
            total += value
            if u == v:
                own += value
            else:
                columns[at], values[at] = u, value
                at += 1
        columns[begin], values[begin] = v, own
        for k in range(begin, at):
            values[k] /= total
            importance[columns[k]] += values[k] ** 2
        out_ptr[i + 1] = at
    return out_ptr, columns[:at], values[:at], importance


@kernel
def _arrivals(nodes: Any, rate: Any, key: int) -> Any:
    out = np.empty(nodes.shape[0])
    for i in range(nodes.shape[0]):
        out[i] = -np.log1p(-uniform(key, nodes[i])) / rate[nodes[i]]
    return out


@kernel
def _keep_columns(indptr: Any, columns: Any, values: Any, importance: Any, place: Any) -> Any:
    """U[:, S] / p_S with rows that sum to one."""
    out_ptr = np.zeros_like(indptr)
    out, weight = np.empty(columns.shape[0], np.int32), np.empty(columns.shape[0], np.float32)
    at = 0
    for i in range(indptr.shape[0] - 1):
        begin, total = at, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            u = columns[k]
            if place[u] >= 0 and values[k] > 0:
                value = values[k] / importance[u]
                out[at], weight[at] = place[u], value
                total += value
                at += 1
        for k in range(begin, at):
            weight[k] /= total
        out_ptr[i + 1] = at
    return out_ptr, out[:at].copy(), weight[:at].copy()


def layer_numba(graph: Csr, previous: Tensor, batch: int, budget: int, key: int) -> Layer:
    """The layer on the CPU."""
    above = previous.numpy()
    *rows, q = transition_rows(*_arrays(graph), above)
    candidates = np.flatnonzero(q)
    take = min(budget, len(candidates))
    drawn = np.sort(candidates[np.argpartition(_arrivals(candidates, q, key), take - 1)[:take]])
    place = np.full(len(q), -1, np.int32)
    place[above[:batch]] = np.arange(batch)
    new = drawn[place[drawn] < 0]
    place[new] = np.arange(batch, batch + len(new))
    kept = (*_keep_columns(*rows, q, place), place[above].astype(np.int64))
    return Layer(torch.cat([previous[:batch], torch.from_numpy(new)]), *(torch.from_numpy(array) for array in kept))


def _arrays(graph: Csr) -> list[np.ndarray | None]:
    return [None if tensor is None else tensor.numpy() for tensor in graph]


def transition_torch(graph: Csr, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The row, column and value of the entries of U = P[rows], sorted, in plain torch for any device."""
    indptr, indices, weight = graph
    n, own = len(indptr) - 1, torch.arange(len(rows), device=indptr.device)
    degree = indptr[rows + 1] - indptr[rows]
    row = torch.repeat_interleave(degree)
    edge = torch.arange(len(row), device=indptr.device) + (indptr[rows] - degree.cumsum(0) + degree)[row]
    one = torch.ones_like(own, dtype=torch.float64)
    a = torch.ones_like(edge, dtype=torch.float64) if weight is None else weight[edge].to(torch.float64)
    # A + I, repeated entries added up.
    entry = torch.cat([row * n + indices[edge], own * n + rows])
    entry, merged = torch.unique(entry, return_inverse=True)
    value = torch.zeros_like(entry, dtype=torch.float64).index_add_(0, merged, torch.cat([a, one]))
    row = entry // n
    return row, entry % n, value / torch.zeros_like(one).index_add_(0, row, value)[row]


def layer_torch(graph: Csr, previous: Tensor, batch: int, budget: int, key: int) -> Layer:
    """The same layer in plain torch, for any device."""
    row, column, value = transition_torch(graph, previous)
    device, targets = row.device, len(previous)
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
    place[first[:batch]] = torch.arange(batch, device=device)
    place[new] = torch.arange(batch, batch + len(new), device=device)

    kept = (place[column] >= 0) & (value > 0)
    row, column = row[kept], column[kept]
    value = value[kept] / importance[column]
    value /= torch.zeros(targets, dtype=torch.float64, device=device).index_add_(0, row, value)[row]
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
    draw = layer_numba if backend(previous.device) == "numba" else layer_torch
    return draw(graph, previous, batch, budget, key)


def transition(graph: Csr) -> tuple[Tensor, Tensor, Tensor]:
    """P = row-normalised A + I of the whole graph, as CSR with float32 weights."""
    n, device = len(graph[0]) - 1, graph[0].device
    if backend(device) == "numba":
        indptr, columns, value = map(torch.from_numpy, transition_rows(*_arrays(graph), np.arange(n))[:3])
    else:
        row, columns, value = transition_torch(graph, torch.arange(n, device=device))
        indptr = starts_torch(torch.bincount(row, minlength=n))
    return indptr, columns.to(graph[1].dtype), value.to(torch.float32)
