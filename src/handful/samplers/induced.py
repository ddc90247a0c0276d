"""Induced subgraphs of a set of nodes, or of every part of a partition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Sample, training_sample
from handful.graph import Graph
from handful.kernels import subgraph
from handful.kernels.dispatch import backend, loops
from handful.kernels.memory import sent


def part_dtype(parts: int) -> type[np.unsignedinteger | np.signedinteger]:
    """The smallest dtype for ``parts + 1`` values. A small dtype lets the parts of all nodes fit into the cache."""
    return np.uint8 if parts < 255 else np.uint16 if parts < 65_535 else np.int32


def induced_parts(graph: Graph, part: np.ndarray, parts: int) -> Iterator[tuple[Tensor, Adjacency]]:
    """Yield the nodes and edges of each part. The edges of ``graph`` are read only once.

    Args:
        graph: the graph.
        part: ``(N,)``, the part of every node; a node with a value of ``parts`` or more is in no part.
        parts: the number of parts.
    """
    if backend(graph.device) == "triton":
        # One transfer sends the parts of all nodes to the device.
        placed, weighted = sent(torch.from_numpy(part), graph.device), graph.edge_weight is not None
        cut = loops("subgraph", graph.device).parts(graph.indptr, graph.indices, placed, parts, weighted)
        for ids, indptr, indices, edges in cut:
            yield ids, part_adjacency(graph, indptr, indices, _weights(graph, edges))
    else:
        indptr, indices, weight = weighted_csr(graph)
        for arrays in subgraph.parts(indptr, indices, part, parts, weight):
            nodes, *csr = (torch.from_numpy(array).to(graph.device) for array in arrays)
            yield nodes, part_adjacency(graph, *csr)


def dealt_samples(graph: Graph, part: np.ndarray, parts: int) -> Iterator[Sample]:
    """Yield the sample of each part of a partition. The targets of a sample are the training nodes in the part."""
    graph.require_training()
    targets: list[int | None] = [None] * parts
    if backend(graph.device) != "numba":  # counted on the host, so the host does not wait for the device
        targets = np.bincount(part[graph.train_nodes.cpu().numpy()], minlength=parts)[:parts].tolist()
    for count, (nodes, adjacency) in zip(targets, induced_parts(graph, part, parts), strict=True):
        yield training_sample(graph, nodes, (adjacency,), count=count)


def induced_adjacency(graph: Graph, nodes: np.ndarray) -> Adjacency:
    """The edges of the subgraph that ``nodes`` induces.

    ``nodes``, int64 ``(n,)``, are distinct ids. Node ``nodes[i]`` has index ``i`` in the subgraph.

    >>> import handful as hf
    >>> ring = hf.Graph.from_edge_index(np.array([[0, 1, 2, 3], [1, 2, 3, 0]]))
    >>> induced_adjacency(ring, np.array([1, 2])).edge_index.tolist()
    [[0], [1]]
    """
    with_edges = graph.edge_weight is not None
    if backend(graph.device) == "triton":
        ids = sent(torch.from_numpy(nodes), graph.device)
        indptr, indices, edges = loops("subgraph", graph.device).induced(graph.indptr, graph.indices, ids, with_edges)
    else:
        arrays = subgraph.induced(*graph.topology, nodes, with_edges)
        indptr, indices, edges = (torch.from_numpy(array).to(graph.device) for array in arrays)
    return part_adjacency(graph, indptr, indices, _weights(graph, edges))


def weighted_csr(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The arrays of ``Graph.topology``, and the edge weights. The weights are ``None`` for an unweighted graph."""
    return *graph.topology, None if graph.edge_weight is None else graph.edge_weight.cpu().numpy()


def _weights(graph: Graph, edges: Tensor) -> Tensor:
    """The weights of ``edges``; an empty tensor for an unweighted graph."""
    return edges.new_empty(0, dtype=torch.float32) if graph.edge_weight is None else graph.edge_weight[edges]


def part_adjacency(graph: Graph, indptr: Tensor, indices: Tensor, weight: Tensor | None) -> Adjacency:
    """The edges of a part of ``graph`` as one square layer; ``weight`` is ignored for an unweighted graph."""
    nodes, kept = len(indptr) - 1, None if graph.edge_weight is None else weight
    return Adjacency(indptr, indices, nodes, kept, symmetric=bool(graph.undirected), has_loops=graph.has_loops)


def without_edge(pairs: Tensor, edges: Tensor, nodes: int) -> Tensor:
    """The pairs in ``pairs`` that are not in ``edges`` and consist of two different nodes. Both ``pairs`` and ``edges``
    are int64 ``(2, …)``, with ids below ``nodes``.

    >>> without_edge(torch.tensor([[0, 0, 1, 2], [1, 2, 1, 0]]), torch.tensor([[0], [1]]), 3)
    tensor([[0, 2],
            [2, 0]])
    """
    taken = torch.isin(pairs[0] * nodes + pairs[1], edges[0] * nodes + edges[1])
    return pairs[:, ~taken & (pairs[0] != pairs[1])]
