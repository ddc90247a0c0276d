"""LADIES: every layer draws its own few nodes, by their importance to the layer above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.layerwise import layer
from handful.random import derived_seed, generator
from handful.samplers.base import Sampler, register
from handful.samplers.chunks import in_chunks, in_order
from handful.samplers.options import at_least, whole_numbers


@register("ladies")
@dataclass(frozen=True)
class Ladies(Sampler):
    """LADIES (paper, appendix): layer-dependent importance sampling.

    An epoch visits every training node once, ``batch_size`` targets per step. With P = row-normalised A + I, each layer
    from the top down draws nodes without replacement, with p ∝ the squared column sums of P over the nodes above it,
    keeps those nodes too, and aggregates by the row-normalised P / p; see ``handful.kernels.layerwise``. Edge weights
    are part of A. The loss is the mean over the targets.

    Args:
        budget: how many nodes a layer draws, from the targets downwards. A model may have fewer layers, not more.
        batch_size: how many targets a step has.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sample = next(Ladies(budget=(20, 20), batch_size=5).sample(graph, seed=0, epoch=0))
    >>> len(sample.layers), len(sample.targets)
    (2, 5)
    """

    budget: tuple[int, ...] = (8192,) * 5
    batch_size: int = 1024

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", whole_numbers("budget", self.budget))
        if min(self.budget) < 1:
            raise SamplerError(f"budget takes numbers from 1, got {self.budget}")
        at_least(1, batch_size=self.batch_size)

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        order = generator(seed, epoch).permutation(graph.train_nodes.cpu().numpy())
        chunks = [torch.from_numpy(chunk).to(graph.device) for chunk in in_chunks(order, self.batch_size)]
        for nodes, layers in in_order(lambda step: self._draw(graph, chunks[step], seed, epoch, step), len(chunks)):
            yield Sample(nodes, layers, torch.arange(layers[-1].num_targets, device=graph.device))

    def _draw(self, graph: Graph, nodes: Tensor, *keys: int) -> tuple[Tensor, tuple[Adjacency, ...]]:
        layers: list[Adjacency] = []
        for depth, budget in enumerate(self.budget):
            key = derived_seed(*keys, depth)
            drawn = layer(graph.indptr, graph.indices, graph.edge_weight, nodes, budget, key)
            nodes = drawn.nodes
            layers.insert(0, Adjacency(drawn.indptr, drawn.indices, len(nodes), drawn.weight, normalized=True))
        return nodes, tuple(layers)
