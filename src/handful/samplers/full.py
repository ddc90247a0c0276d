"""The sampler for full-graph training: one batch with all nodes and all edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from handful.adjacency import Adjacency
from handful.batch import Sample
from handful.graph import Graph
from handful.samplers.base import Sampler, register
from handful.samplers.induced import part_adjacency


def full_adjacency(graph: Graph) -> Adjacency:
    """All edges of ``graph`` as one square layer."""
    return part_adjacency(graph, graph.indptr, graph.indices, graph.edge_weight)


@register("full")
@dataclass(frozen=True)
class FullGraph(Sampler):
    """Full-graph training: one step per epoch on L_full (paper, Eq. 1).

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> [sample.num_nodes for sample in FullGraph().sample(graph, seed=0, epoch=0)]
    [100]
    """

    induces: ClassVar[bool] = True

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        yield Sample(graph.nodes, (full_adjacency(graph),), graph.train_nodes)
