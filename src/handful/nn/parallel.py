"""Models that do not fit: layers spread over several devices, and activations that are computed twice, not kept.

A layer runs where its parameters are, so a model is spread by moving its parameters. Neither way changes a result:
dropout is a function of ``step_seed``, so that a layer that is run again does exactly what it did before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from handful.adjacency import Adjacency
from handful.errors import HandfulError
from handful.kernels.threads import even_ranges
from handful.nn.network import Network

_copies: WeakKeyDictionary[Adjacency, dict[torch.device, Adjacency]] = WeakKeyDictionary()
"""The adjacencies that are on other devices too: the layers there share one copy and what it caches."""


def usable_device(name: str | torch.device) -> torch.device:
    """The device of this name, if this machine has it."""
    try:
        device = torch.empty(0, device=name).device
        if device.type == "meta":
            raise RuntimeError("it holds no data")
        return device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise HandfulError(f"device '{name}' cannot be used here ({reason}): use cpu, or one that exists") from None


def arrange(model: nn.Module, devices: Sequence[torch.device], checkpoint_activations: bool = False) -> nn.Module:
    """Put contiguous groups of the model's layers on ``devices``, in order, and say whether activations are kept."""
    if not isinstance(model, Network):
        if len(devices) > 1 or checkpoint_activations:
            raise HandfulError(
                f"several devices and activation checkpointing need a model of handful's own: "
                f"the layers of a {type(model).__name__} cannot be seen"
            )
        return model.to(devices[0])
    blocks = model.blocks()
    if len(devices) > len(blocks):
        raise HandfulError(f"{len(devices)} devices for {len(blocks)} layers: name at most as many devices as layers")
    for device, (lo, hi) in zip(devices, even_ranges(len(blocks), len(devices)), strict=True):
        for module in chain(*blocks[lo:hi]):
            module.to(device)
    model.checkpoint_activations = checkpoint_activations
    return model


def run_layer(model: Network, i: int, layer: Callable[..., Tensor], *args: Any) -> Tensor:
    """``layer(*args)`` where layer ``i`` lives, and again in the backward pass if activations are not kept."""
    block = model.blocks()[i]
    device = device_of(block)
    args = tuple(moved(value, device) for value in args)
    if not (model.checkpoint_activations and torch.is_grad_enabled()):
        return layer(*args)
    seed = model.step_seed
    return checkpoint(  # type: ignore[no-any-return]
        layer,
        *args,
        use_reentrant=False,
        preserve_rng_state=False,
        context_fn=lambda: (nullcontext(), second_run(model, block, seed)),
    )


def device_of(block: Sequence[nn.Module]) -> torch.device:
    """Where the parameters of a layer are."""
    return next(chain(*(module.parameters() for module in block))).device


def moved(value: Any, device: torch.device) -> Any:
    """A tensor or an adjacency on ``device``; anything else as it is."""
    if isinstance(value, Tensor):
        return value if value.is_meta else value.to(device)  # what is on meta is spent: see ``Chunks.collect``
    if isinstance(value, Adjacency) and value.device != device:
        copies = _copies.setdefault(value, {})
        if device not in copies:
            copies[device] = value.to(device)
        return copies[device]
    return value


@contextmanager
def second_run(model: Network, block: Sequence[nn.Module], seed: int) -> Iterator[None]:
    """Inside, dropout is that of ``seed``, and running statistics, which have seen this batch, learn nothing."""
    now = model.step_seed
    buffers = [(m, *named) for top in block for m in top.modules() for named in m.named_buffers(recurse=False)]
    model.step_seed = seed
    # Other tensors stand in for the buffers: a copy back into the same ones would look like a change to autograd.
    for module, name, value in buffers:
        setattr(module, name, value.clone())
    try:
        yield
    finally:
        model.step_seed = now
        for module, name, value in buffers:
            setattr(module, name, value)
