"""Run folders: what they hold, who may write them, and that a broken run ends like an unbroken one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import handful as hf
from graphs import make_graph
from handful.training.record import RunFolder, load_tensors

SETTINGS = {"epochs": 12, "lr": 0.01, "seed": 3, "checkpoint_seconds": 0.0, "evaluate_every": 2}


def train(out: Path | None, resume: bool = False, pause: float = 0.0, **changes: object) -> hf.Run:
    """The run that every test here makes; ``pause`` makes it slow enough to be killed."""

    class Slow(hf.Callback):
        def on_gradient(self, loop: object, batch: object, loss: float) -> None:
            time.sleep(pause)

    graph = make_graph(150)
    torch.manual_seed(3)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2)
    settings = {**SETTINGS, **changes}
    return hf.fit(model, graph, hf.RandomNodes(3), out=out, resume=resume, callbacks=[Slow()], **settings)


def timeless(folder: RunFolder) -> list[dict]:
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in folder.lines()]


def test_a_run_folder_holds_everything(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    config = json.loads(folder.config.read_text())
    assert config["sampler"]["parts"] == 3
    assert config["settings"]["lr"] == 0.01
    assert [line["epoch"] for line in folder.lines()] == [2, 4, 6, 8, 10, 12]
    result = json.loads(folder.result.read_text())
    assert (result["test"], result["best_epoch"]) == (run.test, run.best_epoch)
    graph = make_graph(150)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2)
    hf.load_weights(model, tmp_path / "run")
    logits = hf.infer(model, graph)
    assert (logits.argmax(1) == graph.y)[graph.val_mask].double().mean() == run.val
    assert not list((tmp_path / "run").glob(".*.part"))


def test_killed_at_random_moments_and_resumed_it_ends_bit_for_bit_the_same(tmp_path: Path) -> None:
    train(tmp_path / "whole")
    broken = tmp_path / "broken"
    code = f"import test_record as t; from pathlib import Path; t.train(Path({str(broken)!r}), resume=True, pause=0.05)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])}
    folder = RunFolder(broken)
    for lines in (1, 3, 4):
        process = subprocess.Popen([sys.executable, "-c", code], env=env)
        while process.poll() is None and len(folder.lines()) < lines:
            time.sleep(0.01)
        time.sleep(0.037 * lines)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not folder.result.exists()
    train(broken, resume=True)
    whole = RunFolder(tmp_path / "whole")
    assert timeless(folder) == timeless(whole)
    assert folder.model.read_bytes() == whole.model.read_bytes()
    ours, theirs = load_tensors(folder.checkpoint)[0], load_tensors(whole.checkpoint)[0]
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[k], theirs[k]) for k in ours)


@pytest.mark.parametrize("optimizer", ["sgd", "sgdm", "adam", "adamw"])
def test_every_optimizer_resumes(tmp_path: Path, optimizer: str) -> None:
    class Stop(hf.Callback):
        def on_evaluation(self, loop: object, line: dict) -> None:
            if line["epoch"] == 6:
                raise KeyboardInterrupt

    graph = make_graph(100)
    ends = []
    for name, stop in (("whole", False), ("broken", True)):
        for resume in (False, True):
            torch.manual_seed(0)
            model = hf.GCN(graph.num_features, graph.num_outputs, hidden=8, layers=2)
            callbacks = [Stop()] if stop and not resume else []
            try:
                run = hf.fit(
                    model, graph, hf.RandomNodes(2), out=tmp_path / name, resume=resume, optimizer=optimizer,
                    callbacks=callbacks, epochs=10, checkpoint_seconds=0.0,
                )  # fmt: skip
            except KeyboardInterrupt:
                continue
        ends.append((run.val, run.test, [line["loss"] for line in run.history]))
    assert ends[0] == ends[1]


def test_a_finished_run_is_read_not_repeated(tmp_path: Path) -> None:
    first = train(tmp_path / "run")
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    again = train(tmp_path / "run", resume=True)
    assert (again.test, again.steps, again.history) == (first.test, first.steps, first.history)
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    train(tmp_path / "run", epochs=2)
    with pytest.raises(hf.RunError, match="already holds a run"):
        train(tmp_path / "run", epochs=2)
    with pytest.raises(hf.RunError, match="settings was"):
        train(tmp_path / "run", resume=True, epochs=2, lr=0.5)


def test_two_processes_never_write_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.held(), pytest.raises(hf.RunError, match=f"in use by process {os.getpid()}"):
        train(tmp_path / "run")
    train(tmp_path / "run", epochs=2)


def test_a_line_that_a_kill_cut_short_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append({"epoch": 1, "val": 0.5})
    with folder.metrics.open("a") as file:
        file.write('{"epoch": 2, "va')
    assert folder.lines() == [{"epoch": 1, "val": 0.5}]
    folder.rewind(1)
    folder.append({"epoch": 2, "val": 0.6})
    assert [line["epoch"] for line in folder.lines()] == [1, 2]


def test_a_broken_checkpoint_gives_one_clear_error(tmp_path: Path) -> None:
    train(tmp_path / "run", epochs=2)
    folder = RunFolder(tmp_path / "run")
    folder.result.unlink()
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:100])
    with pytest.raises(hf.RunError, match=r"checkpoint\.safetensors cannot be read"):
        train(tmp_path / "run", resume=True, epochs=2)
