"""Experiments by name, for ``handful study NAME``.

A study is a module of this package, named in ``STUDIES``, with a function ``run(request: Request) -> Finding``; the
first line of the module says what it shows, and its name is the module's with hyphens.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.errors import HandfulError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from handful.report.tables import Cell

STUDIES = (
    "regimes",
    "samplers",
    "curves",
    "speedup",
    "architectures",
    "graphland",
    "parts",
    "fanout",
    "implicit",
    "powerlaw",
    "structure",
    "datasets",
    "backward_error",
    "bias_bound",
    "degree_law",
    "explicit_penalty",
)
BUDGETS = {"smoke": (42,), "laptop": (42, 123, 456), "paper": (42, 123, 456, 789, 101112)}
"""How much a study may compute, and the seeds that this takes where nobody names others."""


def _silent(done: int, total: int, word: str) -> None:
    return None


@dataclass(frozen=True)
class Request:
    """What a study is asked for.

    ``graph`` is ``None`` for the study's own; ``budget`` is how much it may compute; without ``seeds`` they are the
    budget's. Runs are kept below ``out``, ``jobs`` of them at a time: what is done there is not done again.
    """

    graph: str | None = None
    split: str | None = None
    root: str | None = None
    budget: str = "laptop"
    seeds: tuple[int, ...] = ()
    device: str = "cpu"
    out: Path = Path("runs")
    jobs: int = 1
    report: Callable[[int, int, str], None] = _silent
    """Called with how much is done, of how much, and what it is."""

    def __post_init__(self) -> None:
        if self.budget not in BUDGETS:
            raise HandfulError(unknown("budget", self.budget, BUDGETS))
        if not self.seeds:
            object.__setattr__(self, "seeds", BUDGETS[self.budget])


@dataclass(frozen=True)
class Finding:
    """What a study found: ``payload`` for machines; a table, a sentence and pictures by file name for people.

    ``failed`` names the runs that came to nothing.
    """

    payload: dict[str, Any]
    title: str
    head: list[str]
    rows: list[list[Cell]]
    words: str
    pictures: dict[str, Figure] = field(default_factory=dict)
    failed: tuple[str, ...] = ()


def study_folder(name: str, graph: str | None, budget: str) -> Path:
    """Where a study keeps its runs if not told: the same for the same question, so that asking again goes on."""
    words = [name, *([Path(graph).name] if graph else []), budget]
    return Path("runs") / ("study-" + re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(words)))


def study_names() -> dict[str, str]:
    """Every study and what it shows."""
    return {name.replace("_", "-"): (_module(name).__doc__ or "").strip().splitlines()[0] for name in STUDIES}


def run_study(name: str, request: Request) -> Finding:
    """Run a study by name."""
    known = {module.replace("_", "-"): module for module in STUDIES}
    if name not in known:
        raise HandfulError(unknown("study", name, known))
    found: Finding = _module(known[name]).run(request)
    return found


def _module(name: str) -> Any:
    return import_module(f"handful.studies.{name}")
