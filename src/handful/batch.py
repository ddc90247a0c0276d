"""``Sample``: the structure that a sampler draws. ``Batch``: a sample with features and labels, the input of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.errors import SamplerError
from handful.graph import Graph, fingerprint
from handful.kernels.gather import gather
from handful.kernels.memory import sender


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """The graph structure for one training step: its nodes, the edges of its layers, and the targets of the loss.

    Args:
        nodes: int64 ``(n,)``, the ids of the input nodes in the graph.
        layers: either one square adjacency, which all layers share, or one rectangular adjacency per layer, from input
            to output. The targets of a layer are the sources of the next layer. The first sources of a layer are its
            targets, except for LADIES (``Adjacency.own_rows``).
        targets: int64 ``(t,)``, the rows of the output that the loss uses; empty if there is no training node.
        target_weight: float ``(t,)``, the weight of each target in the loss. The loss is the weighted sum over the
            targets; if ``target_weight`` is ``None``, the loss is the mean.
        hops: the number of nodes within 0, 1, … hops of the targets. ``hops`` is given only if the layers share one
            square adjacency whose nodes are sorted by their distance to the targets. Trimming then only slices the
            arrays, without a search for the nodes to keep.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> sample = next(hf.RandomNodes(parts=4).sample(graph, seed=0, epoch=0))
    >>> sample.num_nodes, sample.shared
    (25, True)
    """

    nodes: Tensor
    layers: tuple[Adjacency, ...]
    targets: Tensor
    target_weight: Tensor | None = None
    hops: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        what = f"{self.num_nodes:,} nodes, {self.num_edges:,} edges, {len(self.targets):,} targets"
        return f"{type(self).__name__}({what}, {'one square' if self.shared else f'{len(self.layers)} layers'})"

    @property
    def num_nodes(self) -> int:
        """The number of input nodes."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """The total number of edges in all layers."""
        return sum(layer.num_edges for layer in self.layers)

    @property
    def shared(self) -> bool:
        """Whether all layers share one square adjacency."""
        return len(self.layers) == 1 and self.layers[0].num_targets == self.layers[0].num_sources

    def stack(self, depth: int) -> tuple[Adjacency, ...]:
        """One adjacency for each layer of a model with ``depth`` layers, from input to output.

        If the model has more layers than the sample, the first layers of the model use all sampled edges, as with PyG's
        loaders. If the model has fewer layers than the sample, it uses only the last layers of the sample.
        """
        if self.shared:
            return self.layers * depth
        drawn = len(self.layers)
        extra = depth - drawn
        if extra > 0 and self.layers[0].normalized:
            raise SamplerError(f"this sampler draws {drawn} layers and the model has {depth}: make them equal")
        return ((self.layers[0].square(),) * extra if extra > 0 else ()) + self.layers[max(0, -extra) :]

    def to(self, device: torch.device | str) -> Self:
        """This sample or batch on ``device``. A CSR that several layers share is sent once, and stays shared."""
        if self.nodes.device == torch.device(device):
            return self
        return self.map(sender(torch.device(device)))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """A copy of this sample or batch with ``function`` applied to every tensor.

        The layers are processed from input to output.
        """
        result: dict[str, Any] = {name: function(t) for name, t in vars(self).items() if isinstance(t, Tensor)}
        return replace(self, layers=tuple(layer.map(function) for layer in self.layers), **result)


@dataclass(frozen=True, eq=False, repr=False)
class Batch(Sample):
    """A sample with the features of its nodes and the labels of its targets.

    Args:
        x: ``(n, features)``, the features of ``nodes``.
        y: ``(t,)`` or ``(t, labels)``, the labels of ``targets``.
        edge_attr: ``(edges, D)``, the features of the edges of the first layer, if the graph has edge features.
        label_counts: ``(t, classes)``, the number of each target's neighbours in each class; see
            ``handful.training.label_features``.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&features=3")
    >>> batch = next(hf.RandomNodes(parts=4).epoch(graph, seed=0, epoch=0))
    >>> tuple(batch.x.shape), len(batch.y) == len(batch.targets)
    ((25, 3), True)
    """

    x: Tensor = field(kw_only=True)
    y: Tensor = field(kw_only=True)
    edge_attr: Tensor | None = field(kw_only=True, default=None)
    label_counts: Tensor | None = field(kw_only=True, default=None)


def training_sample(
    graph: Graph, nodes: Tensor, layers: tuple[Adjacency, ...], weight: Tensor | None = None, count: int | None = None
) -> Sample:
    """A sample whose targets are the training nodes among ``nodes``.

    ``weight`` has one value for each of ``nodes``. ``count`` is the number of targets; if it is given, the host
    does not wait for the device.
    """
    graph.require_training()
    assert graph.train_mask is not None
    mask = graph.train_mask[nodes]
    if count is None:
        targets = mask.nonzero().squeeze(1)
    else:
        targets = torch.argsort(mask, descending=True, stable=True)[:count]
    return Sample(nodes, layers, targets, None if weight is None else weight[targets])


def make_batch(graph: Graph, sample: Sample) -> Batch:
    """Gather the features of a sample's nodes and the labels of its targets.

    A sample of the whole graph (``sample.nodes is graph.nodes``) uses the graph's features without a copy.
    """
    graph.require_training()
    assert graph.x is not None
    assert graph.y is not None
    x = graph.x if sample.nodes is graph.nodes else gather(graph.x, sample.nodes)
    y = graph.y[sample.nodes[sample.targets]]
    return Batch(**vars(sample), x=x, y=y, edge_attr=None if graph.edge_attr is None else _edge_attr(graph, sample))


def _edge_attr(graph: Graph, sample: Sample) -> Tensor | None:
    """The features of the edges of the first layer. An edge is looked up by its source and target.

    The k-th copy of a repeated edge in a batch is the k-th copy in the graph, since a batch keeps the order of the
    edges in the graph.

    Raises:
        SamplerError: a batch has only some copies of a repeated edge, so the features of these copies are unknown.
    """
    assert graph.edge_attr is not None
    edges = sample.layers[0]
    if edges.own_rows is not None:
        return None  # LADIES draws edges for each layer; modules with edge_attr refuse such a batch
    if sample.nodes is graph.nodes and edges.num_edges == graph.num_edges:
        return graph.edge_attr
    wanted = sample.nodes[edges.target_of_edge] * graph.num_nodes + sample.nodes[edges.indices.long()]
    _, run, times = torch.unique_consecutive(wanted, return_inverse=True, return_counts=True)
    first, last = (torch.searchsorted(graph.edge_keys, wanted, right=right) for right in (False, True))
    if not torch.equal(times[run], last - first):
        why = "this sampler keeps some of several edges between the same nodes, whose edge_attr differ"
        raise SamplerError(f"{why}: use coalesce('first'), or a sampler that keeps all (rns, cluster, full)")
    return graph.edge_attr[first + torch.arange(len(wanted), device=first.device) - (times.cumsum(0) - times)[run]]


def batch_checksum(batch: Batch) -> str:
    """A fingerprint of the nodes, edges, targets, features and labels of a batch.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> one, other = (batch_checksum(batch) for batch in hf.RandomNodes(parts=2).epoch(graph, seed=0, epoch=0))
    >>> one != other
    True
    """
    names = ("indptr", "indices", "weight", "source_degree")
    edges = (getattr(layer, name) for layer in batch.layers for name in names)
    arrays = (batch.nodes, batch.targets, batch.target_weight, *edges, batch.x, batch.y, batch.edge_attr)
    return fingerprint(*(array for array in (*arrays, batch.label_counts) if array is not None))
