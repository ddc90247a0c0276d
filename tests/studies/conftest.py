"""What the tests of studies share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from handful import Experiment
from handful.experiment import Summary
from handful.studies.budget import Request
from handful.studies.jobs import Outcome
from studies.smoke import GRAPH, made_outcome
from threads import one_thread

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """A small experiment of two seeds that has been trained; its folder is that of its runs' folders."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    return Experiment(GRAPH, hidden=4, layers=1, epochs=3, lr=0.01, seeds=(1, 2)).run(folder)


@pytest.fixture(scope="session")
def folder(trained: Summary) -> Path:
    """Where ``trained`` is."""
    return Path(str(trained.runs[0].dir)).parent


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Experiment]:
    """Let studies train nothing: the outcomes of their jobs are made up, and better from job to job.

    What is asked for is kept here.
    """
    seen: dict[str, Experiment] = {}

    def train_jobs(request: Request, jobs: Mapping[str, Experiment]) -> dict[str, Outcome]:
        seen.update(jobs)
        return {
            name: made_outcome(name, [0.5 + 0.01 * i] * len(job.seeds), job, folder, graph="made up", seconds=1.0 + i)
            for i, (name, job) in enumerate(jobs.items())
        }

    monkeypatch.setattr("handful.studies.grid.train_jobs", train_jobs)
    return seen
