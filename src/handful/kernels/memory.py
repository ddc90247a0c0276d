"""Memory that stays: glibc returns large blocks to the kernel at once, so every activation faults its pages in again.

``keep_pages`` makes this process keep what it has freed and asks for huge pages. It changes no other process and no
result; the resident size stays at its peak until ``release_pages``. Off Linux, or without glibc, both do nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # mallopt's names for them, from malloc.h
_MADV_HUGEPAGE = 14
_HUGE = 2 << 20


@cache
def _libc() -> Any:
    """The C library where it is glibc, else ``None``."""
    if platform.system() != "Linux":
        return None
    libc: Any = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def keep_pages() -> bool:
    """Keep freed memory in this process, on huge pages where the kernel lends them; whether it could be done.

    All blocks come from one heap that is never trimmed, whichever thread asks for them. Half of the machine's memory is
    reserved as addresses, of which only what is used becomes resident.
    """
    libc = _libc()
    if libc is None:
        return False
    done = libc.mallopt(_MMAP_MAX, 0) and libc.mallopt(_TRIM_THRESHOLD, -1) and libc.mallopt(_ARENA_MAX, 1)
    if done:
        _use_huge_pages(libc)
    return bool(done)


def _use_huge_pages(libc: Any) -> None:
    """Stretch the heap, since advice holds only for addresses that exist, and advise it whole."""
    reserve = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    libc.free(libc.malloc(reserve))
    for start, stop in _heap():
        start, stop = -(-start // _HUGE) * _HUGE, stop // _HUGE * _HUGE
        if stop > start:
            libc.madvise(start, stop - start, _MADV_HUGEPAGE)


def _heap() -> list[tuple[int, int]]:
    """The addresses of this process's heap."""
    with open("/proc/self/maps") as maps:
        spans = [line.split()[0].split("-") for line in maps if line.rstrip().endswith("[heap]")]
    return [(int(start, 16), int(stop, 16)) for start, stop in spans]


def release_pages() -> None:
    """Return to glibc's defaults, and what is free to the kernel."""
    libc = _libc()
    if libc is not None:
        libc.mallopt(_MMAP_MAX, 65536)
        libc.mallopt(_TRIM_THRESHOLD, 128 << 10)
        libc.malloc_trim(0)
