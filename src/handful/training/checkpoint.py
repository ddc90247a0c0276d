"""Checkpoints: the state that the next epoch depends on is written to a file, or broadcast from rank 0."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from handful import ranks
from handful.errors import RunError
from handful.training.record import Counts, RunFolder, load_tensors, save_tensors

if TYPE_CHECKING:
    from handful.training.loop import Loop

COUNTERS = (*(one.name for one in fields(Counts)), "epoch", "stale", "stopped", "best_val", "best_test")
"""The plain fields of a loop that an epoch changes."""


def save_checkpoint(loop: Loop, folder: RunFolder) -> None:
    """Save a checkpoint: all state that the next epoch depends on."""
    with folder.written(f"the checkpoint of epoch {loop.epoch}"):
        save_tensors(folder.checkpoint, *snapshot(loop))


def restore_checkpoint(loop: Loop, folder: RunFolder) -> None:
    """Set ``loop`` to the state that ``save_checkpoint`` saved."""
    try:
        restore(loop, *load_tensors(folder.checkpoint))
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{folder.checkpoint} is not of this run ({error}): use another folder") from None


def snapshot(loop: Loop) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state that the next epoch depends on, as tensors by name and plain values by name."""
    optimizer, kept = loop.optimizer.state_dict(), loop.scheduler
    moments = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, entry in optimizer["state"].items()
        for name, value in entry.items()
        if value is not None
    }
    kinds = {"model": loop.model.state_dict(), "best": loop.best_weights, "optimizer": moments}
    tensors = {f"{kind}.{name}": tensor for kind, some in kinds.items() for name, tensor in some.items()}
    state: dict[str, Any] = {name: getattr(loop, name) for name in COUNTERS}
    state["groups"] = plain_part([{**group, "params": None} for group in loop.optimizer.param_groups])
    return tensors, state | ({} if kept is None else {"scheduler": plain_part(kept.state_dict())})


def restore(loop: Loop, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Set ``loop`` to the state of a ``snapshot``."""
    kinds: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
    for place, tensor in tensors.items():
        kind, name = place.split(".", 1)
        kinds[kind][name] = tensor
    loop.model.load_state_dict(kinds["model"])
    moments: dict[int, dict[str, Tensor]] = {}
    for place, tensor in kinds["optimizer"].items():
        index, name = place.split(".", 1)
        moments.setdefault(int(index), {})[name] = tensor
    loop.optimizer.load_state_dict({"state": moments, "param_groups": loop.optimizer.state_dict()["param_groups"]})
    for group, kept in zip(loop.optimizer.param_groups, state["groups"], strict=True):
        group |= with_plain_part(group, kept)
    if loop.scheduler is not None:
        loop.scheduler.load_state_dict(with_plain_part(loop.scheduler.state_dict(), state["scheduler"]))
    for name in COUNTERS:
        setattr(loop, name, state[name])
    loop.best_weights = {name: tensor.to(loop.graph.device) for name, tensor in kinds["best"].items()}


def begin_alike(loop: Loop) -> None:
    """Broadcast the state of rank 0 (weights, optimiser, scheduler, counters and history) to every rank."""
    if ranks.size() == 1:
        return
    tensors, state = snapshot(loop)
    tensors, state = ranks.broadcast_tensors(tensors), ranks.broadcast(state)
    if ranks.rank() > 0:
        restore(loop, tensors, state)
    length, size = loop.settings.step_length, ranks.size()
    if length < size and ranks.rank() == 0:
        idle = f"{size - int(length)} of {size} ranks have nothing to do"
        print(f"handful: parts_per_step is {length}: {idle}; give at least {size}", file=sys.stderr, flush=True)


def plain_part(state: Any) -> Any:
    """Convert the state of a scheduler or an optimiser to JSON values. All other values, at any depth, become ``None``.

    >>> plain_part({"last_epoch": 3, "betas": (0.9, 0.99), "function": print, "inner": [{"milestones": {5: 1}}]})
    {'last_epoch': 3, 'betas': [0.9, 0.99], 'function': None, 'inner': [{'milestones': {}}]}
    """
    if isinstance(state, dict):
        return {key: plain_part(value) for key, value in state.items() if isinstance(key, str)}
    if isinstance(state, list | tuple):
        return [plain_part(value) for value in state]
    return state if isinstance(state, bool | int | float | str) else None


def with_plain_part(state: Any, kept: Any) -> Any:
    """``state`` with its values replaced by those in ``kept``, which is the result of ``plain_part`` for another state.

    >>> with_plain_part({"last_epoch": 0, "function": print}, {"last_epoch": 3, "function": None})["last_epoch"]
    3
    """
    if kept is None or kept == {}:
        return state
    if isinstance(state, dict) and isinstance(kept, dict):
        return {**state, **{key: with_plain_part(state.get(key), value) for key, value in kept.items()}}
    if isinstance(state, list | tuple) and isinstance(kept, list) and len(state) == len(kept):
        return type(state)(map(with_plain_part, state, kept))
    return kept
