"""Norm, ReLU and dropout: what follows a convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from handful.errors import HandfulError, unknown

NORMS = ("bn", "ln", "none")


def dropout(x: Tensor, p: float, training: bool, seed: int) -> Tensor:
    """Inverted dropout whose mask is a function of ``seed``."""
    if not training or p == 0:
        return x
    keep = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(seed), device=x.device) >= p
    return x * keep / (1 - p)


class NormAct(nn.Module):
    """norm → ReLU → dropout."""

    def __init__(self, norm: str, features: int, p: float) -> None:
        super().__init__()
        if norm not in NORMS:
            raise HandfulError(unknown("norm", norm, NORMS))
        self.p = p
        self.norm: nn.Module | None = None
        if norm == "bn":
            self.norm = nn.BatchNorm1d(features)
        elif norm == "ln":
            self.norm = nn.LayerNorm(features)

    def forward(self, h: Tensor, seed: int) -> Tensor:
        h = F.relu(h if self.norm is None else self.norm(h))
        return dropout(h, self.p, self.training, seed)
