"""What holds for the finding of every study, and outcomes that are made up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handful import Experiment
from handful.errors import DivergedError
from handful.experiment import Summary
from handful.files import plain
from handful.finding import Finding
from handful.report.page import read_findings, write_finding
from handful.studies import Request, run_study
from handful.studies.executors import DIVERGED
from handful.studies.jobs import Outcome
from handful.training.record import Run, read_config

GRAPH = "synthetic?nodes=300&degree=6&features=8&classes=3"
MADE = Experiment(GRAPH, hidden=4, layers=1, epochs=2, seeds=(1, 2, 3))


def made_outcome(
    name: str,
    tests: Sequence[float] | None,
    experiment: Experiment = MADE,
    folder: Path = Path("nowhere"),
    graph: str = "made up",
    metric: str = "accuracy",
    **fields: Any,
) -> Outcome:
    """A job with these test metrics, one for each seed, the same for validation; ``None`` for one that failed."""
    if tests is None:
        return Outcome(name, experiment, folder, None, "out of memory")
    usual = {"best_epoch": 2, "epochs": 2, "seconds": 1.0, "train_seconds": 1.0, "peak_ram_bytes": 2**30}
    usual |= {"higher_is_better": metric not in ("mae", "rmse"), **fields}

    def history(test: float) -> list[dict[str, Any]]:
        same = {"val": test, "test": test, "loss": 1.0}
        return [{"epoch": e, "seconds": float(e), "train_seconds": float(e), **same} for e in (1, 2)]

    runs = [Run(metric, test, test, seed=i, history=history(test), **usual) for i, test in enumerate(tests)]
    return Outcome(name, experiment, folder, Summary(experiment, graph, runs))


class Ended:
    """A job that has ended."""

    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self) -> int:
        return self.code

    wait = poll

    def terminate(self) -> None:
        pass

    kill = terminate


class Here:
    """Runs jobs in this process, one by one: the start of a process takes seconds."""

    workers = 1

    def submit(self, folder: Path, jobs: int) -> Ended:
        try:
            Experiment.from_json(read_config(folder / "config.json")).run(folder, resume=True)
        except DivergedError:
            return Ended(DIVERGED)
        return Ended(0)


def smoke(name: str, out: Path, **asked: Any) -> Finding:
    """Run a study as small as it gets, and check what every finding must be."""
    request = Request(**{"graph": GRAPH, "budget": "smoke", "out": out, "jobs": 2, **asked})
    found = run_study(name, request)
    check(found)
    assert found.name == name
    assert found.words
    assert found.facts["budget"] == "smoke"
    return found


def trained_here(jobs: Mapping[str, Experiment], out: Path) -> None:
    """Train jobs in this process: a study then finds them done, and starts none of its own, which takes seconds."""
    for name, job in jobs.items():
        job.run(out / name)


def check(found: Finding) -> None:
    """A finding of which nothing failed has tables, charts that can be drawn, and reads back as it was."""
    assert found.failed == ()
    assert found.tables
    for table in [*found.tables, *found.details]:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.head)}
    assert not any("failed" in cell.text for table in found.tables for row in table.rows for cell in row)
    for chart in found.charts:
        assert all(view.drawable for view in chart.views)
    json.dumps(plain(found.payload))
    again = Finding.from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    assert Finding.from_json(json.loads(json.dumps(again.to_json()))) == again


def check_page(found: Finding, out: Path) -> None:
    """A finding is drawn and written, and read from its folder again."""
    page = write_finding(found, out).read_text(encoding="utf-8")
    assert page.count("<figure") == len(found.charts)
    assert json.loads((out / f"{found.name}.json").read_text(encoding="utf-8")) == plain(found.payload)
    for chart in found.charts:
        assert "<svg" in (out / f"{chart.name}.svg").read_text(encoding="utf-8")
    findings, unreadable = read_findings(out)
    assert not unreadable
    assert [one.to_json() for one in findings] == [found.to_json()]


def laptop(name: str, out: Path, epochs: int | None = None) -> Finding:
    """Run a study under ``laptop`` on debian with one seed, and check what every finding must be."""
    found = run_study(name, Request("debian", budget="laptop", seeds=(42,), out=out, epochs=epochs))
    check(found)
    return found
