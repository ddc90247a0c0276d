"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from handful.cli.app import console, note
from handful.studies.assessed import describe_labels
from handful.training.callbacks import Callback
from handful.training.loop import Loop

WORD = 36
"""The maximum width of a description in characters; the bar then fits into a terminal of 80 columns."""
EVERY = 30.0
"""The number of seconds between two lines of progress if stderr is not a terminal."""


class Bar(Progress):
    """A progress bar that counts units and shows the elapsed and the remaining time. The bar disappears at the end.

    If stderr is not a terminal, a line is printed every ``every`` seconds instead.
    """

    def __init__(self, unit: str, total: int | None = None, word: str = "starting", every: float = EVERY) -> None:
        self.unit, self.every, self.began, self.last = unit, every, monotonic(), monotonic()
        shown = Column(no_wrap=True, overflow="ellipsis", max_width=WORD)
        super().__init__(
            TextColumn("{task.description}", markup=False, table_column=shown),
            BarColumn(bar_width=10),
            TextColumn("{task.completed}/{task.total} " + unit, table_column=Column(no_wrap=True)),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.add_task(word, total=total)
        self.jobs: dict[str, int] = {}

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        if not console.is_terminal and monotonic() - self.last >= self.every:
            self.last, task = monotonic(), self.tasks[task_id]
            of = "" if task.total is None else f" of {task.total:.0f}"
            note(f"{self.last - self.began:.0f} s: {task.completed:.0f}{of} {self.unit}, {task.description}")

    def at(self, done: int, total: int | None, word: str) -> None:
        """Show ``done`` of ``total`` units, with the description ``word``."""
        self.update(self.task, completed=done, total=total, description=word)

    def step(self, word: str) -> None:
        """Count one more unit, with the description ``word``."""
        self.update(self.task, advance=1, description=word)

    def trial(self, study: str, done: int, of: int) -> None:
        """Show the progress of one of several searches. ``tune_samplers`` takes this method as its ``Report``."""
        self.job(study, done, f"{of} trials")

    def job(self, name: str, done: int, word: str) -> None:
        """Show the progress of one of several jobs. ``run_jobs`` takes this method as its ``Progress``."""
        self.jobs[name] = done
        self.update(self.task, completed=sum(self.jobs.values()), description=f"{name}: {word}")


class EpochProgress(Bar, Callback):
    """A progress bar over the epochs of all seeds, with the best result so far. At the start it prints a note about the
    labels.
    """

    def __init__(self, epochs: int, seeds: Sequence[int]) -> None:
        super().__init__("epochs", epochs * len(seeds), "training")
        self.epochs, self.seeds = epochs, seeds
        self.done = 0  # the epochs of earlier seeds, also in earlier processes
        self.said = False

    def on_start(self, loop: Loop) -> None:
        if not self.said and (words := describe_labels(loop.graph)):
            note(words)
        self.said = True
        self.done = self.epochs * self.seeds.index(loop.seed)
        self.at(self.done + loop.epoch, None, f"seed {loop.seed}")

    def on_progress(self, loop: Loop, what: str, share: float) -> None:
        self.update(self.task, description=f"epoch {loop.epoch + 1}: {what} {share:.0%}")

    def on_epoch(self, loop: Loop) -> None:
        self.update(self.task, completed=self.done + loop.epoch)

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        best = f"best val {loop.metric.text(loop.best_val)} at {loop.best_epoch}"
        self.update(self.task, description=f"seed {loop.seed} · {best}")

    def on_end(self, loop: Loop) -> None:
        self.update(self.task, completed=self.done + self.epochs)
