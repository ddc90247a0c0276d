"""Memory that stays: glibc returns large blocks to the kernel at once, so every activation faults its pages in again.

``keep_pages`` makes this process keep freed blocks of up to 32 MiB and asks for huge pages. Larger ones still go back:
kept, they would leave holes that no later block of another size fits, and nearly double the memory of a large part
(measured); on huge pages their faults are few. Torch asks for those itself where ``THP_MEM_ALLOC_ENABLE`` is set, which
``handful`` does when it is imported before torch has made a tensor. No other process and no result changes; the heap
stays resident until ``release_pages``. Off Linux, or without glibc, both functions do nothing.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8  # mallopt's names for them, from malloc.h
_LARGEST = 32 << 20  # the most that glibc lets the threshold be
_MMAPS = 65536  # glibc's own limit
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

    Blocks of up to 32 MiB come from one heap that is never trimmed, whichever thread asks for them. A quarter of the
    machine's memory is reserved for it as addresses, of which only what is used becomes resident.
    """
    libc = _libc()
    if libc is None:
        return False
    done = libc.mallopt(_MMAP_THRESHOLD, _LARGEST) and libc.mallopt(_TRIM_THRESHOLD, -1) and libc.mallopt(_ARENA_MAX, 1)
    if done:
        _use_huge_pages(libc)
    return bool(done)


def _use_huge_pages(libc: Any) -> None:
    """Stretch the heap, since advice holds only for addresses that exist, and advise it whole."""
    reserve = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    libc.mallopt(_MMAP_MAX, 0)  # the block that stretches it must come from the heap
    libc.free(libc.malloc(reserve))
    libc.mallopt(_MMAP_MAX, _MMAPS)
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
        libc.mallopt(_MMAP_THRESHOLD, 128 << 10)
        libc.mallopt(_TRIM_THRESHOLD, 128 << 10)
        libc.malloc_trim(0)
