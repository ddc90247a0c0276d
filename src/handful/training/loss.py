"""The loss on a batch's targets."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def node_losses(logits: Tensor, y: Tensor) -> Tensor:
    """ℓ(f(w, X, E)[v], y_v) for every node: cross-entropy, binary where there is one logit a node."""
    logits = logits.float() if logits.itemsize < 4 else logits
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits.squeeze(1), y.to(logits.dtype), reduction="none")
    return F.cross_entropy(logits, y, reduction="none")


def node_loss(logits: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
    """The batch loss L̂^B(w): the mean over its targets, or Σ weight_v · ℓ_v where the sampler weighs them."""
    losses = node_losses(logits, y)
    return losses.mean() if weight is None else (weight.to(losses.dtype) * losses).sum()
