from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from handful.kernels import memory

glibc = pytest.mark.skipif(memory._libc() is None, reason="needs glibc")

SCRIPT = """
import os, resource
os.environ["THP_MEM_ALLOC_ENABLE"] = "0"
import torch
from handful.kernels.memory import keep_pages, release_pages

def touch():
    return [torch.ones(4 << 20) for _ in range(4)]  # four blocks of 16 MiB

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        touch()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

touch()
plain = faults()
assert keep_pages()
assert keep_pages()  # again is harmless
touch()
kept, before = faults(), resident()
release_pages()
print(plain, kept, before - resident())
"""


@glibc
def test_freed_memory_is_used_again_without_page_faults() -> None:
    """In a process of its own, since the allocator is the whole process's."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    plain, kept, released = map(int, done.stdout.split())
    assert kept < plain / 4
    assert released > 32 << 20


def test_does_nothing_where_there_is_no_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    memory._libc.cache_clear()
    try:
        assert memory.keep_pages() is False
        memory.release_pages()
    finally:
        memory._libc.cache_clear()
