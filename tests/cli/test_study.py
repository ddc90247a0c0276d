"""``handful study`` as a user meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.run import handful
from handful.studies import STUDIES
from handful.training.record import RunFolder


def test_studies_are_listed_and_refused(tmp_path: Path) -> None:
    listed = handful("study", "--json").json["studies"]
    assert len(listed) == len(STUDIES)
    assert {"backward-error", "bias-bound", "degree-law", "explicit-penalty"} <= {row["name"] for row in listed}
    assert all(row["shows"] for row in listed)
    assert "backward-error" in handful("study", "backwards-error").stderr
    wrong = handful("study", "backward-error", "--budget", "huge", "--out", tmp_path)
    assert wrong.code == 2
    assert "huge" in wrong.stderr


def test_of_a_study_the_numbers_are_printed_and_written(npz: Path, tmp_path: Path) -> None:
    result = handful("study", "degree-law", "--graph", npz, "--budget", "smoke", "--out", tmp_path / "s", "--json")
    assert result.code == 0, result.stderr
    assert json.loads((tmp_path / "s" / "degree-law.json").read_text()) == result.json
    people = handful("study", "degree-law", "--graph", npz, "--budget", "smoke", "--out", tmp_path / "s")
    assert "report.html" in people.stdout


def test_all_studies_go_on_where_one_cannot_run(npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = {name: STUDIES[name] for name in ("graphland", "degree-law")}
    monkeypatch.setattr("handful.studies.STUDIES", two)
    where = ("--out", tmp_path / "all", "--root", tmp_path)
    result = handful("study", "all", "--budget", "smoke", *where)
    assert result.code == 0, result.stderr
    assert "left out: graphland" in result.stderr
    assert "degree-law" in result.stdout
    assert (tmp_path / "all" / "degree-law" / "finding.json").exists()


@pytest.mark.slow
def test_a_run_that_fails_is_a_row_and_exit_code_1_and_what_is_done_is_kept(npz: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "m-2").mkdir(parents=True)
    (tmp_path / "out" / "m-2" / "seed-42").write_text("in the way of the run's folder")
    args = ("study", "parts", "--graph", npz, "--budget", "smoke", "--out", tmp_path / "out", "--jobs", 2)
    result = handful(*args)
    assert result.code == 1
    assert "m-2" in result.stderr
    (tmp_path / "out" / "m-2" / "seed-42").unlink()
    stamp = (tmp_path / "out" / "m-1" / "summary.json").stat().st_mtime_ns
    again = handful(*args, "--json")
    assert again.code == 0, again.stderr
    assert [point.get("m") for point in again.json["curve"]] == [1, 2, None]
    assert (tmp_path / "out" / "m-1" / "summary.json").stat().st_mtime_ns == stamp
    other = handful(*args, "--seeds", "1,2")
    assert other.code == 2
    assert "seeds was [42] and is now [1, 2]" in other.stderr


@pytest.mark.slow
def test_a_killed_study_goes_on_where_it_was(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ["study", "parts", "--graph", str(npz), "--budget", "smoke", "--out", str(out)]
    command = [sys.executable, "-m", "handful", *args]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ)
    first, second = out / "m-1", out / "m-2"
    while not (second / "stderr.txt").exists():  # the second job has begun, so the first is done
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stamp = (first / "summary.json").stat().st_mtime_ns
    time.sleep(1)  # its worker ends with it, half a second later at most
    result = handful(*args, "--json")
    assert result.code == 0, result.stderr
    assert [point["m"] for point in result.json["curve"] if "m" in point] == [1, 2]
    assert (first / "summary.json").stat().st_mtime_ns == stamp
    assert len(RunFolder(second / "seed-42").lines()) == 2
