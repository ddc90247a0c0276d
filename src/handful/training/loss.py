"""The loss on a batch's targets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from handful.errors import HandfulError
from handful.graph import Graph

NodeLosses = Callable[[Tensor, Tensor], Tensor]
"""``f(logits (t, outputs), y (t,))``: the loss of every node, ``(t,)``."""


def node_losses(logits: Tensor, y: Tensor) -> Tensor:
    """ℓ(f(w, X, E)[v], y_v) for every node: cross-entropy, binary where there is one logit per node.

    >>> node_losses(torch.zeros(2, 1), torch.tensor([0, 1])).round(decimals=3).tolist()
    [0.6930000185966492, 0.6930000185966492]
    """
    logits = logits.float() if logits.itemsize < 4 else logits
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), y.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, y, reduction="none")


def node_loss(
    logits: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    class_weight: Tensor | None = None,
    losses: NodeLosses = node_losses,
) -> Tensor:
    """The batch loss L̂^B(w): the mean over its targets, or Σ weight_v · ℓ_v where the sampler weighs them.

    With class weights c, ℓ_v counts c_{y_v} times, and the mean is Σ c_{y_v}·ℓ_v / Σ c_{y_v}.

    Args:
        logits: ``(t, outputs)``.
        y: int64 ``(t,)``.
        weight: ``(t,)``, the sampler's.
        class_weight: ``(classes,)``.
        losses: the loss of every node.
    """
    each = losses(logits, y)
    if not isinstance(each, Tensor) or each.shape != y.shape:
        got = tuple(each.shape) if isinstance(each, Tensor) else repr(each)
        raise HandfulError(f"loss must give one value per node, shape {tuple(y.shape)}, got {got}")
    if class_weight is None:
        return each.mean() if weight is None else (weight.to(each.dtype) * each).sum()
    share = class_weight.to(each.dtype)[y]
    if weight is not None:
        return (weight.to(each.dtype) * share * each).sum()
    return (share * each).sum() / share.sum().clamp_min(1e-12)  # 0 for a batch of classes that do not count


def balanced_weights(graph: Graph) -> Tensor:
    """n / (classes · n_c) for every class c, float32 ``(classes,)``; 0 for a class without training nodes.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&classes=4")
    >>> weights = balanced_weights(graph)
    >>> round(float(weights[graph.y[graph.train_nodes]].mean()), 4)  # the mean over training nodes stays 1
    1.0
    """
    graph.require_training()
    assert graph.y is not None
    counts = torch.bincount(graph.y[graph.train_nodes], minlength=int(graph.num_classes or 0))
    present = int((counts > 0).sum())
    weights = counts.sum() / (present * counts.clamp_min(1).to(torch.float32))
    return weights * (counts > 0)
