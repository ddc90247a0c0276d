"""Neighbour sampling: a batch contains some training nodes and, hop by hop, a few neighbours of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.neighbors import Neighborhood, sample
from handful.random import derive_seed, generator
from handful.samplers.base import Fanout, Sampler, Size, check_options, in_batches, register
from handful.trim import trim


@register("neighbor")
@dataclass(frozen=True)
class Neighbors(Sampler):
    """Neighbour sampling as in GraphSAGE.

    An epoch visits every training node once, ``batch_size`` seeds per step. Hop k draws up to ``fanout[k]`` incoming
    edges of every node that the previous hop added, uniformly without replacement; hop 0 starts from the seeds. The
    edges of a node are drawn once. The loss is the mean over the seeds. Edge weights do not affect the draw; drawn
    edges keep their weights.

    A sample is the subgraph of all drawn edges, and every layer runs on the whole sample, as with PyG's loader.
    Training omits nodes outside the receptive field of the seeds (``Settings.trim``), except with BatchNorm, whose
    statistics would change.

    Args:
        fanout: the maximum number of edges to draw per node, for each hop from the seeds outwards; -1 for all edges. If
            a model has more layers than there are hops, the first layers of the model run on the whole sample.
        batch_size: the number of seeds per step.
        trimmed: whether to omit nodes outside the receptive field of the seeds even with BatchNorm. The statistics of
            BatchNorm then cover only the nodes that a layer must compute. This is faster, but changes the outputs of
            the model.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sample = next(Neighbors(fanout=(3, 2), batch_size=5).sample(graph, seed=0, epoch=0))
    >>> sample.shared, len(sample.targets), sample.hops[-1] == sample.num_nodes
    (True, 5, True)
    """

    fanout: tuple[int, ...] = (10, 10)
    batch_size: Size = 1024
    trimmed: bool = False

    def __post_init__(self) -> None:
        check_options(self)
        if any(f < 1 and f != -1 for f in self.fanout):
            raise SamplerError(f"fanout takes numbers from 1, or -1 for all neighbours, got {self.fanout}")

    @property
    def shared(self) -> bool:
        return not self.trimmed

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        order = generator(seed, epoch).permutation(graph.train_nodes.cpu().numpy())
        return self._samples(graph, order, lambda step: derive_seed(seed, epoch, step))

    def evaluation(self, graph: Graph, nodes: Tensor, seed: int, fanout: Fanout | None = None) -> Iterator[Sample]:
        if fanout is not None:
            return replace(self, fanout=fanout).evaluation(graph, nodes, seed)
        seeds = nodes.cpu().numpy()
        if len(np.unique(seeds)) < len(seeds):
            raise SamplerError("a node to evaluate is given twice: give each node once")
        if len(seeds) and not (seeds.min() >= 0 and seeds.max() < graph.num_nodes):
            raise SamplerError(f"a node to evaluate is not in the graph: ids run from 0 to {graph.num_nodes - 1}")
        return self._samples(graph, seeds, lambda step: derive_seed(seed, step))

    def _samples(self, graph: Graph, seeds: np.ndarray, key: Callable[[int], int]) -> Iterator[Sample]:
        def draw(step: int, batch: np.ndarray) -> Neighborhood:
            return sample(*graph.topology, batch, self.fanout, key(step))

        for around in in_batches(seeds, self.batch_size, draw):
            nodes = torch.from_numpy(around.nodes).to(graph.device)
            targets = torch.arange(int(around.met[0]), device=graph.device)
            whole = Sample(nodes, (union(graph, around),), targets, hops=tuple(around.met.tolist()))
            yield trim(whole, len(self.fanout)) if self.trimmed else whole


def union(graph: Graph, around: Neighborhood) -> Adjacency:
    """The edges of all hops as one square adjacency; the rows of the last hop's nodes are empty."""
    nodes, weight = len(around.nodes), graph.edge_weight
    indptr, indices, edges = map(torch.from_numpy, (around.indptr, around.indices, around.edges))
    indptr = torch.cat([indptr, indptr[-1:].expand(nodes + 1 - len(indptr))]).to(graph.device)
    drawn = None if weight is None else weight[edges.to(graph.device)]
    return Adjacency(indptr, indices.to(graph.device), nodes, drawn, has_loops=graph.has_loops)
