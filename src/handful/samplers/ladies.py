"""LADIES: every layer draws its own nodes, with probabilities that depend on the nodes of the layer above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
import torch

from handful.adjacency import Adjacency
from handful.batch import Sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.layerwise import Csr, Layer, layer, transition
from handful.random import derive_seed, generator
from handful.samplers.base import Sampler, Size, check_options, in_batches, per_graph, register
from handful.samplers.induced import weighted_csr


@register("ladies")
@dataclass(frozen=True)
class Ladies(Sampler):
    """LADIES (paper, appendix): layer-dependent importance sampling.

    An epoch visits every training node once, ``batch_size`` targets per step. Let P = row-normalised A + I. Each layer,
    from the top down, draws nodes without replacement, with p_u ∝ Σ_v P_vu², where v runs over the nodes of the layer
    above. The layer also keeps the step's targets, and aggregates with the row-normalised P / p; see
    ``handful.kernels.layerwise``. A contains the edge weights. The loss is the mean over the targets. The evaluation
    uses P on the full graph.

    As in the original, a layer does not keep the nodes of the layer above. A model layer that also uses a node's own
    input (GraphSAGE, a residual connection) uses zeros if this node was not drawn.

    Args:
        budget: the number of nodes that each layer draws, from the targets downwards; one number per layer of the
            model. In an experiment and in ``fit``, a single number applies to all layers.
        batch_size: the number of targets per step.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sample = next(Ladies(budget=(20, 20), batch_size=5).sample(graph, seed=0, epoch=0))
    >>> len(sample.layers), len(sample.targets)
    (2, 5)
    """

    budget: tuple[int, ...] = (8192,)
    batch_size: Size = 1024
    layerwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)
        if min(self.budget) < 1:
            raise SamplerError(f"budget takes numbers from 1, got {self.budget}")

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        order = generator(seed, epoch).permutation(graph.train_nodes.cpu().numpy())
        for drawn in in_batches(order, self.batch_size, partial(self.draw, weighted_csr(graph), seed, epoch)):
            layers = tuple(rectangle(layer) for layer in reversed(drawn))
            yield Sample(drawn[-1].nodes, layers, torch.arange(layers[-1].num_targets)).to(graph.device)

    def operator(self, graph: Graph) -> Adjacency:
        return transition_adjacency(graph)

    def for_depth(self, layers: int) -> Self:
        if len(self.budget) == 1:
            return replace(self, budget=self.budget * layers)
        if len(self.budget) != layers:
            counts = f"LADIES draws {len(self.budget)} layers (budget), and the model has {layers}"
            raise SamplerError(f"{counts}: make them equal, or give one number for all")
        return self

    def draw(self, edges: Csr, seed: int, epoch: int, step: int, batch: np.ndarray) -> list[Layer]:
        """Draw the layers of one step, starting from the targets ``batch``. ``edges`` are the edges of the graph."""
        layers: list[Layer] = []
        for depth, budget in enumerate(self.budget):
            above = layers[-1].nodes.numpy() if layers else batch
            layers.append(layer(edges, above, len(batch), budget, derive_seed(seed, epoch, step, depth)))
        return layers


@per_graph
def transition_adjacency(graph: Graph) -> Adjacency:
    """The matrix P, the row-normalised A + I, on the full graph."""
    indptr, indices, weight = transition(weighted_csr(graph))
    return Adjacency(indptr, indices, graph.num_nodes, weight, normalized=True).to(graph.device)


def rectangle(drawn: Layer) -> Adjacency:
    """Convert a drawn layer to an adjacency."""
    own = None if torch.equal(drawn.own, torch.arange(len(drawn.own))) else drawn.own
    return Adjacency(drawn.indptr, drawn.indices, len(drawn.nodes), drawn.weight, normalized=True, own_rows=own)
