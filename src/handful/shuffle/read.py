"""Reading large arrays in order: what is needed next is brought into memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any

import numpy as np

POPULATE_READ = 22
"""Linux 5.14's madvise that reads pages and maps them; Python has no name for it."""
READERS = 2
"""How many blocks are read at once, beside the one that is used: a disk gives more to two than to one."""
NEAR = 1 << 18
"""Rows that are nearer than this, in bytes, are read in one go: what lies between costs less than another read."""


def fetch(array: np.ndarray, lo: int, hi: int) -> int:
    """Bring rows ``lo`` to ``hi`` of a contiguous array into memory, if a file is behind it; how many bytes these are.

    Only a hint: rows that were not brought are read when they are used.
    """
    width = array.strides[0] if array.ndim else array.itemsize
    size = (hi - lo) * width
    advise = _madvise()
    if advise is not None and size > 0:
        page = mmap.PAGESIZE
        begin = (array.ctypes.data + lo * width) // page * page
        end = array.ctypes.data + hi * width
        if advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), POPULATE_READ) != 0:
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_WILLNEED)
    return size


def fetch_rows(array: np.ndarray, rows: np.ndarray) -> int:
    """``fetch`` for some ``rows``, ascending, each run of near ones in one go; how many bytes were asked for."""
    if len(rows) == 0:
        return 0
    apart = np.flatnonzero(np.diff(rows) * array.strides[0] > NEAR) + 1
    runs = zip(np.append(0, apart), np.append(apart, len(rows)), strict=True)
    return sum(fetch(array, int(rows[a]), int(rows[b - 1]) + 1) for a, b in runs)


@cache
def _madvise() -> Any:
    if os.name != "posix" or not hasattr(mmap, "MADV_WILLNEED"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
