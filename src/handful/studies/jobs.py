"""Experiments as jobs: each in a process of its own, so that peaks do not mix and a crash takes nothing along.

A job is the folder of an experiment. One that is done is not repeated; one that was broken off goes on where its last
checkpoint is.
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
from handful.studies.executors import ERRORS, Executor, Job, Local
from handful.training.metrics import METRICS, Metric, metric_of_record
from handful.training.record import RunFolder, differences, read_config, read_json, write_config

Progress = Callable[[str, int, str], None]
"""Called with a job's name, how many epochs it has done, and a word on where it is."""
POLL_SECONDS = 0.1
STARTUP = "startup.json"
"""How long the process of a job took to its first epoch."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its summary, or the reason why there is none."""

    name: str
    experiment: Experiment
    folder: Path
    summary: Summary | None
    error: str | None = None

    @property
    def metric(self) -> Metric:
        """What it is judged by; accuracy for a job that failed."""
        if self.summary is None:
            return METRICS["accuracy"]
        return metric_of_record(self.summary.metric, self.summary.runs[0].higher_is_better)

    @property
    def startup_seconds(self) -> float:
        """From the start of the process to the first epoch; 0 where a job did not run in a process of its own."""
        file = self.folder / STARTUP
        return float(read_json(file)["seconds"]) if file.exists() else 0.0

    def seeds(self, measure: str) -> list[float]:
        """A field of ``Run`` for every seed; ``memory`` is the peak of the GPU, or of RAM where none was used."""
        runs = [] if self.summary is None else self.summary.runs
        if measure == "memory":
            return [run.peak_gpu_bytes or run.peak_ram_bytes for run in runs]
        return [getattr(run, measure) or 0 for run in runs]

    def estimate(self, measure: str) -> dict[str, float] | None:
        """Mean and 95% CI of a measure over the seeds, of bytes the largest, NaN where none were taken.

        ``None`` for a job that failed.
        """
        values = self.seeds(measure)
        if measure == "memory" or measure.endswith("_bytes"):
            return {"mean": max(values) or nan} if values else None
        return mean_ci95(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """What the record of a study keeps of it."""
        if self.summary is None:
            return {"error": self.error}
        kept = ("test", "val", "seconds", "epoch_seconds", "prepare_seconds", "peak_memory_bytes")
        record = self.summary.to_json()
        spent = {"steps": self.estimate("steps"), "dir": str(self.folder)}
        return {"options": record["sampler"], **{key: record[key] for key in kept}, **spent}


def run_jobs(
    jobs: Mapping[str, Experiment],
    out: Path,
    executor: Executor = Local(),  # noqa: B008  (one at a time, in processes of this machine)
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run every job that is not done yet; the outcomes, in the order of ``jobs``.

    Args:
        jobs: experiments by the name of their folder below ``out``.
        out: where they are kept.
        executor: where they run, and how many at a time.
        progress: see ``Progress``.

    Raises:
        RunError: a folder in ``out`` belongs to another experiment, or to other data.
    """
    progress = progress or (lambda name, epochs, word: None)
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
    return [_outcome(name, job, out / name, errors.get(name)) for name, job in jobs.items()]


def _check_data(done: Mapping[str, Experiment], out: Path) -> None:
    """Refuse a finished job whose graph is another by now: its result would pass for the new one's."""

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
    """Ask for an end, which lets each write its checkpoint; who asks again while we wait does not want to wait."""
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
    """Let a folder whose job failed before its first evaluation be used for the corrected one."""
    with suppress(RunError), RunFolder(folder).held():  # unless another process works in it
        if not any(folder.rglob("metrics.jsonl")):
            (folder / "config.json").unlink(missing_ok=True)


def _epochs_done(job: Experiment, folder: Path) -> tuple[int, str]:
    done, word = 0, "starting; compiling is not timed"
    for seed, run in _runs(job, folder).items():
        with suppress(RunError, IndexError):  # what is wrong, the job itself will say; or nothing is evaluated yet
            last = run.lines()[-1]
            done, val = done + int(last["epoch"]), last["val"]
            word = f"seed {seed}" if val is None else f"seed {seed}, val {val:.4g}"
    return done, word


def last_words(folder: Path, code: int) -> str:
    """The last line that a job which failed has said, and its exit code where that tells more."""
    lines = [line for line in (folder / ERRORS).read_text().splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else "it said nothing"
    return reason if code == 2 else f"stopped with exit code {code}: {reason}"


def _outcome(name: str, job: Experiment, folder: Path, error: str | None) -> Outcome:
    if not (folder / SUMMARY).exists():
        return Outcome(name, job, folder, None, error or "it did not finish")
    runs = [run.run() for run in _runs(job, folder).values()]
    return Outcome(name, job, folder, Summary(job, read_json(folder / SUMMARY)["graph"], runs), error)
