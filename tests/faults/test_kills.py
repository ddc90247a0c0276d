"""A run that is broken off, by whatever signal and at whatever moment, ends as if it had not been."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import handful as hf
from faults.killed import beside, train
from faults.programs import HERE, start
from handful.training.record import RunFolder, load_tensors
from small import BreakOff, assert_same_end

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are of POSIX")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return RunFolder(folder)


def training(folder: Path, pause: float, *hold: int) -> subprocess.Popen[str]:
    """A process that trains in ``folder``; with ``hold``, one that has come to wait after so many epochs."""
    event = beside(folder, "held" if hold else "started")
    event.unlink(missing_ok=True)
    process = start(HERE / "killed.py", folder, pause, *hold)
    while not event.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def kill_and_resume(folder: Path, kills: int, whole: RunFolder) -> None:
    rng = np.random.default_rng(kills)
    for at in range(kills):
        process = training(folder, 0.03)
        # The first is killed before its first checkpoint, the others anywhere up to the end.
        time.sleep(float(rng.uniform(0, 0.1) if at == 0 else rng.uniform(0, 0.5)))
        process.kill()
        process.communicate()
        own = RunFolder(folder)
        if at % 2 and own.metrics.exists() and not own.result.exists():
            with own.metrics.open("a") as file:
                file.write('{"epoch": 99, "va')  # a line that the kill has cut short
    train(folder)
    assert_same_end(RunFolder(folder), whole)
    assert not list(folder.glob(".*.part"))


def test_a_kill(tmp_path: Path, whole: RunFolder) -> None:
    kill_and_resume(tmp_path / "run", 1, whole)


@pytest.mark.slow
def test_twenty_kills_of_as_many_runs(tmp_path: Path, whole: RunFolder) -> None:
    for number in range(20):
        kill_and_resume(tmp_path / f"run-{number}", 1 + number % 2, whole)


def test_lines_from_before_the_first_checkpoint_are_not_kept(tmp_path: Path, whole: RunFolder) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", checkpoint_seconds=1e9, callbacks=[BreakOff(4)])
    own = RunFolder(tmp_path / "run")
    assert not own.checkpoint.exists()
    assert [line["epoch"] for line in own.lines()] == [2, 4]
    with own.metrics.open("a") as file:
        file.write('{"epoch": 6, "va')
    train(tmp_path / "run", checkpoint_seconds=1e9)
    assert_same_end(own, whole)
    assert [line["epoch"] for line in own.lines()] == [2, 4, 6, 8, 10, 12]


def test_a_checkpoint_without_its_configuration_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "run", epochs=2)
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(hf.RunError, match=r"has a checkpoint, but not its config\.json"):
        train(tmp_path / "run", epochs=2)


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_writes_a_checkpoint_and_says_so(tmp_path: Path, whole: RunFolder, number: signal.Signals) -> None:
    process = training(tmp_path / "run", 0.0, 3)
    process.send_signal(number)
    said = process.stderr.readline()  # type: ignore[union-attr]  # the handler has run
    beside(tmp_path / "run", "go").touch()
    _, err = process.communicate(timeout=60)
    assert process.returncode == -number, err
    own = RunFolder(tmp_path / "run")
    assert load_tensors(own.checkpoint)[1]["epoch"] == 4
    assert "after this epoch" in said
    assert number.name in err
    assert str(own.path) in err
    train(own.path)
    assert_same_end(own, whole)


@pytest.mark.slow
@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    process = training(tmp_path / "run", 30.0)
    time.sleep(0.2)
    process.send_signal(number)
    assert "after this epoch" in process.stderr.readline()  # type: ignore[union-attr]
    process.send_signal(number)
    process.communicate(timeout=20)  # an epoch would take 90 seconds
    assert process.returncode == -number
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


@posix
@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_says_how_to_go_on(tmp_path: Path, number: signal.Signals, code: int) -> None:
    graph = "synthetic?nodes=3000&degree=6&features=8&classes=3"
    command = ["train", graph, "--hidden", "8", "--epochs", "100000", "--seeds", "1", "--out", tmp_path / "run"]
    process = start("-m", "handful", *command)
    metrics = tmp_path / "run" / "seed-1" / "metrics.jsonl"
    while not metrics.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == ""
    assert number.name in err
    assert "handful train 'synthetic?" in err.splitlines()[-1]
    assert err.rstrip().endswith("--resume")
    assert "Traceback" not in err
    assert (tmp_path / "run" / "seed-1" / "checkpoint.safetensors").exists()


@posix
@pytest.mark.slow
@pytest.mark.parametrize("command", ["import", "predict"])
def test_what_is_ended_leaves_nothing_half_written(tmp_path: Path, command: str) -> None:
    rng = np.random.default_rng(0)
    tables = [tmp_path / "edges.csv", tmp_path / "nodes.csv"]
    ends = "".join(f"{a},{b}\n" for a, b in rng.integers(0, 50_000, (100_000, 2)).tolist())
    tables[0].write_text(f"source,target\n{ends}")
    rows = "".join(f"{i},{i % 3},{x:.3f}\n" for i, x in enumerate(rng.random(50_000)))
    tables[1].write_text(f"id,label,x\n{rows}")
    target = tmp_path / "out" / ("graph" if command == "import" else "found.csv")
    target.parent.mkdir()
    words = ["import", *tables]
    if command == "predict":
        hf.Experiment(str(tables[0].parent), hidden=4, layers=1, epochs=1, seeds=(1,), split="rh").run(tmp_path / "run")
        words = ["predict", tmp_path / "run", "--nodes", "all"]
    process = start("-m", "handful", *words, "--out", target)
    while not list(target.parent.iterdir()) and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)  # while it writes: the first file is there
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 143), err
    assert "Traceback" not in err
    assert set(target.parent.iterdir()) <= {target}
    if command == "import" and target.exists():
        assert hf.load(target).num_nodes == 50_000
    elif target.exists():
        assert len(target.read_text().splitlines()) == 50_001
