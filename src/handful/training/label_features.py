"""Labels of neighbours as features: a linear head on the classes of a node's labelled neighbours.

In a step on a part B, a node has the labels of its training neighbours outside of B. So no label of a step's targets is
an input of the step. UniMP (Shi et al., 2021) masks labels at random instead. Evaluation has all training labels. The
label of a node is never its own input: self-loops do not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample
from handful.errors import HandfulError
from handful.graph import Graph
from handful.samplers.base import Sampler
from handful.samplers.full import full_adjacency
from handful.settings import Settings

_counts: WeakKeyDictionary[Graph, Tensor] = WeakKeyDictionary()
"""The last ``neighbour_counts`` of a graph."""


class LabelHead(nn.Module):
    """W·ℓ(c), the logits that counts c of neighbours' classes add: ℓ_k = log((c_k + p_k) / (Σ c + 1)) − log p_k.

    p are the shares of the classes in the training nodes. ℓ is 0 without labelled neighbours. W begins as 0.

    >>> head = LabelHead(2, torch.tensor([0.5, 0.5]))
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
        evidence = ((counts + self.prior) / (counts.sum(1, keepdim=True) + 1)).log() - self.prior.log()
        return nn.functional.linear(evidence, self.weight)


def add_label_head(
    model: Any, graph: Graph, sampler: Sampler, settings: Settings, memory: int | str | None, device: torch.device
) -> None:
    """Give ``model`` a label head, if ``settings`` have label features and it has none.

    Raises:
        HandfulError: the run cannot have label features, or ``model`` has a head and ``settings`` have no label
            features.
    """
    head = getattr(model, "label_head", None)
    if head is None and not settings.label_features:
        return
    reasons = {
        "the model was trained with them: set label_features, or make a new model": not settings.label_features,
        f"{graph.name} has labels for {graph.kind}, not classes": graph.kind not in ("binary", "multiclass"),
        f"sampler '{sampler.name}' draws edges, and they need all edges inside of a batch": not sampler.induces,
        "a batch of all nodes has no labels outside of it": sampler.name != "saint" and sampler.share(graph) == 1,
        "they are counted in memory, for a graph in one place": memory is not None or type(graph) is not Graph,
        f"{type(model).__name__} is not a model of handful": not hasattr(model, "label_head"),
    }
    for why in (why for why, holds in reasons.items() if holds):
        raise HandfulError(f"label_features: {why}")
    if head is None:
        known = one_hot(graph, graph.train_nodes, max(2, graph.num_classes or 0)).sum(0) + 1  # no share is 0
        model.label_head = head = LabelHead(model.out_features, known / known.sum())
    head.to(device)


def add_label_counts(model: Any, graph: Graph, sample: Sample, batch: Batch) -> Batch:
    """``batch`` of ``sample``, with the training neighbours of each target counted by class, if there is a label head.

    In training mode the sample is an induced subgraph, and only neighbours outside of it count.
    """
    if (head := getattr(model, "label_head", None)) is None:
        return batch
    counts = neighbour_counts(graph, len(head.prior))[sample.nodes[sample.targets]]
    if model.training:
        counts -= count_classes(sample.layers[0], one_hot(graph, sample.nodes, len(head.prior)))[sample.targets]
    return replace(batch, label_counts=counts)


def add_label_logits(model: Any, batch: Batch, logits: Tensor) -> Tensor:
    """``logits``, with those of the label head added for the targets, if ``batch`` has label counts."""
    if batch.label_counts is None:
        return logits
    return logits.index_add(0, batch.targets.to(logits.device), model.label_head(batch.label_counts).to(logits))


def label_logits(model: Any, graph: Graph, memory: int | str | None = None) -> Tensor | None:
    """``(N, outputs)``: the logits of the label head for all nodes, by the labels of the training nodes of ``graph``.

    ``None`` without such labels, or without a head.
    """
    head = getattr(model, "label_head", None)
    if head is None or graph.y is None or graph.train_mask is None:
        return None
    if memory is not None or type(graph) is not Graph:
        raise HandfulError("a model with label_features counts labels in memory: infer it without memory or shards")
    return head(neighbour_counts(graph, len(head.prior)).to(head.prior.device))  # type: ignore[no-any-return]


def neighbour_counts(graph: Graph, classes: int) -> Tensor:
    """float32 ``(N, K)``: the number of training neighbours of each node by class, in the full graph; computed once."""
    if graph.kind not in ("binary", "multiclass") or (graph.num_classes or 0) > classes:
        raise HandfulError(f"the model has labels of {classes} classes: graph '{graph.name}' must have these classes")
    counts = _counts.get(graph)
    if counts is None or counts.shape[1] != classes:
        counts = _counts[graph] = count_classes(full_adjacency(graph), one_hot(graph, graph.nodes, classes))
    return counts


def one_hot(graph: Graph, nodes: Tensor, classes: int) -> Tensor:
    """float32 ``(n, K)``: the classes of those of ``nodes`` that are training nodes; 0 for all others."""
    y, known = (getattr(graph, name)[nodes, None] for name in ("y", "train_mask"))
    return torch.zeros(len(nodes), classes, device=graph.device).scatter_(1, y.clamp_min(0), known.float())


def count_classes(edges: Adjacency, labels: Tensor) -> Tensor:
    """The number of neighbours by class along ``edges``: whole numbers, so that differences are exact."""
    weight = (edges.indices != edges.target_of_edge).float() if edges.has_loops else None
    return replace(edges, weight=weight).matmul(labels)
