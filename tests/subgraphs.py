"""The edges of a subgraph, as handful has them and as PyG finds them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import subgraph

from handful import Graph
from handful.adjacency import Adjacency

Edges = list[tuple[int, int, float]]


def edges_of(adjacency: Adjacency) -> Edges:
    """Source, target and weight of every edge, sorted."""
    return listed(adjacency.edge_index, adjacency.weight)


def induced_edges(graph: Graph, nodes: Tensor) -> Edges:
    """What PyG finds among ``nodes``, numbered in their order."""
    weight = torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
    edges, kept = subgraph(nodes, graph.edge_index, weight, num_nodes=graph.num_nodes)
    place = torch.full((graph.num_nodes,), -1)
    place[nodes] = torch.arange(len(nodes))
    return listed(place[edges], kept)


def listed(edge_index: Tensor, weight: Tensor | None) -> Edges:
    values = torch.ones(edge_index.shape[1]) if weight is None else weight
    return sorted((*pair, w) for pair, w in zip(edge_index.T.tolist(), values.tolist(), strict=True))
