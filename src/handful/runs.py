"""``open_run``: what a folder of runs holds, ready to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from handful.errors import RunError
from handful.experiment import Experiment
from handful.nn.network import Network
from handful.training.metrics import recorded_metric
from handful.training.record import Run, RunFolder, load_model, read_config


@dataclass(frozen=True)
class OpenedRun:
    """An experiment that was run, opened again from its folder.

    Args:
        path: the folder.
        experiment: what was run; ``None`` for a run of ``fit``, whose graph was not given by name.
        folders: those of the seeds that have ended.
    """

    path: Path
    experiment: Experiment | None
    folders: tuple[RunFolder, ...]

    @cached_property
    def results(self) -> list[Run]:
        """What every seed came to."""
        return [folder.run() for folder in self.folders]

    @cached_property
    def best(self) -> int:
        """The place of the seed with the best validation metric."""
        metric = recorded_metric(self.results[0].metric, self.results[0].higher_is_better)
        place = 0
        for i, run in enumerate(self.results):
            if metric.better(run.val, than=self.results[place].val):
                place = i
        return place

    @property
    def result(self) -> Run:
        """What the seed with the best validation metric came to."""
        return self.results[self.best]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The evaluations of that seed."""
        return self.result.history

    @cached_property
    def model(self) -> Network:
        """The model of that seed with its best weights, in evaluation mode."""
        return load_model(self.folders[self.best].path)

    def models(self) -> list[Network]:
        """The models of all seeds."""
        return [load_model(folder.path) for folder in self.folders]


def open_run(path: str | Path) -> OpenedRun:
    """Open the folder of an experiment, or of one run.

    Raises:
        RunError: there is no run, none of its seeds has ended, or another version of handful made it.

    >>> import handful as hf
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     summary = hf.Experiment("debian", hidden=8, layers=2, epochs=2, seeds=(1,)).run(folder)
    ...     opened = hf.open_run(folder)
    ...     opened.result.test == summary.test, opened.model.options["hidden"], len(opened.history)
    (True, 8, 2)
    """
    folder = Path(path)
    if not (folder / "config.json").exists():
        raise RunError(f"{folder} holds no run: give the folder that a training was written to")
    config = read_config(folder / "config.json")
    experiment = Experiment.from_json(config) if "split" in config else None
    ended = [run for run in run_folders(folder) if run.result.exists()]
    if not ended:
        raise RunError(f"no run in {folder} has ended: resume it first")
    return OpenedRun(folder, experiment, tuple(ended))


def run_folders(folder: Path) -> Sequence[RunFolder]:
    """The run folders of an experiment, in the order of its seeds; or the folder itself, if it is one."""
    own = RunFolder(folder)
    if own.metrics.exists() or own.result.exists():
        return [own]
    seeds = read_config(own.config).get("seeds")
    if not isinstance(seeds, list):
        raise RunError(f"{own.config} names no seeds: it is not the configuration of a run")
    return [RunFolder(folder / f"seed-{seed}") for seed in seeds]
