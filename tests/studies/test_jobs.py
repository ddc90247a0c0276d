"""Jobs in processes of their own: done once, gone on with after a kill, and told apart when they fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphs import make_graph
from handful.cli.options import chosen_samplers
from handful.errors import RunError
from handful.report.tables import TITLES
from handful.studies.compare import compare, compare_jobs
from handful.studies.jobs import Job, run_jobs
from handful.training.record import RunFolder


@pytest.fixture
def job(tmp_path: Path) -> Job:
    graph = make_graph(300)
    arrays = {name: getattr(graph, name).numpy() for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(tmp_path / "g.npz", edge_index=graph.edge_index.numpy(), **arrays)
    return Job(
        name="rns",
        graph=str(tmp_path / "g.npz"),
        sampler="rns",
        sampler_options={"parts": 2},
        architecture={"hidden": 8, "layers": 2},
        settings={"epochs": 3, "lr": 0.01},
        seeds=(1, 2),
    )


def test_a_job_is_done_once_and_another_one_of_its_name_is_refused(job: Job, tmp_path: Path) -> None:
    seen: list[tuple[str, int, str]] = []
    (first,) = run_jobs([job], tmp_path / "out", progress=lambda *args: seen.append(args))
    assert first.error is None
    assert first.summary is not None
    assert [run["seed"] for run in first.summary["runs"]] == [1, 2]
    assert first.summary["sampler"] == "rns(parts=2)"
    assert [len(history) for history in first.histories()] == [3, 3]
    assert seen[-1] == ("rns", 6, "done")
    stamp = (first.folder / "summary.json").stat().st_mtime_ns
    (again,) = run_jobs([job], tmp_path / "out")
    assert again.summary == first.summary
    assert (first.folder / "summary.json").stat().st_mtime_ns == stamp
    with pytest.raises(RunError, match="other settings"):
        run_jobs([replace(job, seeds=(1,))], tmp_path / "out")


def test_a_failed_job_says_why_and_the_others_go_on(job: Job, tmp_path: Path) -> None:
    bad = replace(job, name="bad", graph=str(tmp_path / "missing.npz"))
    failed, fine = run_jobs([bad, replace(job, seeds=(1,))], tmp_path / "out", workers=2)
    assert failed.summary is None
    assert "missing.npz" in str(failed.error)
    assert fine.summary is not None


def test_a_killed_job_goes_on_where_it_was(job: Job, tmp_path: Path) -> None:
    long = replace(job, seeds=(1,), settings={"epochs": 80, "lr": 0.01, "checkpoint_seconds": 0.0})
    folder = tmp_path / "out" / "rns"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps(long.plain()))
    process = subprocess.Popen([sys.executable, "-m", "handful.studies.worker", str(folder), "1"], env=os.environ)
    run = RunFolder(folder / "seed-1")
    while process.poll() is None and len(run.lines()) < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = [line["loss"] for line in run.lines()][:5]
    assert not (folder / "summary.json").exists()
    (outcome,) = run_jobs([long], tmp_path / "out")
    assert outcome.summary is not None
    lines = run.lines()
    assert [line["epoch"] for line in lines] == list(range(1, 81))
    assert [line["loss"] for line in lines][:5] == before


def test_compare_writes_the_table_the_picture_and_the_numbers(job: Job, tmp_path: Path) -> None:
    common = {k: v for k, v in vars(job).items() if k not in ("name", "sampler", "sampler_options")}
    common["seeds"] = (1,)
    names = ["full", "neighbor", "cluster", "saint", "ladies", "rns"]
    pairs = ["cluster.clusters=10", "cluster.per_batch=2", "saint.roots=20", "ladies.batch_size=64"]
    jobs = compare_jobs(chosen_samplers(",".join(names), pairs, layers=2), **common)
    assert len(jobs[4].sampler_options["budget"]) == 2
    result, outcomes = compare(jobs, tmp_path / "out", workers=2)
    assert [row["sampler"] for row in result["rows"]] == names
    assert not [o.error for o in outcomes if o.error]
    for row in result["rows"]:
        assert 0 < row["test"]["mean"] <= 1
        assert row["seconds"]["mean"] > 0
        assert row["peak_memory_bytes"]["ram"] > 1e6
    table = (tmp_path / "out" / "table.md").read_text()
    assert table.count("\n") == 8
    assert "**" in table
    assert (tmp_path / "out" / "curves.svg").read_text().startswith("<?xml")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<figure") == 2
    assert all(f"<td>{TITLES[name]}</td>" in page for name in names)
    assert json.loads((tmp_path / "out" / "compare.json").read_text())["graph"] == "g"
