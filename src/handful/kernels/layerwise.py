"""One layer of LADIES: which nodes the rows of some targets are estimated from, and with which weights.

    P = row-normalised A + I,   U = P[previous],   p_i = Σ_v U_vi² / Σ_j Σ_v U_vj²
    draw min(budget, #{p > 0}) nodes without replacement by p;   S = previous ∪ drawn
    adjacency = row-normalised U[:, S] / p_S

Drawing one after another without replacement is a race: node i arrives at an exponential time with rate p_i, and the
first to arrive are drawn. A node's time depends on the key and its id alone, so numba and torch draw the same nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from handful.kernels.counter import uniform, uniform_torch
from handful.kernels.neighbors import make_table, number, slot
from handful.kernels.threads import kernel

_NONE = np.empty(0, np.float32)


class Rows(NamedTuple):
    """The rows of P for some targets, over the columns that are not zero everywhere in them."""

    nodes: np.ndarray
    """int64, the columns' ids: first the targets, then what else they touch."""
    indptr: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    """float64."""
    importance: np.ndarray
    """float64, the sum of each column's squares: p before it is divided by its sum."""


class Layer(NamedTuple):
    """A drawn rectangle: the ids of its sources, targets first and the others ascending, and its CSR with weights."""

    nodes: Tensor
    indptr: Tensor
    indices: Tensor
    weight: Tensor


@kernel
def _rows(indptr: Any, indices: Any, weight: Any, previous: Any) -> Any:
    targets = previous.shape[0]
    room = targets
    for i in range(targets):
        room += indptr[previous[i] + 1] - indptr[previous[i]]
    nodes = np.empty(min(room, indptr.shape[0] - 1), np.int64)
    nodes[:targets] = previous
    table = make_table(nodes.shape[0])
    number(table, nodes, targets)
    out_ptr = np.zeros(targets + 1, np.int64)
    columns, values = np.empty(room, np.int32), np.empty(room, np.float64)
    importance = np.zeros(nodes.shape[0], np.float64)
    count, at = targets, 0
    for i in range(targets):
        v = previous[i]
        stop = indptr[v + 1]
        own = total = 1.0  # the I of A + I, to which the node's own loops are added
        for e in range(indptr[v], stop):
            w = np.float64(weight[e]) if weight.shape[0] > 0 else 1.0
            total += w
            if indices[e] == v:
                own += w
        columns[at], values[at] = i, own / total
        importance[i] += (own / total) ** 2
        at += 1
        e = indptr[v]
        while e < stop:
            u = np.int64(indices[e])
            value = 0.0
            while e < stop and indices[e] == u:  # rows ascend: repeated edges are neighbours, and add up
                value += np.float64(weight[e]) if weight.shape[0] > 0 else 1.0
                e += 1
            if u == v:
                continue
            value /= total
            place = slot(table, nodes, u)
            column = table[place]
            if column < 0:
                column = table[place] = count
                nodes[count] = u
                count += 1
            columns[at], values[at] = column, value
            importance[column] += value * value
            at += 1
        out_ptr[i + 1] = at
    return nodes[:count].copy(), out_ptr, columns[:at].copy(), values[:at].copy(), importance[:count].copy()


def rows(indptr: np.ndarray, indices: np.ndarray, weight: np.ndarray | None, previous: np.ndarray) -> Rows:
    """U and its columns' importance for the targets ``previous`` (distinct ids); weights must not be negative."""
    return Rows(*_rows(indptr, indices, _NONE if weight is None else weight, np.ascontiguousarray(previous, np.int64)))


@kernel
def _arrivals(nodes: Any, rate: Any, key: int, out: Any) -> None:
    for i in range(nodes.shape[0]):
        out[i] = -np.log1p(-uniform(key, nodes[i])) / rate[i] if rate[i] > 0 else np.inf


@kernel
def _keep_columns(indptr: Any, columns: Any, values: Any, importance: Any, place: Any) -> Any:
    out_ptr = np.zeros(indptr.shape[0], np.int64)
    indices, weight = np.empty(columns.shape[0], np.int32), np.empty(columns.shape[0], np.float32)
    at = 0
    for i in range(indptr.shape[0] - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            if place[columns[k]] >= 0 and values[k] > 0:
                total += values[k] / importance[columns[k]]
        for k in range(indptr[i], indptr[i + 1]):
            if place[columns[k]] >= 0 and values[k] > 0:
                indices[at] = place[columns[k]]
                weight[at] = values[k] / importance[columns[k]] / total
                at += 1
        out_ptr[i + 1] = at
    return out_ptr, indices[:at].copy(), weight[:at].copy()


def layer_numba(
    indptr: Tensor, indices: Tensor, weight: Tensor | None, previous: Tensor, budget: int, key: int
) -> Layer:
    """The layer on the CPU."""
    u = rows(indptr.numpy(), indices.numpy(), None if weight is None else weight.numpy(), previous.numpy())
    arrival = np.empty(len(u.nodes))
    _arrivals(u.nodes, u.importance, key, arrival)
    take = min(budget, int((u.importance > 0).sum()))
    drawn = np.argpartition(arrival, take - 1)[:take]
    drawn = drawn[drawn >= len(previous)]
    new = drawn[np.argsort(u.nodes[drawn])]
    place = np.full(len(u.nodes), -1, np.int32)
    place[: len(previous)] = np.arange(len(previous))
    place[new] = np.arange(len(previous), len(previous) + len(new))
    kept = _keep_columns(u.indptr, u.columns, u.values, u.importance, place)
    return Layer(torch.cat([previous, torch.from_numpy(u.nodes[new])]), *(torch.from_numpy(array) for array in kept))


def layer_torch(
    indptr: Tensor, indices: Tensor, weight: Tensor | None, previous: Tensor, budget: int, key: int
) -> Layer:
    """The same layer in plain torch, for any device."""
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
    is_new[first] = False
    new = is_new.nonzero().squeeze(1)
    place = torch.full((len(nodes),), -1, device=device)
    place[first] = own
    place[new] = torch.arange(targets, targets + len(new), device=device)

    kept = (place[column] >= 0) & (value > 0)
    row, column = row[kept], column[kept]
    value = value[kept] / importance[column]
    value /= torch.zeros_like(one).index_add_(0, row, value)[row]
    out_ptr = torch.zeros(targets + 1, dtype=torch.int64, device=device)
    out_ptr[1:] = torch.bincount(row, minlength=targets).cumsum(0)
    sources = torch.cat([previous, nodes[new]])
    return Layer(sources, out_ptr, place[column].to(torch.int32), value.to(torch.float32))


def layer(indptr: Tensor, indices: Tensor, weight: Tensor | None, previous: Tensor, budget: int, key: int) -> Layer:
    """Draw the sources of ``previous`` (distinct ids, int64) by the fastest way on their device."""
    draw = layer_numba if previous.device.type == "cpu" else layer_torch
    return draw(indptr, indices, weight, previous, budget, key)
