"""Run experiments as jobs, each in its own process, so that peak memory is measured per job and a crash ends only one
job.

A job is an experiment with a folder of its own. A finished job is not repeated. An interrupted job continues from its
last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import nan
from pathlib import Path
from typing import Any

from handful.errors import RunError
from handful.experiment import SUMMARY, Experiment, Summary
from handful.statistics import mean_ci95
from handful.studies.executors import ERRORS, LOCAL, Executor, Job
from handful.training.metrics import METRICS, Metric, metric_of_record
from handful.training.record import RunFolder, differences, hold, read_config, read_json, write_config

Progress = Callable[[str, int, str], None]
"""A progress function. It is called with the name of a job, the number of its finished epochs, and a description of its
state.
"""
POLL_SECONDS = 0.1
STARTUP = "startup.json"
"""The name of the file with the time from the start of a job's process to its first epoch, in seconds."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job: its summary, or its error if it failed."""

    name: str
    experiment: Experiment
    folder: Path
    summary: Summary | None
    error: str | None = None

    @property
    def metric(self) -> Metric:
        """The metric of the job. A failed job has no metric, so ``accuracy`` is returned."""
        if self.summary is None:
            return METRICS["accuracy"]
        return metric_of_record(self.summary.metric, self.summary.runs[0].higher_is_better)

    @property
    def startup_seconds(self) -> float:
        """The time from the start of the process to the first epoch, in seconds; 0 if the job had no process of its
        own.
        """
        file = self.folder / STARTUP
        return float(read_json(file)["seconds"]) if file.exists() else 0.0

    def seeds(self, measure: str) -> list[float]:
        """The values of a field of ``Run``, one per seed. ``memory`` is the peak GPU memory or, if no GPU was used, the
        peak memory of the process.
        """
        runs = [] if self.summary is None else self.summary.runs
        if measure == "memory":
            return [run.peak_gpu_bytes or run.peak_ram_bytes for run in runs]
        return [getattr(run, measure) or 0 for run in runs]

    def estimate(self, measure: str) -> dict[str, float] | None:
        """The mean and 95% CI of a measure over the seeds. For memory, the result is the maximum over the seeds, or NaN
        if memory was not measured. For a failed job, the result is ``None``.
        """
        values = self.seeds(measure)
        if measure == "memory" or measure.endswith("_bytes"):
            return {"mean": max(values) or nan} if values else None
        return mean_ci95(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """Convert the outcome to values for JSON, for the payload of a study."""
        if self.summary is None:
            return {"error": self.error}
        kept = ("test", "val", "seconds", "epoch_seconds", "prepare_seconds", "peak_memory_bytes")
        record = self.summary.to_json()
        spent = {"steps": self.estimate("steps"), "dir": str(self.folder)}
        return {"options": record["sampler"], **{key: record[key] for key in kept}, **spent}


def silent(*_: object) -> None:
    """A progress function that does nothing."""


def run_jobs(
    jobs: Mapping[str, Experiment], out: Path, executor: Executor = LOCAL, progress: Progress = silent
) -> dict[str, Outcome]:
    """Run the jobs that are not finished, and return the outcomes of all jobs by name.

    Args:
        jobs: the experiments, by name; the name is also the name of the job's folder in ``out``.
        out: the folder that contains the folders of the jobs.
        executor: the executor, which also limits the number of parallel jobs.
        progress: see ``Progress``.

    Raises:
        RunError: the folder of a job contains a different experiment or different data.
    """
    jobs = {name: job.settled() for name, job in jobs.items()}
    for name, job in jobs.items():
        write_config(out / name / "config.json", job.to_json())
    waiting = [name for name in jobs if not (out / name / SUMMARY).exists()]
    _check_data({name: job for name, job in jobs.items() if name not in waiting}, out)
    total = len(waiting)
    running: dict[str, Job] = {}
    errors: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < executor.workers:
                name = waiting.pop(0)
                running[name] = executor.submit(out / name, total)
            for name, process in list(running.items()):
                progress(name, *_epochs_done(jobs[name], out / name))
                if (code := process.poll()) is not None:
                    del running[name]
                    if code != 0:
                        errors[name] = last_words(out / name, code)
                        _set_free(out / name)
            time.sleep(POLL_SECONDS)
    finally:
        stop(running.values())
    for name, job in jobs.items():
        progress(name, job.epochs, "done")
    return {name: _outcome(name, job, out / name, errors.get(name)) for name, job in jobs.items()}


def _check_data(done: Mapping[str, Experiment], out: Path) -> None:
    """Raise an error if the graph of a finished job has changed since the job ran."""

    @cache
    def identity(job: Experiment, seed: int) -> dict[str, Any]:
        return job.load(seed).identity()

    for name, job in done.items():
        judge = {setting: getattr(job.settings, setting) for setting in ("task", "metric", "positive")}
        data = Experiment(job.graph, split=job.split, root=job.root, seeds=job.seeds, **judge)  # equal for many jobs
        for seed, run in _runs(job, out / name).items():
            now = identity(data, seed)
            changed = differences(read_config(run.config)["data"], now)
            for what, (old, new) in changed.items():
                raise RunError(f"{out / name} is of other data: {what} was {old} and is now {new}. Use another folder")


def _runs(job: Experiment, folder: Path) -> dict[int, RunFolder]:
    return {seed: RunFolder(folder / f"seed-{seed}") for seed in job.seeds}


def stop(running: Collection[Job]) -> None:
    """Stop all jobs after they have written their checkpoints. A second interrupt stops them at once."""
    try:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    except BaseException:
        for process in running:
            process.kill()
        raise


def _set_free(folder: Path) -> None:
    """If a job failed before its first evaluation, remove its configuration, so that a corrected job can use the
    folder.
    """
    with suppress(RunError), hold(folder):  # another process may hold it
        if not any(folder.rglob("metrics.jsonl")):
            (folder / "config.json").unlink(missing_ok=True)


def _epochs_done(job: Experiment, folder: Path) -> tuple[int, str]:
    done, word = 0, "starting (not timed)"
    for seed, run in _runs(job, folder).items():
        with suppress(RunError, IndexError):  # the job reports its own errors, or it has no evaluation yet
            last = run.lines()[-1]
            done, val = done + int(last["epoch"]), last["val"]
            word = f"seed {seed}" if val is None else f"seed {seed}, val {val:.4g}"
    return done, word


def last_words(folder: Path, code: int) -> str:
    """The last line of the error output of a failed job, with the exit code unless it is 2."""
    lines = [line for line in (folder / ERRORS).read_text().splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else "no error message"
    return reason if code == 2 else f"stopped with exit code {code}: {reason}"


def _outcome(name: str, job: Experiment, folder: Path, error: str | None) -> Outcome:
    if not (folder / SUMMARY).exists():
        return Outcome(name, job, folder, None, error or "it did not finish")
    runs = [run.run() for run in _runs(job, folder).values()]
    return Outcome(name, job, folder, Summary(job, read_json(folder / SUMMARY)["graph"], runs), error)
