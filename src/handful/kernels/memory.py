"""Memory reuse: the memory of a freed activation is kept for later activations.

The system clears every page of a new block. Clearing the activations of a layer takes a quarter of the time of the
matrix product that computes them. ``empty`` returns blocks that earlier tensors no longer use. The total size of all
blocks is at most 9/8 of the peak size of the blocks in use. ``release`` returns the unused blocks to the system.
"""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock

import numpy as np
import torch
from torch import Tensor

SMALLEST = 1 << 20
"""Blocks with fewer bytes than this come from torch's allocator, since there are many small blocks, and clearing them
is fast.
"""
ALIGNMENT = 64


class Pool:
    """Blocks of bytes. One tensor at a time uses a block; the block returns to the pool when its storage is freed."""

    def __init__(self) -> None:
        self.live = self.peak = 0
        self.kept: list[np.ndarray] = []
        # A storage may be freed at any point, even inside ``take``. So it returns its block by an append, without the
        # lock.
        self._returned: deque[np.ndarray] = deque()
        self._lock = Lock()

    def take(self, size: int) -> np.ndarray:
        """Take a block of ``size`` bytes. The block returns to the pool when the array and all its views are freed."""
        with self._lock:
            self._collect()
            # The block that returned last is most likely in the cache. A block that is much too large is not used.
            fits = (i for i, block in enumerate(reversed(self.kept), 1) if size <= _size(block) <= size + size // 8)
            result = next(fits, None)
            if result is None:
                self._make_room(size)
                block = np.empty(size + ALIGNMENT, np.uint8)
            else:
                block = self.kept.pop(-result)
            self.live += _size(block)
            self.peak = max(self.peak, self.live)
        start = -block.ctypes.data % ALIGNMENT
        lent = block[start : start + size]
        weakref.finalize(lent, self._returned.append, block).atexit = False
        return lent

    def release(self) -> None:
        """Drop the unused blocks, and reset the peak."""
        with self._lock:
            self._collect()
            self.kept.clear()
            self.peak = self.live

    def _collect(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            self.live -= _size(block)
            self.kept.append(block)

    def _make_room(self, size: int) -> None:
        """Drop the oldest unused blocks until the total size of all blocks, plus ``size`` bytes, is at most 9/8 of the
        peak.

        If the limit were lower, blocks of different sizes would replace each other again and again.
        """
        spare = max(self.peak, self.live + size) * 9 // 8 - self.live - size
        while sum(map(_size, self.kept)) > spare:
            self.kept.pop(0)


def _size(block: np.ndarray) -> int:
    return len(block) - ALIGNMENT


_pool = Pool()


def _renew() -> None:
    """Give a forked child process a new lock, since the thread that held the old lock may not exist in the child."""
    _pool._lock = Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_renew)


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """An uninitialised contiguous tensor with the dtype and the device of ``like``."""
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < SMALLEST:
        return like.new_empty(shape)
    storage = torch.from_numpy(_pool.take(size)).untyped_storage()
    return like.new_empty(0).set_(storage).resize_(tuple(shape))  # not a view: autograd forbids writing over a view


def release() -> None:
    """Return unused blocks, and the free memory of the C allocator, to the system."""
    _pool.release()
    with suppress(AttributeError, TypeError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy ``tensor`` to ``device``. A copy to a GPU uses pinned memory, and the host does not wait for the copy.

    The copy runs on the current stream, and torch keeps the pinned memory until the copy is done.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def sender(device: torch.device) -> Callable[[Tensor], Tensor]:
    """A function like ``sent`` that copies each array only once, even if several tensors are prefixes of the array.

    The layers of a trimmed sample share arrays in this way. Send the longest prefix first, since a longer one that
    comes later is copied again. Keep all tensors alive until the last one is sent, since arrays are recognised by their
    address.

    >>> both, send = torch.arange(5), sender(torch.device("meta"))
    >>> long, short = send(both), send(both[:2])
    >>> short.shape, short.untyped_storage() is long.untyped_storage()
    (torch.Size([2]), True)
    """
    known: dict[tuple[object, ...], Tensor] = {}

    def send(tensor: Tensor) -> Tensor:
        if tensor.layout is not torch.strided:
            return tensor.to(device)
        key = tensor.data_ptr(), tensor.dtype, tensor.stride(), tensor.shape[1:]
        if key not in known or len(known[key]) < len(tensor):
            known[key] = sent(tensor, device)
        there = known[key]
        return there if len(there) == len(tensor) else there[: len(tensor)]

    return send
