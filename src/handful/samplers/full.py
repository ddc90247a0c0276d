"""The full graph as a sampler: one batch, all nodes, all edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.graph import Graph
from handful.samplers.base import Sampler, register


def full_adjacency(graph: Graph) -> Adjacency:
    """All edges of ``graph`` as one square layer."""
    return Adjacency(
        graph.indptr,
        graph.indices,
        graph.num_nodes,
        graph.edge_weight,
        symmetric=bool(graph.undirected),
        has_loops=graph.has_loops,
    )


@register("full")
@dataclass(frozen=True)
class FullGraph(Sampler):
    """Full-graph training: minimises L_full (paper, Eq. 1) with one step an epoch."""

    def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
        graph.require_training()
        assert graph.x is not None
        assert graph.y is not None
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        targets = graph.train_nodes
        yield Batch(nodes, graph.x, (full_adjacency(graph),), targets, graph.y[targets])
