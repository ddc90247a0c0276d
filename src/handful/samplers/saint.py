"""GraphSAINT with random walks: a step trains on the nodes that a few random walks have visited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from handful.adjacency import Adjacency
from handful.batch import Sample, training_sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.csr import row_of_edge
from handful.kernels.subgraph import induced
from handful.kernels.walks import walk
from handful.random import derive_seed, generator
from handful.samplers.base import Sampler, Size, check_options, per_graph, register
from handful.samplers.induced import induced_adjacency

MOST_VISITS = 1 << 28
"""The maximum number of node visits per step. There is a maximum, since a step keeps all visits in memory."""


@register("saint")
@dataclass(frozen=True)
class RandomWalks(Sampler):
    """GraphSAINT-RW (paper, appendix): a batch is the subgraph induced by the nodes of S random walks of length L.

    An epoch has max(1, ⌊|V| / (S·L)⌋) steps. Roots are uniformly random. A walk goes from a node to the source of one
    of its incoming edges; all these edges have the same probability, regardless of their weights. The loss is the mean
    over the training nodes that were visited.

    Args:
        roots: S, the number of walks per batch; their roots are drawn with replacement.
        length: L, the number of steps of a walk.
        normalize: whether to weight edges and losses as in the original, so that one layer of mean aggregation and the
            loss are unbiased; see ``normalized``.
        coverage: pre-sampling ends when the mean number of visits per node reaches this number; used only if
            ``normalize``.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> len(list(RandomWalks(roots=10, length=2).sample(graph, seed=0, epoch=0)))
    5
    """

    roots: Size = 6000
    length: Size = 2
    normalize: bool = False
    coverage: Size = 50

    @property
    def induces(self) -> bool:  # type: ignore[override]
        return not self.normalize

    def __post_init__(self) -> None:
        check_options(self)
        if self.roots * (self.length + 1) > MOST_VISITS:
            raise SamplerError(f"{self.roots} walks of {self.length} steps make over {MOST_VISITS:,} visits: use fewer")

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        counts = presample(graph, self, seed) if self.normalize else None
        for step in range(max(1, graph.num_nodes // (self.roots * self.length))):
            nodes = self.visited(graph, seed, epoch, step)
            if counts is None:
                ids = torch.from_numpy(nodes).to(graph.device)
                yield training_sample(graph, ids, (induced_adjacency(graph, nodes),))
            else:
                yield normalized(graph, nodes, counts)

    def visited(self, graph: Graph, *keys: int) -> np.ndarray:
        """The distinct nodes that the walks visit, in ascending order. ``keys`` are the keys of the random stream."""
        return np.unique(self.walks(graph, *keys))

    def walks(self, graph: Graph, *keys: int) -> np.ndarray:
        """The nodes of each walk, step by step, int64 ``(roots, length + 1)``. ``keys`` are the keys of the random
        stream.
        """
        roots = generator(*keys).integers(0, graph.num_nodes, self.roots)
        return walk(*graph.topology, roots, self.length, derive_seed(*keys))


@dataclass(frozen=True, eq=False)
class Counts:
    """The number of pre-sampled subgraphs that contain each node, C_v, and each edge, C_vu."""

    subgraphs: int
    nodes: np.ndarray
    edges: np.ndarray


@per_graph
def presample(graph: Graph, sampler: RandomWalks, seed: int) -> Counts:
    """Sample subgraphs until they contain ``coverage`` · |V| nodes in total, and count how often each node and edge
    occurs.
    """
    node_count, edge_count = np.zeros(graph.num_nodes, np.int32), np.zeros(graph.num_edges, np.int32)
    seen = subgraphs = 0
    while seen < sampler.coverage * graph.num_nodes:
        nodes = sampler.visited(graph, seed, subgraphs, 0, 1)  # keys that no epoch uses
        node_count[nodes] += 1
        edge_count[induced(*graph.topology, nodes, with_edges=True)[2]] += 1
        seen += len(nodes)
        subgraphs += 1
    return Counts(subgraphs, node_count, edge_count)


def normalized(graph: Graph, nodes: np.ndarray, counts: Counts) -> Sample:
    """The subgraph of ``nodes`` with GraphSAINT's aggregator and loss normalisation.

        weight_vu = a_vu / (d_v · α_vu),  α_vu = C_vu / C_v,    a_vu = the edge's weight or 1,  d_v = Σ_u a_vu in G
        loss      = Σ_v ℓ_v / (|V_train| · p_v),  p_v = C_v / subgraphs

    α_vu estimates the probability that a subgraph with v contains u. So the expectation of the weighted sum over v's
    edges is the mean aggregation of the whole graph. The probability that a subgraph contains v is estimated by p_v. So
    the expectation of the loss is L_full (paper, Eq. 1). Nodes and edges that were never sampled count as sampled once.
    """
    indptr, indices, edges = induced(*graph.topology, nodes, with_edges=True)
    rows = nodes[row_of_edge(indptr)]
    total = graph.in_weight.cpu().numpy()[rows]
    seen_node, seen_edge = np.maximum(counts.nodes[rows], 1), np.maximum(counts.edges[edges], 1)
    weight = torch.from_numpy((seen_node / (seen_edge * np.where(total > 0, total, 1))).astype(np.float32))
    if graph.edge_weight is not None:
        weight *= graph.edge_weight.cpu()[torch.from_numpy(edges)]
    ends, sources = torch.from_numpy(indptr), torch.from_numpy(indices)
    adjacency = Adjacency(ends, sources, len(nodes), weight, has_loops=graph.has_loops, normalized=True)
    probability = np.maximum(counts.nodes[nodes], 1) / counts.subgraphs
    loss_weight = torch.from_numpy((1.0 / (len(graph.train_nodes) * probability)).astype(np.float32)).to(graph.device)
    return training_sample(graph, torch.from_numpy(nodes).to(graph.device), (adjacency.to(graph.device),), loss_weight)
