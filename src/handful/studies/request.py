"""What a study is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from handful.errors import HandfulError, unknown
from handful.vocabulary import PAPER_SEEDS

BUDGETS = {"smoke": PAPER_SEEDS[:1], "laptop": PAPER_SEEDS[:3], "paper": PAPER_SEEDS}
"""How much a study may compute, and the seeds that this takes where nobody names others."""


def _silent(done: int, total: int, word: str) -> None:
    return None


@dataclass(frozen=True)
class Request:
    """What a study is asked for.

    Args:
        graph: a name or path; ``None`` for the study's own.
        split, root: as for ``handful.load``.
        budget: how much it may compute: ``smoke``, ``laptop`` or ``paper``.
        seeds: the budget's, if there are none.
        device: where to compute.
        out: the folder below which runs are kept; what is done there is not done again.
        jobs: how many runs at a time, else one here, and as many as there is room for on a cluster.
        executor: where they run: ``local``, or ``ray`` for a cluster.
        tune_each: how many trials of learning rate, dropout and weight decay every configuration gets of its own,
            before it is trained; 0 for none. For the studies that compare configurations of one sampler.
        report: called with how much is done, of how much, and what it is.

    ``seeds_given`` tells whether somebody named the seeds.

    >>> Request(budget="smoke").seeds
    (42,)
    """

    graph: str | None = None
    split: str | None = None
    root: str | None = None
    budget: str = "laptop"
    seeds: tuple[int, ...] = ()
    device: str = "cpu"
    out: Path = Path("runs")
    jobs: int | None = None
    executor: str = "local"
    tune_each: int = 0
    report: Callable[[int, int, str], None] = _silent
    seeds_given: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.budget not in BUDGETS:
            raise HandfulError(unknown("budget", self.budget, BUDGETS))
        object.__setattr__(self, "seeds_given", bool(self.seeds))
        if not self.seeds:
            object.__setattr__(self, "seeds", BUDGETS[self.budget])

    def graph_or(self, paper: str) -> str:
        """The graph that was asked for, else debian, or ``paper`` under that budget."""
        return self.graph or (paper if self.budget == "paper" else "debian")


def study_folder(name: str, graph: str | None, budget: str) -> Path:
    """Where a study keeps its runs if not told: the same for the same question, so that asking again goes on.

    >>> study_folder("parts", "data/my graph.npz", "auto").name
    'study-parts-my-graph.npz-auto'
    """
    words = [name, *([Path(graph).name] if graph else []), budget]
    return Path("runs") / ("study-" + re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)))
