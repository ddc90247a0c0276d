"""Ranks that are killed, told to stop, or never there, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from faults.programs import HERE, finished, start
from handful.training.record import RunFolder, load_tensors

GRAPH = "synthetic?nodes=400&degree=6&features=8&classes=3"
TRAIN = [
    "-m", "handful", "train", GRAPH, "--seeds", "1", "--epochs", "60", "--hidden", "8", "--layers", "2", "--json",
    "--parts-per-step", "2", "--evaluate-every", "1", "--patience", "60",
]  # fmt: skip
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def ranks_of(parent: subprocess.Popen[str]) -> list[int]:
    """The processes that ``parent`` has started, in the order of their ranks."""
    children = Path(f"/proc/{parent.pid}/task").glob("*/children")
    pids = [int(pid) for one in children for pid in one.read_text().split()]
    told = {pid: Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in pids}
    named = {int(e.partition(b"=")[2]): pid for pid, env in told.items() for e in env if e.startswith(b"RANK=")}
    return [named[rank] for rank in sorted(named)]


def until_trained(folder: Path, epochs: int, process: subprocess.Popen[str], seconds: float = 300) -> None:
    """Wait until so many epochs are in the records."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if folder.exists() and len(RunFolder(folder).lines()) >= epochs:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {epochs} epochs: {process.communicate()}")


def lines(folder: Path) -> list[dict[str, float]]:
    """The evaluations without the clock."""
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in RunFolder(folder).lines()]


def assert_same_end(one: Path, other: Path) -> None:
    """Evaluations and weights are equal, bit for bit."""
    assert lines(one) == lines(other)
    ours, theirs = (load_tensors(RunFolder(folder).checkpoint)[0] for folder in (one, other))
    assert set(ours) == set(theirs)
    assert all(ours[name].equal(theirs[name]) for name in ours)


@pytest.mark.slow
def test_a_rank_that_is_killed_in_an_epoch_is_restarted_from_the_checkpoint(tmp_path: Path) -> None:
    finished(*TORCHRUN, HERE / "ranked.py", tmp_path / "whole", 0, timeout=300)
    process = start(*TORCHRUN, "--max-restarts", "1", HERE / "ranked.py", tmp_path / "killed", 0.2)
    until_trained(tmp_path / "killed", 2, process)
    assert RunFolder(tmp_path / "killed").checkpoint.exists()
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "restarted 1 times" in err
    assert_same_end(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
def test_the_command_goes_on_after_a_restart(tmp_path: Path) -> None:
    finished(*TRAIN, "--processes", "2", "--out", tmp_path / "whole", timeout=300)
    process = start(*TORCHRUN, "--max-restarts", "1", *TRAIN, "--out", tmp_path / "killed")
    until_trained(tmp_path / "killed" / "seed-1", 3, process)
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert json.loads(out)["runs"][0]["epochs"] == 60
    assert_same_end(tmp_path / "whole" / "seed-1", tmp_path / "killed" / "seed-1")


@pytest.mark.slow
def test_a_signal_lets_all_ranks_end_their_epoch_and_another_number_of_them_goes_on(tmp_path: Path) -> None:
    command = [*TRAIN, "--out", tmp_path / "run"]
    process = start(*command, "--processes", "2")
    until_trained(tmp_path / "run" / "seed-1", 2, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 143, err
    assert err.count("a checkpoint is in") == 1
    assert err.count("continue with: handful train") == 1
    done = len(RunFolder(tmp_path / "run" / "seed-1").lines())
    assert 2 <= done < 60
    out, _ = finished(*command, "--resume", timeout=300)
    assert json.loads(out)["runs"][0]["epochs"] == 60


@pytest.mark.slow
def test_a_rank_that_never_comes_up_ends_in_one_line(tmp_path: Path) -> None:
    alone = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "HANDFUL_WAIT": "2"}
    process = start(*TRAIN, "--out", tmp_path / "run", env={**os.environ, **alone})
    _, err = process.communicate(timeout=300)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("rank 1: error: the ranks did not come together")


@pytest.mark.slow
def test_mistakes_are_one_line_of_one_rank(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text("{}")
    _, err = finished(*TRAIN, "--out", tmp_path / "run", "--processes", "2", code=2, timeout=300)
    assert [line for line in err.splitlines() if "error" in line] == [
        f"error: {tmp_path / 'run'} already holds a run: resume it, or use another folder"
    ]
    _, err = finished(*TORCHRUN, "-m", "handful", "info", GRAPH, code=1, timeout=300)
    assert "error: only `handful train` runs in several processes: start this command without torchrun" in err
