"""Norm, ReLU and dropout: what follows a convolution."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, nn

from handful.errors import HandfulError, unknown
from handful.kernels.activation import act, batch_norm_act, dropout, layer_norm_act

__all__ = ["NORMS", "Norm", "NormAct", "dropout"]

Norm = Literal["bn", "ln", "none"]
NORMS: tuple[Norm, ...] = get_args(Norm)


class NormAct(nn.Module):
    """norm → ReLU → dropout, in one pass."""

    def __init__(self, norm: Norm, features: int, p: float) -> None:
        super().__init__()
        if norm not in NORMS:
            raise HandfulError(unknown("norm", norm, NORMS))
        self.p = p
        self.norm: nn.BatchNorm1d | nn.LayerNorm | None = None
        if norm == "bn":
            self.norm = nn.BatchNorm1d(features)
        elif norm == "ln":
            self.norm = nn.LayerNorm(features)

    def forward(self, h: Tensor, seed: int) -> Tensor:
        norm = self.norm
        if norm is None:
            return act(h, self.p, self.training, seed)
        if isinstance(norm, nn.LayerNorm):
            return layer_norm_act(h, norm.weight, norm.bias, norm.eps, self.p, self.training, seed)
        if self.training and len(h) < 2:
            raise HandfulError(
                f"batch norm needs at least two nodes in a batch, got {len(h)}: use larger batches, or norm 'ln'"
            )
        if self.training and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
        return batch_norm_act(
            h,
            norm.weight,
            norm.bias,
            norm.running_mean,
            norm.running_var,
            self.training,
            norm.momentum or 0.0,
            norm.eps,
            self.p,
            seed,
        )
