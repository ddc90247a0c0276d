"""Optimisers and learning-rate schedules, by name or as the user makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

from handful.errors import HandfulError
from handful.settings import Settings

MakeOptimizer = Callable[..., optim.Optimizer]
"""``f(parameters, lr=…, weight_decay=…)``: a class of ``torch.optim``, or a function with the same arguments."""
MakeScheduler = Callable[[optim.Optimizer], LRScheduler]


def make_optimizer(
    settings: Settings, parameters: Iterable[nn.Parameter], make: MakeOptimizer | None = None
) -> optim.Optimizer:
    """The optimiser that ``settings`` name, or what ``make`` gives for their ``lr`` and ``weight_decay``.

    >>> make_optimizer(Settings(optimizer="sgdm", lr=0.1), nn.Linear(2, 1).parameters()).defaults["momentum"]
    0.9
    """
    common: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if make is not None:
        if not callable(make):
            raise HandfulError(f"optimizer takes a name or a class such as torch.optim.AdamW, got a {named(make)}")
        try:
            made = make(parameters, **common)
        except TypeError as error:
            raise HandfulError(f"optimizer {named(make)} must take (parameters, lr, weight_decay): {error}") from None
        if not isinstance(made, optim.Optimizer):
            raise HandfulError(f"optimizer {named(make)} must give a torch optimiser, got {made!r}")
        return made
    if settings.optimizer == "adam":
        return optim.Adam(parameters, fused=True, **common)
    if settings.optimizer == "adamw":
        return optim.AdamW(parameters, fused=True, **common)
    beta = settings.momentum if settings.optimizer == "sgdm" else 0.0
    return optim.SGD(parameters, momentum=beta, fused=True, **common)


def make_scheduler(
    settings: Settings, optimizer: optim.Optimizer, make: MakeScheduler | None = None
) -> LRScheduler | None:
    """The schedule that ``settings`` name, or what ``make`` gives; it is stepped after every epoch.

    A learning rate η becomes η·(1 + cos(π·e/E))/2 (``cosine``) or η·(1 − e/E) (``linear``) after e of E epochs.
    """
    if make is not None:
        try:
            made = make(optimizer)
        except TypeError as error:
            raise HandfulError(f"scheduler {named(make)} must take the optimiser alone: {error}") from None
        if not isinstance(made, LRScheduler):
            raise HandfulError(f"scheduler {named(make)} must give a torch scheduler, got {made!r}")
        return made
    if settings.scheduler == "cosine":
        return CosineAnnealingLR(optimizer, settings.epochs)
    if settings.scheduler == "linear":
        return LinearLR(optimizer, 1.0, 0.0, settings.epochs)
    return None


def named(thing: Any) -> str:
    """The name of a class, function or object that a user gave, for records and messages.

    >>> named(partial(optim.SGD, momentum=0.5))
    'torch.optim.sgd.SGD(momentum=0.5)'
    """
    if isinstance(thing, partial):
        given = [*map(repr, thing.args), *(f"{name}={value!r}" for name, value in thing.keywords.items())]
        return f"{named(thing.func)}({', '.join(given)})"
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
