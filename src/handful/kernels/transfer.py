"""From the host to a device without waiting for either."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``. To a GPU it goes from pinned memory, and nobody waits until it is there.

    The copy belongs to the current stream. torch keeps the pinned memory until it is done.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def sender(device: torch.device) -> Callable[[Tensor], Tensor]:
    """``sent``, where tensors that begin at the same place of memory, as the layers of a trimmed sample do, go as one.

    To be called with all of them while they live, the longest first.

    >>> both, send = torch.arange(5), sender(torch.device("meta"))
    >>> long, short = send(both), send(both[:2])
    >>> short.shape, short.untyped_storage() is long.untyped_storage()
    (torch.Size([2]), True)
    """
    known: dict[tuple[object, ...], Tensor] = {}

    def send(tensor: Tensor) -> Tensor:
        key = tensor.data_ptr(), tensor.dtype, tensor.stride(), tensor.shape[1:]
        if key not in known or len(known[key]) < len(tensor):
            known[key] = sent(tensor, device)
        there = known[key]
        return there if len(there) == len(tensor) else there[: len(tensor)]

    return send
