"""Progress on stderr while something long runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from handful.cli.app import console
from handful.studies.jobs import Job
from handful.training.callbacks import Callback
from handful.training.fit import Loop


def progress_bar(unit: str) -> Progress:
    """A bar that counts ``unit`` and tells the time gone and left; it vanishes when done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} " + unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class EpochProgress(Callback):
    """A bar over all epochs of all seeds, with the best result so far."""

    def __init__(self, epochs: int, seeds: int) -> None:
        self.bar = progress_bar("epochs")
        self.task = self.bar.add_task("training", total=epochs * seeds)
        self.epochs = epochs
        self.done = 0

    def __enter__(self) -> EpochProgress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def on_start(self, loop: Loop) -> None:
        self.bar.update(self.task, description=f"seed {loop.settings.seed}", completed=self.done + loop.epoch)

    def on_epoch(self, loop: Loop) -> None:
        self.bar.update(self.task, completed=self.done + loop.epoch + 1)

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        best = f"val {100 * loop.best_val:.2f} test {100 * loop.best_test:.2f} at {loop.best_epoch}"
        self.bar.update(self.task, description=f"seed {loop.settings.seed} · loss {loop.loss:.3f} · best {best}")

    def on_end(self, loop: Loop) -> None:
        self.done += self.epochs
        self.bar.update(self.task, completed=self.done)


class JobProgress:
    """A bar over the epochs of all jobs, naming the ones that run; the ``Progress`` that ``run_jobs`` calls."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.bar = progress_bar("epochs")
        self.task = self.bar.add_task("starting", total=sum(job.epochs for job in jobs))
        self.done = {job.name: 0 for job in jobs}

    def __enter__(self) -> JobProgress:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def __call__(self, name: str, epochs: int, word: str) -> None:
        self.done[name] = epochs
        self.bar.update(self.task, description=f"{name}: {word}", completed=sum(self.done.values()))
