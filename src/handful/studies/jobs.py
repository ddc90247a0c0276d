"""Runs as jobs: each configuration in a process of its own, so that peaks do not mix and a crash takes nothing along.

A job is a folder: ``job.json`` says what to run, ``seed-*/`` are its run folders, ``summary.json`` stands at the end.
A job that is done is not repeated; one that was broken off goes on where its last checkpoint is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from handful.errors import RunError
from handful.files import write_json
from handful.kernels.threads import get_threads
from handful.training.record import RunFolder, read_json

Progress = Callable[[str, int, str], None]
"""Called with a job's name, how many epochs it has done, and a word on where it is."""


@dataclass(frozen=True)
class Job:
    """One configuration over its seeds: the arguments of ``train_seeds``, as plain values."""

    name: str
    graph: str
    sampler: str
    sampler_options: dict[str, Any] = field(default_factory=dict)
    model: str = "sage"
    architecture: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (42,)
    split: str | None = None
    root: str | None = None
    device: str = "cpu"

    @property
    def epochs(self) -> int:
        """The epochs of all seeds together."""
        return int(self.settings["epochs"]) * len(self.seeds)

    def plain(self) -> dict[str, Any]:
        """The job as JSON would give it back."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its summary (``Summary.to_json``), or the reason why there is none."""

    job: Job
    folder: Path
    summary: dict[str, Any] | None
    error: str | None = None

    def histories(self) -> list[list[dict[str, Any]]]:
        """The evaluations of every seed."""
        return [RunFolder(self.folder / f"seed-{seed}").lines() for seed in self.job.seeds]


def run_jobs(jobs: Sequence[Job], out: Path, workers: int = 1, progress: Progress | None = None) -> list[Outcome]:
    """Run every job that is not done yet, ``workers`` at a time; the outcomes, in the order of ``jobs``.

    Raises:
        RunError: a folder in ``out`` belongs to a job of the same name with other settings.
    """
    folders = {job.name: out / job.name for job in jobs}
    for job in jobs:
        _prepare(job, folders[job.name])
    waiting = [job for job in jobs if not (folders[job.name] / "summary.json").exists()]
    running: dict[str, tuple[Job, subprocess.Popen[str]]] = {}
    errors: dict[str, str] = {}
    threads = max(1, get_threads() // max(1, min(workers, len(waiting) or 1)))
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                running[job.name] = (job, _start(folders[job.name], threads))
            for name, (job, process) in list(running.items()):
                if progress is not None:
                    progress(name, *_epochs_done(job, folders[name]))
                if process.poll() is not None:
                    del running[name]
                    if process.returncode != 0:
                        errors[name] = _last_words(folders[name], process.returncode)
            time.sleep(0.1)
    finally:
        for _, process in running.values():
            process.terminate()
            process.wait()
    for job in jobs:
        if progress is not None:
            progress(job.name, job.epochs, "done")
    return [_outcome(job, folders[job.name], errors.get(job.name)) for job in jobs]


def _prepare(job: Job, folder: Path) -> None:
    file = folder / "job.json"
    if not file.exists():
        write_json(file, job.plain())
    elif read_json(file) != job.plain():
        raise RunError(f"{folder} holds a run with other settings: use another --out, or delete it")


def _start(folder: Path, threads: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "handful.studies.worker", str(folder), str(threads), str(os.getpid())]
    with (folder / "stderr.txt").open("w") as errors:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, text=True, env=os.environ)


def _epochs_done(job: Job, folder: Path) -> tuple[int, str]:
    done, word = 0, "starting"
    for seed in job.seeds:
        lines = RunFolder(folder / f"seed-{seed}").lines()
        if lines:
            done += int(lines[-1]["epoch"])
            best = max(line["val"] or 0.0 for line in lines)
            word = f"seed {seed}, val {100 * best:.2f}"
    return done, word


def _last_words(folder: Path, code: int) -> str:
    lines = [line for line in (folder / "stderr.txt").read_text().splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else "it said nothing"
    return reason if code == 2 else f"stopped with exit code {code}: {reason}"


def _outcome(job: Job, folder: Path, error: str | None) -> Outcome:
    summary = folder / "summary.json"
    return Outcome(job, folder, read_json(summary) if summary.exists() else None, error)
