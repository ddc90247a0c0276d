"""Labels of neighbours as features: a linear head that takes the classes of a node's labelled neighbours as input.

In a training step on a part B, the head gets only the labels of training neighbours outside B. So no label of a step's
targets is an input of the step. UniMP (Shi et al., 2021) masks labels at random instead. In evaluation, the head gets
all training labels. A node's own label is never its input: self-loops do not count. A step also drops all counts of
half of its targets, chosen at random. So the network learns to predict without labels, as for a graph that has none.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample
from handful.errors import HandfulError
from handful.graph import Graph
from handful.kernels.bfloat16 import array
from handful.kernels.csr import remove_labels
from handful.kernels.dispatch import backend
from handful.samplers.base import Sampler, per_graph
from handful.samplers.full import full_adjacency
from handful.settings import Settings

DROPPED = 0.5
"""The probability that a training step drops the label counts of a target."""


class LabelHead(nn.Module):
    """The logits W·ℓ(c), where c_k is the number of neighbours of class k, and ℓ_k = log((c_k + p_k) / (Σ c + 1)) − log
    p_k.

    p_k is the fraction of training nodes of class k. If a node has no labelled neighbours, ℓ is 0. W is initialised to
    0.

    >>> head = LabelHead(2, torch.tensor([0.5, 0.5])).eval()
    >>> _ = head.requires_grad_(False).weight.copy_(torch.eye(2))
    >>> head(torch.tensor([[0.0, 0.0], [1.0, 0.0]])).exp()
    tensor([[1.0000, 1.0000],
            [1.5000, 0.5000]])
    """

    def __init__(self, outputs: int, prior: Tensor) -> None:
        super().__init__()
        self.prior = nn.Buffer(prior)
        self.weight = nn.Parameter(torch.zeros(outputs, len(prior), device=prior.device))

    def forward(self, counts: Tensor) -> Tensor:
        if self.training:  # torch's generator of the host: the seed of the step is its seed
            counts = counts * (torch.rand(len(counts), 1) >= DROPPED).to(counts)
        return nn.functional.linear((counts / self.prior).log1p_() - counts.sum(1, keepdim=True).log1p(), self.weight)


def refusal(graph: Graph, sampler: Sampler, model: nn.Module | None = None) -> str | None:
    """The reason why labels of neighbours cannot be features of ``graph`` in the batches of ``sampler``; ``None`` if
    they can be. If ``model`` is ``None``, it is a model of handful.
    """
    if model is not None and not hasattr(model, "label_head"):
        return f"{type(model).__name__} is not a model of handful"
    if graph.kind not in ("binary", "multiclass"):
        return f"{graph.name} has labels for {graph.kind}, not classes"
    if not sampler.induces:
        return f"sampler '{sampler.name}' draws edges, and they need all edges inside of a batch"
    if sampler.name != "saint" and sampler.share(graph) == 1:
        return "a batch of all nodes has no labels outside of it"
    return None if type(graph) is Graph else "they are counted for a graph in one place"


def settle(settings: Settings, graph: Graph, sampler: Sampler, model: nn.Module | None = None) -> Settings:
    """``settings`` with `yes` or `no` in place of `auto`. If the result is `no`, the reason is printed."""
    if settings.label_features != "auto":
        return settings
    if (why := refusal(graph, sampler, model)) is not None:
        print(f"handful: label_features auto is no: {why}", file=sys.stderr, flush=True)
    return replace(settings, label_features="yes" if why is None else "no")


def add_label_head(
    model: Any, graph: Graph, sampler: Sampler, settings: Settings, memory: int | str | None, device: torch.device
) -> None:
    """Add a label head to ``model`` if ``settings.label_features`` is `yes` and the model has none.

    Raises:
        HandfulError: label features are not possible in this run; or ``model`` has a label head, and
            ``settings.label_features`` is `no`.
    """
    head = getattr(model, "label_head", None)
    if head is None and settings.label_features == "no":
        return
    why = refusal(graph, sampler, model)
    if settings.label_features == "no":
        why = "the model was trained with them: set label_features, or make a new model"
    elif memory is not None:
        why = "they are counted in memory: set label_features 'no', or leave memory out"
    if why is not None:
        raise HandfulError(f"label_features: {why}")
    if head is None:
        known = one_hot(graph, graph.train_nodes, max(2, graph.num_classes or 0)).sum(0) + 1  # no share is 0
        model.label_head = head = LabelHead(model.out_features, known / known.sum())
    head.to(device)


def add_label_counts(model: Any, graph: Graph, sample: Sample, batch: Batch) -> Batch:
    """If the model has a label head, count the training neighbours of each target by class, and add these counts to
    ``batch``. ``sample`` is the sample from which the batch was made.

    In training mode, the sample must be an induced subgraph, and only neighbours outside it count.
    """
    if (head := getattr(model, "label_head", None)) is None:
        return batch
    counts = neighbour_counts(graph, len(head.prior)).index_select(0, sample.nodes.index_select(0, sample.targets))
    edges = sample.layers[0]
    if model.training and backend(graph.device) == "numba":
        y, known = (getattr(graph, name).index_select(0, sample.nodes) for name in ("y", "train_mask"))
        remove_labels(*map(array, (sample.targets, edges.indptr, edges.indices, y, known, counts)))
    elif model.training:
        counts -= count_classes(edges, one_hot(graph, sample.nodes, len(head.prior)))[sample.targets]
    return replace(batch, label_counts=counts)


def add_label_logits(model: Any, batch: Batch, logits: Tensor) -> Tensor:
    """If ``batch`` has label counts, add the logits of the label head to the rows of the targets; otherwise return
    ``logits`` unchanged.
    """
    if batch.label_counts is None:
        return logits
    return logits.index_add(0, batch.targets.to(logits.device), model.label_head(batch.label_counts).to(logits))


def label_logits(model: Any, graph: Graph, memory: int | str | None = None) -> Tensor | None:
    """The logits of the label head for all nodes, ``(N, outputs)``, from the labels of the training nodes in ``graph``.

    The result is ``None`` if there are no such labels, or if the model has no label head.
    """
    head = getattr(model, "label_head", None)
    if head is None or graph.y is None or graph.train_mask is None:
        return None
    if memory is not None or type(graph) is not Graph:
        raise HandfulError("a model with label_features counts labels in memory: infer it without memory or shards")
    return head(neighbour_counts(graph, len(head.prior)).to(head.prior.device))  # type: ignore[no-any-return]


@per_graph
def neighbour_counts(graph: Graph, classes: int) -> Tensor:
    """float32 ``(N, K)``: for each node, the number of its training neighbours of each class, in the full graph. The
    result is cached.
    """
    if graph.kind not in ("binary", "multiclass") or (graph.num_classes or 0) > classes:
        raise HandfulError(f"the model has labels of {classes} classes: graph '{graph.name}' must have these classes")
    return count_classes(full_adjacency(graph), one_hot(graph, graph.nodes, classes))


def one_hot(graph: Graph, nodes: Tensor, classes: int) -> Tensor:
    """float32 ``(n, K)``: the one-hot classes of ``nodes``. The row of a node that is not a training node is 0."""
    y, known = (getattr(graph, name)[nodes, None] for name in ("y", "train_mask"))
    return torch.zeros(len(nodes), classes, device=graph.device).scatter_(1, y.clamp_min(0), known.float())


def count_classes(edges: Adjacency, labels: Tensor) -> Tensor:
    """For each target of ``edges``, the number of its neighbours of each class. Edge weights are ignored: the counts
    are integers, so that their differences are exact.
    """
    weight = (edges.indices != edges.target_of_edge).float() if edges.has_loops else None
    return replace(edges, weight=weight).matmul(labels)
