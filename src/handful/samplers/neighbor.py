"""Neighbour sampling: batches of training nodes, and a few neighbours of each, hop by hop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.neighbors import Neighborhood, sample
from handful.random import derived_seed, generator
from handful.samplers.base import Sampler, register
from handful.samplers.chunks import in_chunks, in_order
from handful.samplers.options import at_least, take_types, whole_numbers


@register("neighbor")
@dataclass(frozen=True)
class Neighbors(Sampler):
    """Neighbour sampling as GraphSAGE has it.

    An epoch visits every training node once, ``batch_size`` seeds per step. Hop k takes up to ``fanout[k]`` edges of
    every node that is new in it, uniformly without replacement; a node's edges are drawn once, when it is first met.
    The loss is the mean over the seeds. Edge weights do not steer the draw and go with the edges that were drawn.

    Args:
        fanout: how many edges a node keeps, from the seeds outwards; -1 for all. It may be shorter than the model is
            deep: the model's first layers then run on all that was sampled.
        batch_size: how many seeds a step has.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sample = next(Neighbors(fanout=(3, 2), batch_size=5).sample(graph, seed=0, epoch=0))
    >>> len(sample.layers), len(sample.targets)
    (2, 5)
    """

    fanout: tuple[int, ...] = (10, 10)
    batch_size: int = 1024

    def __post_init__(self) -> None:
        take_types(self)
        object.__setattr__(self, "fanout", whole_numbers("fanout", self.fanout))
        if any(f < 1 and f != -1 for f in self.fanout):
            raise SamplerError(f"fanout takes numbers from 1, or -1 for all neighbours, got {self.fanout}")
        at_least(1, batch_size=self.batch_size)

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        order = generator(seed, epoch).permutation(graph.train_nodes.cpu().numpy())
        return self._samples(graph, order, lambda step: derived_seed(seed, epoch, step))

    def evaluation(self, graph: Graph, nodes: Tensor, seed: int) -> Iterator[Sample]:
        seeds = nodes.cpu().numpy()
        if len(np.unique(seeds)) < len(seeds):
            raise SamplerError("a node to evaluate is given twice: give each once")
        if len(seeds) and not (seeds.min() >= 0 and seeds.max() < graph.num_nodes):
            raise SamplerError(f"a node to evaluate is not in the graph: ids run from 0 to {graph.num_nodes - 1}")
        return self._samples(graph, seeds, lambda step: derived_seed(seed, step))

    def _samples(self, graph: Graph, seeds: np.ndarray, key: Callable[[int], int]) -> Iterator[Sample]:
        chunks = in_chunks(seeds, self.batch_size)
        drawn = in_order(lambda step: sample(*graph.topology, chunks[step], self.fanout, key(step)), len(chunks))
        for around in drawn:
            nodes = torch.from_numpy(around.nodes).to(graph.device)
            yield Sample(nodes, rectangles(graph, around), torch.arange(int(around.met[0]), device=graph.device))


def rectangles(graph: Graph, around: Neighborhood) -> tuple[Adjacency, ...]:
    """One layer per hop, the outermost hop first: the rows of the nodes met before it, which are a prefix of the CSR.

    ``source_degree`` is that of the union of all hops, so that GCN weighs an edge the same in every layer.
    """
    indptr, indices = torch.from_numpy(around.indptr), torch.from_numpy(around.indices)
    weight = None if graph.edge_weight is None else graph.edge_weight[torch.from_numpy(around.edges).to(graph.device)]
    last_hop = len(around.nodes) - (len(indptr) - 1)
    union = Adjacency(
        torch.cat([indptr, indptr[-1:].expand(last_hop)]).to(graph.device),
        indices.to(graph.device),
        len(around.nodes),
        weight,
        has_loops=graph.has_loops,
    )
    layers = []
    for targets, sources in reversed(list(pairwise(around.met.tolist()))):
        edges = int(indptr[targets])
        layer = replace(
            union,
            indptr=union.indptr[: targets + 1],
            indices=union.indices[:edges],
            num_sources=sources,
            weight=None if weight is None else weight[:edges],
            source_degree=union.degree_with_loops[:sources],
        )
        layers.append(layer)
    return tuple(layers)
