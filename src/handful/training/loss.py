"""The loss on a batch's targets: cross-entropy for classification, squared error for a regression."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from handful.errors import HandfulError, explaining
from handful.graph import Graph

NodeLosses = Callable[[Tensor, Tensor], Tensor]
"""A function that takes outputs ``(t, outputs)`` and labels ``(t,)`` or ``(t, labels)``, and returns the loss of each
node, ``(t,)``.
"""


def node_losses(logits: Tensor, y: Tensor) -> Tensor:
    """ℓ(f(w, X, E)[v], y_v) for every node v: the cross-entropy, or the binary cross-entropy if there is one logit per
    node.

    >>> node_losses(torch.zeros(2, 1), torch.tensor([0, 1])).round(decimals=3).tolist()
    [0.6930000185966492, 0.6930000185966492]
    """
    if y.is_floating_point():
        what = "numbers" if y.ndim == 1 else "several labels per node"
        raise HandfulError(f"the labels of this graph are {what}, and cross-entropy needs classes: give another graph")
    logits = logits.float() if logits.itemsize < 4 else logits
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), y.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, y, reduction="none")


def label_losses(logits: Tensor, y: Tensor) -> Tensor:
    """The loss of each node in a multi-label task: the mean binary cross-entropy over the node's known labels. Unknown
    labels are NaN.

    >>> label_losses(torch.zeros(1, 3), torch.tensor([[0.0, 1.0, torch.nan]])).round(decimals=3).tolist()
    [0.6930000185966492]
    """
    logits = logits.float() if logits.itemsize < 4 else logits
    known = ~y.isnan()
    each = F.binary_cross_entropy_with_logits(logits, y.nan_to_num(0.0).to(logits.dtype), reduction="none")
    return (each * known).sum(1) / known.sum(1).clamp_min(1)


def squared_errors(outputs: Tensor, y: Tensor) -> Tensor:
    """(f(w, X, E)[v] − y_v)² for every node v. For several regression targets, the loss is the mean over the known
    targets; unknown targets are NaN.

    >>> squared_errors(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0])).tolist()
    [0.0, 4.0]
    """
    outputs = outputs.float() if outputs.itemsize < 4 else outputs
    y = y.to(outputs.dtype).reshape(outputs.shape)
    known = ~y.isnan()
    return ((outputs - y.nan_to_num(0.0)).square() * known).sum(1) / known.sum(1).clamp_min(1)


def pair_scores(outputs: Tensor) -> Tensor:
    """The scores ⟨z_u, z_v⟩ of p pairs (u, v), ``(p, 1)``. The rows of ``outputs``, ``(2p, d)``, are z_u of all pairs,
    followed by z_v of all pairs.

    >>> pair_scores(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[11.]])
    """
    first, second = (outputs.float() if outputs.itemsize < 4 else outputs).chunk(2)
    return (first * second).sum(1, keepdim=True)


def units_of(graph: Graph) -> tuple[list[float], list[float]] | None:
    """The means and the standard deviations of the regression targets over the training nodes; ``None`` for other
    tasks. The model predicts targets that are standardised with these values.

    >>> graph = Graph.from_edge_index([[0], [1]], x=torch.eye(3), y=[1.5, 4.5, 9.0], train_mask=[0, 1])
    >>> units_of(graph)
    ([3.0], [1.5])
    """
    if graph.kind != "regression":
        return None
    assert graph.y is not None
    y = graph.y[graph.train_nodes].double().reshape(-1, graph.num_outputs)
    mean = y.nanmean(0)
    spread = (y - mean).square().nanmean(0).sqrt()
    return mean.nan_to_num(0.0).tolist(), torch.where(spread > 0, spread, 1.0).tolist()


def losses_of(graph: Graph, own: NodeLosses | None = None) -> NodeLosses:
    """The loss function for the labels of ``graph``: the default for their kind, or the user's ``own`` function.
    Regression targets are standardised first.

    The function checks the number of outputs, since too few outputs could give a wrong loss or an unclear error.
    """
    usual = {"regression": squared_errors, "multilabel": label_losses}.get(graph.kind, node_losses)
    units, kind = units_of(graph) or ([0.0], [1.0]), graph.kind
    needed = 1 if kind == "links" else graph.num_outputs
    units_on = cache(partial(torch.tensor, units))  # the host sends the units to a device once

    def losses(outputs: Tensor, y: Tensor) -> Tensor:
        width = outputs.shape[1] if outputs.ndim == 2 else 0
        if width < needed or (width > needed and kind in ("regression", "multilabel")):
            shapes = f"outputs of shape {tuple(outputs.shape)}, and the labels need (nodes, {needed})"
            raise HandfulError(f"the model gives {shapes}: make it with graph.num_outputs outputs")
        if kind == "regression":
            mean, spread = units_on(device=y.device)
            y = (y - mean) / spread
        if kind == "links":
            outputs = pair_scores(outputs)
        if own is None:
            return usual(outputs, y)
        words = f"loss cannot be computed from outputs {tuple(outputs.shape)} and labels {tuple(y.shape)}: {{}}"
        with explaining(words, TypeError, ValueError, RuntimeError, IndexError):
            return own(outputs, y)

    return losses


def node_loss(
    logits: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    class_weight: Tensor | None = None,
    losses: NodeLosses = node_losses,
) -> Tensor:
    """The batch loss L̂^B(w): the mean loss over the targets. If the sampler gives weights, it is Σ weight_v · ℓ_v.

    If there are class weights c, ℓ_v is multiplied by c_{y_v}, and the mean is Σ c_{y_v}·ℓ_v / Σ c_{y_v}.

    Args:
        logits: ``(t, outputs)``.
        y: ``(t,)`` or ``(t, labels)``.
        weight: ``(t,)``, the weights of the sampler.
        class_weight: ``(classes,)``.
        losses: the function that computes the loss of each node.
    """
    each = losses(logits, y)
    if not isinstance(each, Tensor) or each.shape != y.shape[:1]:
        got = tuple(each.shape) if isinstance(each, Tensor) else repr(each)
        hint = ": give it reduction='none'" if isinstance(each, Tensor) and each.ndim == 0 else ""
        raise HandfulError(f"loss must give one value per node, shape {tuple(y.shape[:1])}, got {got}{hint}")
    if class_weight is None:
        return each.mean() if weight is None else (weight.to(each.dtype) * each).sum()
    share = class_weight.to(each.dtype)[y]
    if weight is not None:
        return (weight.to(each.dtype) * share * each).sum()
    return (share * each).sum() / share.sum().clamp_min(1e-12)  # 0 for a batch in which all classes have weight 0


def balanced_weights(graph: Graph) -> Tensor:
    """The weight n / (K · n_c) of each class c, float32 ``(classes,)``. n is the number of training nodes, n_c is the
    number of training nodes of class c, and K is the number of classes that have training nodes. The weight of all
    other classes is 0.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&classes=4")
    >>> weights = balanced_weights(graph)
    >>> round(float(weights[graph.y[graph.train_nodes]].mean()), 4)  # the mean over training nodes stays 1
    1.0
    """
    graph.require_training()
    assert graph.y is not None
    counts = torch.bincount(graph.y[graph.train_nodes], minlength=int(graph.num_classes or 0))
    return counts.sum() / (int((counts > 0).sum()) * counts.clamp_min(1).to(torch.float32)) * (counts > 0)
