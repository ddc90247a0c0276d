"""One layer of LADIES: sample the sources of some targets, and compute the edge weights.

    P = row-normalised A + I,   U = P[previous],   p_i = Σ_v U_vi² / Σ_j Σ_v U_vj²
    draw min(budget, #{p > 0}) nodes without replacement by p;   S = batch ∪ drawn
    adjacency = row-normalised U[:, S] / p_S

The nodes of the batch are the first nodes of ``previous``. Other nodes of ``previous`` are sources only if they are
drawn again. A node has an empty row if neither it nor a neighbour is drawn.

To draw nodes without replacement, every node gets an exponential arrival time with rate p_i, and the nodes with the
earliest times are drawn. A node's time depends only on the key and its id. The nodes are always drawn on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from handful.kernels.hashing import uniform
from handful.kernels.threads import kernel

Csr = tuple[np.ndarray, np.ndarray, np.ndarray | None]
"""``indptr``, ``indices`` and the edge weights of a graph. The weights are ``None`` for an unweighted graph."""


class Layer(NamedTuple):
    """A sampled layer: its sources ``nodes``, and its weighted CSR.

    The nodes of the batch come first in ``nodes``; the other ids follow in ascending order.
    """

    nodes: Tensor
    indptr: Tensor
    indices: Tensor
    weight: Tensor
    own: Tensor
    """int64 ``(targets,)``: the index of each target among the sources; -1 if the target was not drawn."""


@kernel
def transition_rows(indptr: Any, indices: Any, weight: Any, rows: Any) -> Any:
    """U = P[rows] as a CSR, and the sum over each column of the squared entries of U, float64 ``(N,)``.

    After normalisation, the sums are the probabilities p. Each row of U starts with the entry of the row's own node.
    """
    room = rows.shape[0]
    for i in range(rows.shape[0]):
        room += indptr[rows[i] + 1] - indptr[rows[i]]
    out_ptr, importance = np.zeros(rows.shape[0] + 1, np.int64), np.zeros(indptr.shape[0] - 1)
    columns, values = np.empty(room, indices.dtype), np.empty(room)
    at = 0
    for i in range(rows.shape[0]):
        v = rows[i]
        begin, at = at, at + 1
        own = total = 1.0  # the I of A + I, plus the node's own loops
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
    """U[:, S] / p_S, with each row divided by its sum."""
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


def layer(graph: Csr, previous: np.ndarray, batch: int, budget: int, key: int) -> Layer:
    """Draw the sources of the targets ``previous``.

    Args:
        graph: the CSR to draw from.
        previous: int64, the distinct ids of the targets.
        batch: the number of nodes in the batch. The first ``batch`` nodes of ``previous`` are always sources.
        budget: the number of nodes to draw.
        key: the key of the random numbers.
    """
    *rows, q = transition_rows(*graph, previous)
    candidates = np.flatnonzero(q)
    take = min(budget, len(candidates))
    drawn = np.sort(candidates[np.argpartition(_arrivals(candidates, q, key), take - 1)[:take]])
    place = np.full(len(q), -1, np.int32)
    place[previous[:batch]] = np.arange(batch)
    new = drawn[place[drawn] < 0]
    place[new] = np.arange(batch, batch + len(new))
    kept = (*_keep_columns(*rows, q, place), place[previous].astype(np.int64))
    return Layer(*map(torch.from_numpy, (np.concatenate([previous[:batch], new]), *kept)))


def transition(graph: Csr) -> tuple[Tensor, Tensor, Tensor]:
    """P, the row-normalised A + I of the whole graph, as a CSR with float32 weights."""
    indptr, columns, value = transition_rows(*graph, np.arange(len(graph[0]) - 1))[:3]
    return torch.from_numpy(indptr), torch.from_numpy(columns), torch.from_numpy(value.astype(np.float32))
