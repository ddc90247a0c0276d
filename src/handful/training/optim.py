"""The optimisers of the paper, by name."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn, optim

from handful.errors import HandfulError, unknown

OPTIMIZERS = ("adam", "adamw", "sgd", "sgdm")


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float
) -> optim.Optimizer:
    """``adam``, ``adamw``, ``sgd``, or ``sgdm`` (heavy-ball momentum). ``momentum`` is for ``sgdm`` alone."""
    if name == "adam":
        return optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)
    if name == "adamw":
        return optim.AdamW(parameters, lr=lr, weight_decay=weight_decay, fused=True)
    if name in ("sgd", "sgdm"):
        beta = momentum if name == "sgdm" else 0.0
        return optim.SGD(parameters, lr=lr, weight_decay=weight_decay, momentum=beta, fused=True)
    raise HandfulError(unknown("optimizer", name, OPTIMIZERS))
