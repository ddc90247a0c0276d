"""Memory that stays: glibc returns large blocks to the kernel at once, so every activation faults its pages in again.

``keep_pages`` makes this process keep freed blocks of up to 32 MiB. Larger ones still go back: kept, they left holes
that no later block of another size fitted, and nearly doubled the memory of a large part. Their faults are few on huge
pages, for which torch asks where ``THP_MEM_ALLOC_ENABLE`` is set, as ``handful`` does when it is imported before torch
has made a tensor. No other process and no result changes; the heap stays resident until ``release_pages``. Off Linux,
or without glibc, both functions do nothing.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt's names for them, from malloc.h
_LARGEST = 32 << 20  # the most that glibc lets the threshold be


@cache
def _libc() -> Any:
    """The C library where it is glibc, else ``None``."""
    if platform.system() != "Linux":
        return None
    libc: Any = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def keep_pages() -> bool:
    """Keep freed blocks of up to 32 MiB in one heap that is never trimmed, whichever thread asks for them; whether it
    could be done."""
    libc = _libc()
    if libc is None:
        return False
    done = libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, -1) and libc.mallopt(_ARENA_MAX, 1)
    return bool(done)


def release_pages() -> None:
    """Return what is free to the kernel, with the thresholds that glibc comes to by itself."""
    libc = _libc()
    if libc is not None:
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)
        libc.malloc_trim(0)
