"""Optimisers and learning-rate schedules, given by name or by a function of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from inspect import unwrap
from typing import Any, TypeVar

import torch
from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

from handful.errors import HandfulError, explaining
from handful.settings import Settings

T = TypeVar("T")
MakeOptimizer = Callable[..., optim.Optimizer]
"""A class of ``torch.optim``, or a function with the same arguments: ``f(parameters, lr=…, weight_decay=…)``."""
MakeScheduler = Callable[[optim.Optimizer], LRScheduler]


def split_by_decay(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Split parameters into two groups. Weight matrices have weight decay; parameters with fewer than two dimensions
    (biases and norms) do not.

    >>> [len(group["params"]) for group in split_by_decay(nn.Linear(2, 3).parameters())]
    [1, 1]
    """
    every = list(parameters)
    spared = [p for p in every if p.ndim < 2]
    return [{"params": [p for p in every if p.ndim >= 2]}, {"params": spared, "weight_decay": 0.0}]


def make_optimizer(
    settings: Settings, parameters: Iterable[nn.Parameter], make: MakeOptimizer | None = None
) -> optim.Optimizer:
    """Make the optimiser that ``settings`` specify. If ``make`` is given, call it instead, with the ``lr`` and
    ``weight_decay`` of ``settings``.

    >>> make_optimizer(Settings(optimizer="sgdm", lr=0.1), nn.Linear(2, 1).parameters()).defaults["momentum"]
    0.9
    """
    common: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    groups: Any = split_by_decay(parameters) if settings.decayed == "weights" else parameters
    if make is not None:
        if not callable(make):
            raise HandfulError(f"optimizer takes a name or a class such as torch.optim.AdamW, got a {name_of(make)}")
        return _call("optimizer", make, optim.Optimizer, "(parameters, lr, weight_decay)", groups, **common)
    kind = {"adam": optim.Adam, "adamw": optim.AdamW}.get(settings.optimizer, optim.SGD)
    if kind is optim.SGD:
        common["momentum"] = settings.momentum if settings.optimizer == "sgdm" else 0.0
    return _without_compile_guards(kind)(groups, fused=True, **common)


def _call(what: str, make: Any, kind: type[T], takes: str, *args: Any, **options: Any) -> T:
    """Call the user's function ``make``. Raise an error if the function does not take these arguments, or if its result
    is not a ``kind``.
    """
    with explaining(f"{what} {name_of(make)} must take {takes}: {{}}", TypeError):
        made = make(*args, **options)
    if not isinstance(made, kind):
        raise HandfulError(f"{what} {name_of(make)} must give a torch {what}, got {made!r}")
    return made


@cache
def _without_compile_guards(kind: type[optim.Optimizer]) -> MakeOptimizer:
    """The class ``kind`` without its guards for ``torch.compile``. The guards would import the compiler, which takes
    seconds.
    """
    guarded = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    plain = {name: unwrap(getattr(kind, name)) for name in guarded}
    step = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (kind,), {**plain, "step": step, "__module__": kind.__module__})


def make_scheduler(
    settings: Settings, optimizer: optim.Optimizer, make: MakeScheduler | None = None
) -> LRScheduler | None:
    """Make the learning-rate scheduler that ``settings`` specify. If ``make`` is given, call it instead.

    After e of E epochs, the initial learning rate η has become η·(1 + cos(π·e/E))/2 (``cosine``) or η·(1 − e/E)
    (``linear``).
    """
    if make is not None:
        return _call("scheduler", make, LRScheduler, "the optimiser alone", optimizer)
    if settings.scheduler == "cosine":
        return CosineAnnealingLR(optimizer, settings.epochs)
    if settings.scheduler == "linear":
        return LinearLR(optimizer, 1.0, 0.0, settings.epochs)
    return None


def name_of(thing: Any) -> str:
    """The name of a user's class, function or object, for records and messages.

    >>> name_of(partial(optim.SGD, momentum=0.5))
    'torch.optim.sgd.SGD(momentum=0.5)'
    """
    if isinstance(thing, partial):
        arguments = [*map(repr, thing.args), *(f"{name}={value!r}" for name, value in thing.keywords.items())]
        return f"{name_of(thing.func)}({', '.join(arguments)})"
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"
