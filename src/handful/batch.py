"""``Batch``: what one training step sees. A stack of bipartite layers, the features below it, the labels above it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.memory import empty


@dataclass(frozen=True, eq=False)
class Batch:
    """A sampled computation.

    Args:
        nodes: int64, the graph's ids of the input nodes.
        x: the features of ``nodes``.
        layers: one square adjacency that every layer shares, or one rectangle a layer from input to output. The
            targets of a layer are the first of its sources, and are the sources of the next one.
        targets: int64, which rows of the output the loss is taken on; empty where the batch has no training node.
        y: int64, the labels of ``targets``.
        target_weight: float, how much each target counts in the loss (their weighted sum); plain mean when ``None``.
    """

    nodes: Tensor
    x: Tensor
    layers: tuple[Adjacency, ...]
    targets: Tensor
    y: Tensor
    target_weight: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        return sum(layer.num_edges for layer in self.layers)

    @property
    def shared(self) -> bool:
        """Whether all layers run on one square adjacency."""
        return len(self.layers) == 1 and self.layers[0].num_targets == self.layers[0].num_sources

    def stack(self, depth: int) -> tuple[Adjacency, ...]:
        """One adjacency for each of ``depth`` layers, input first.

        A model deeper than the sample runs its extra first layers on all that was sampled, as PyG's loaders make it;
        a shallower one needs only the last hops.
        """
        if self.shared:
            return self.layers * depth
        extra = depth - len(self.layers)
        if extra > 0 and self.layers[0].normalized:
            raise SamplerError(
                f"this sampler draws {len(self.layers)} layers and the model has {depth}: make them equal"
            )
        return (self.layers[0].square(),) * extra + self.layers[max(0, -extra) :]

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        moved = {
            n: t.to(device)
            for n in ("nodes", "x", "targets", "y", "target_weight")
            if (t := getattr(self, n)) is not None
        }
        return replace(self, layers=tuple(layer.to(device) for layer in self.layers), **moved)


def make_batch(
    graph: Graph,
    nodes: Tensor,
    layers: tuple[Adjacency, ...],
    targets: Tensor | None = None,
    target_weight: Tensor | None = None,
) -> Batch:
    """Gather what ``graph`` knows of ``nodes``; the loss is on the training nodes among them, or on ``targets``."""
    assert graph.x is not None
    assert graph.y is not None
    assert graph.train_mask is not None
    if targets is None:
        targets = graph.train_mask[nodes].nonzero().squeeze(1)
    return Batch(nodes, gather(graph.x, nodes), layers, targets, graph.y[nodes[targets]], target_weight)


def gather(x: Tensor, rows: Tensor) -> Tensor:
    """Some rows of ``x``, in memory that earlier batches have left."""
    return torch.index_select(x, 0, rows, out=empty((len(rows), *x.shape[1:]), x))
