"""Memory that is used again: a freed activation keeps its pages for the next one.

The system clears every page of a fresh block, which for a layer's activations takes a quarter of the time of the
product that fills them. ``empty`` hands out blocks that earlier tensors have left. Blocks in use and blocks kept for
later are together an eighth more, at most, than what has been in use at once. ``release`` gives all that is kept back
to the system.
"""

from __future__ import annotations

import ctypes
import math
import platform
import weakref
from collections import deque
from collections.abc import Sequence
from threading import Lock

import numpy as np
import torch
from torch import Tensor

SMALLEST = 1 << 20
"""Blocks below this many bytes are the allocator's: they are faulted in quickly, and there are many of them."""
ALIGNMENT = 64


class Pool:
    """Blocks of bytes, each lent to one tensor at a time and given back when the tensor's storage dies."""

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0
        self.kept: list[np.ndarray] = []
        # What dies gives its block back from wherever it dies, perhaps inside ``take``: by an append, without the lock.
        self._returned: deque[np.ndarray] = deque()
        self._lock = Lock()

    def take(self, size: int) -> np.ndarray:
        """``size`` bytes; the block is free again once the array, and every view of it, is gone."""
        with self._lock:
            self._collect()
            # The block that was left last is the likeliest to be in the cache; one much too large would be wasted.
            fits = (i for i, block in enumerate(reversed(self.kept), 1) if size <= _size(block) <= size + size // 8)
            found = next(fits, None)
            if found is None:
                self._make_room(size)
                block = np.empty(size + ALIGNMENT, np.uint8)
            else:
                block = self.kept.pop(-found)
            self.live += _size(block)
            self.peak = max(self.peak, self.live)
        start = -block.ctypes.data % ALIGNMENT
        lent = block[start : start + size]
        weakref.finalize(lent, self._returned.append, block).atexit = False
        return lent

    def release(self) -> None:
        """Forget the blocks that nothing uses, and the peak."""
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
        """Drop the blocks that were left longest ago until ``size`` more bytes do not raise the peak by over an eighth,
        the room that blocks of several sizes need lest they push each other out."""
        spare = max(self.peak, self.live + size) * 9 // 8 - self.live - size
        while sum(map(_size, self.kept)) > spare:
            self.kept.pop(0)


def _size(block: np.ndarray) -> int:
    return len(block) - ALIGNMENT


_pool = Pool()


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """A contiguous tensor of the type and on the device of ``like``, not initialised."""
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < SMALLEST:
        return like.new_empty(shape)
    storage = torch.from_numpy(_pool.take(size)).untyped_storage()
    return like.new_empty(0).set_(storage).resize_(tuple(shape))  # a view could not be written over under autograd


def release() -> None:
    """Give what is kept, and what the C library keeps, back to the system."""
    _pool.release()
    if platform.system() == "Linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)
