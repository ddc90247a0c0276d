"""A work in a process of its own, so that its memory is its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A graph to train on first, so that compiling is not measured."""


def in_own_process(work: Callable[..., T], *args: Any) -> T | None:
    """What ``work(*args)`` gives in a fresh process; ``None`` if the system ended it, as it does if memory runs out."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_me_first) as process:
        try:
            return process.submit(work, *args).result()
        except BrokenProcessPool:
            return None


def _end_me_first() -> None:
    """If memory runs out, Linux is to end this process and no other."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
