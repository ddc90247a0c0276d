"""Alternating measurements: every task runs once per round.

Other programs on the machine slow all tasks of a round by about the same factor. So the ratio of two tasks is computed
in every round, and the result is the median of the ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Say = Callable[[str], None]
"""A function that shows the name of the current task."""
SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A small graph for the first epoch. This epoch is not measured, since it includes the compilation."""


@dataclass(frozen=True)
class Turns:
    """The time of each task in each round, in seconds.

    >>> turns = Turns({"theirs": [4.0, 12.0, 6.0], "ours": [2.0, 4.0, 2.0]})
    >>> turns.medians, turns.ratio("theirs", "ours")
    ({'theirs': 6.0, 'ours': 2.0}, 3.0)
    """

    seconds: Mapping[str, list[float]]

    @property
    def medians(self) -> dict[str, float]:
        """The median time of each task over the rounds, in seconds."""
        return {name: median(took) for name, took in self.seconds.items()}

    def ratios(self, above: str, below: str) -> list[float]:
        """For each round, the time of task ``above`` divided by the time of task ``below``."""
        return [a / b for a, b in zip(self.seconds[above], self.seconds[below], strict=True)]

    def ratio(self, above: str, below: str) -> float:
        """The median of ``ratios``."""
        return median(self.ratios(above, below))


def measure_by_turns(works: Mapping[str, Callable[[], float]], rounds: int, say: Say) -> Turns:
    """Run all tasks in every round; every second round runs in reverse order.

    Args:
        works: the tasks by name; each is a function that runs the task and returns its time in seconds. Kernels must
            already be compiled.
        rounds: the number of runs of each task.
        say: called with the name of the current task.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for k in range(rounds):
        for name in list(works) if k % 2 == 0 else list(works)[::-1]:
            say(f"round {k + 1} of {rounds}: {name}…")
            seconds[name].append(works[name]())
    return Turns(seconds)


def seconds_of(work: Callable[[], object], device: torch.device | None = None) -> float:
    """The time of ``work`` in seconds, including the computation on the GPU if ``device`` is a GPU."""
    from torch import cuda

    waits = device is not None and device.type == "cuda"
    finish: Callable[[], None] = partial(cuda.synchronize, device) if waits else lambda: None
    finish()
    begin = perf_counter()
    work()
    finish()
    return perf_counter() - begin
