"""Jobs in processes of their own: done once, gone on with after a kill, and told apart when they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphs import make_graph
from handful import Experiment, RandomNodes
from handful.errors import RunError
from handful.statistics import mean_ci95
from handful.studies.executors import Local
from handful.studies.jobs import run_jobs
from handful.training.record import RunFolder, write_config
from npz import write_npz
from studies.smoke import made_outcome


@pytest.fixture
def job(tmp_path: Path) -> Experiment:
    graph = write_npz(tmp_path / "g.npz", make_graph(300))
    return Experiment(graph, sampler=RandomNodes(2), hidden=8, layers=2, epochs=3, lr=0.01, seeds=(1, 2))


@pytest.mark.slow
def test_a_job_is_done_once_and_neither_another_one_nor_other_data_pass_for_it(job: Experiment, tmp_path: Path) -> None:
    seen: list[tuple[str, int, str]] = []
    first = run_jobs({"rns": job}, tmp_path / "out", progress=lambda *args: seen.append(args))["rns"]
    assert first.error is None
    assert first.summary is not None
    assert (first.name, first.experiment, first.folder) == ("rns", job, tmp_path / "out" / "rns")
    assert [run.seed for run in first.summary.runs] == [1, 2]
    assert first.to_json()["options"] == str(job.sampler)
    assert [len(run.history) for run in first.summary.runs] == [3, 3]
    assert seen[-1] == ("rns", 6, "done")
    stamp = (first.folder / "summary.json").stat().st_mtime_ns
    again = run_jobs({"rns": job}, tmp_path / "out")["rns"]
    assert again.summary == first.summary
    assert (first.folder / "summary.json").stat().st_mtime_ns == stamp
    own = job.run()
    assert [run.test for run in own.runs] == first.seeds("test")

    for change, words in (
        ({"seeds": (1,)}, r"seeds was \[1, 2\] and is now \[1\]"),
        ({"dropout": 0.1}, "dropout was 0.5 and is now 0.1"),
        ({"sampler": RandomNodes(3)}, "parts was 2 and is now 3"),
    ):
        with pytest.raises(RunError, match=words):
            run_jobs({"rns": job.with_(**change)}, tmp_path / "out")

    write_npz(tmp_path / "g.npz", make_graph(300), x=make_graph(300).x.numpy() * 2)
    with pytest.raises(RunError, match=r"out/rns is of other data: features was \w+ and is now \w+"):
        run_jobs({"rns": job}, tmp_path / "out")


@pytest.mark.slow
def test_a_failed_job_says_why_and_the_others_go_on(job: Experiment, tmp_path: Path) -> None:
    jobs = {"bad": job.with_(graph=str(tmp_path / "missing.npz")), "rns": job.with_(seeds=(1,))}
    failed, fine = run_jobs(jobs, tmp_path / "out", Local(2)).values()
    assert failed.summary is None
    assert "missing.npz" in str(failed.error)
    assert "Traceback" not in str(failed.error)
    assert fine.summary is not None
    assert fine.error is None


@pytest.mark.slow
def test_a_killed_job_goes_on_where_it_was(job: Experiment, tmp_path: Path) -> None:
    long = job.with_(seeds=(1,), epochs=80, checkpoint_seconds=0.0)
    folder = tmp_path / "out" / "rns"
    write_config(folder / "config.json", long.to_json())
    worker = [sys.executable, "-m", "handful.studies.worker", str(folder), "1", str(os.getpid()), "0"]
    process = subprocess.Popen(worker, env=os.environ)
    run = RunFolder(folder / "seed-1")
    while process.poll() is None and len(run.lines()) < 5:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = [line["loss"] for line in run.lines()][:5]
    assert not (folder / "summary.json").exists()
    outcome = run_jobs({"rns": long}, tmp_path / "out")["rns"]
    assert outcome.summary is not None
    lines = run.lines()
    assert [line["epoch"] for line in lines] == list(range(1, 81))
    assert [line["loss"] for line in lines][:5] == before
    assert [line["loss"] for line in lines] == [line["loss"] for line in long.run().runs[0].history]


def test_measures_of_an_outcome() -> None:
    one = made_outcome("rns", [0.5, 0.7], peak_gpu_bytes=7, peak_ram_bytes=9)
    assert one.seeds("test") == [0.5, 0.7]
    assert one.estimate("test") == mean_ci95([0.5, 0.7])
    assert (one.estimate("memory"), one.estimate("peak_ram_bytes")) == ({"mean": 7}, {"mean": 9})
    assert one.to_json()["peak_memory_bytes"] == {"ram": 9, "gpu": 7}
    assert not made_outcome("m", [1.0], metric="mae").metric.higher_is_better
    failed = made_outcome("rns", None)
    assert (failed.seeds("test"), failed.estimate("test"), failed.metric.name) == ([], None, "accuracy")
    assert failed.to_json() == {"error": "out of memory"}
