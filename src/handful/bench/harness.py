"""The one way to measure: all works by turns, medians over the rounds, ratios within a round.

Other work on the machine slows whatever runs at the time. Works that are measured one after the other in the same round
are slowed alike, so the ratio of two is taken in every round, and the median of the ratios counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
Say = Callable[[str], None]
"""Called with what is being done."""
SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A graph to train on first, so that compiling is not measured."""


@dataclass(frozen=True)
class Turns:
    """What each work took, round by round.

    >>> turns = Turns({"theirs": [4.0, 12.0, 6.0], "ours": [2.0, 4.0, 2.0]})
    >>> turns.medians, turns.ratio("theirs", "ours")
    ({'theirs': 6.0, 'ours': 2.0}, 3.0)
    """

    seconds: Mapping[str, list[float]]

    @property
    def medians(self) -> dict[str, float]:
        """The median over the rounds, by work."""
        return {name: median(took) for name, took in self.seconds.items()}

    def ratios(self, above: str, below: str) -> list[float]:
        """How many times as long ``above`` took as ``below``, in each round."""
        return [a / b for a, b in zip(self.seconds[above], self.seconds[below], strict=True)]

    def ratio(self, above: str, below: str) -> float:
        """The median of ``ratios``."""
        return median(self.ratios(above, below))


def measure_by_turns(works: Mapping[str, Callable[[], float]], rounds: int, say: Say) -> Turns:
    """Run all works in every round, each second round in the opposite order.

    Args:
        works: each gives the seconds that it took. What it compiles should be compiled before.
        rounds: how often each is run.
        say: called with what is being done.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for k in range(rounds):
        for name in list(works) if k % 2 == 0 else list(works)[::-1]:
            say(f"round {k + 1} of {rounds}: {name}…")
            seconds[name].append(works[name]())
    return Turns(seconds)


def seconds_of(work: Callable[[], object], device: torch.device | None = None) -> float:
    """The seconds that ``work`` takes, until the GPU has done it if ``device`` is one."""
    from torch import cuda

    waits = device is not None and device.type == "cuda"
    finish: Callable[[], None] = partial(cuda.synchronize, device) if waits else lambda: None
    finish()
    begin = perf_counter()
    work()
    finish()
    return perf_counter() - begin


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
