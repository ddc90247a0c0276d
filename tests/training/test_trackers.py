"""Trackers, told for real where they are installed."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import handful.cli.train  # noqa: F401  (adds the command)
from graphs import make_graph
from handful import RandomNodes
from handful.cli.app import app
from handful.errors import HandfulError
from handful.nn import make_model
from handful.training.fit import fit
from handful.training.record import Run
from handful.training.trackers import TRACKERS, make_tracker
from small import BreakOff, small_sage


def needs(package: str) -> pytest.MarkDecorator:
    absent = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(absent, reason=f"{package} is not installed: pip install 'handful[{package}]'")


def train(name: str, folder: Path, seeds: tuple[int, ...] = (1, 2)) -> list[Run]:
    """Two seeds told to one tracker, as ``handful train`` does."""
    graph = make_graph(120)
    tracker = make_tracker(name, folder)
    runs = []
    for seed in seeds:
        torch.manual_seed(seed)
        model = make_model("sage", graph.num_features, graph.num_outputs, hidden=8, layers=2)
        runs.append(fit(model, graph, RandomNodes(2), epochs=4, evaluate_every=2, seed=seed, callbacks=[tracker]))
    return runs


@needs("tensorboard")
def test_tensorboard_has_every_evaluation_of_every_seed(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for run in train("tensorboard", tmp_path):
        events = EventAccumulator(str(tmp_path / f"seed-{run.seed}"))
        events.Reload()
        told = {name: [(e.step, e.value) for e in events.Scalars(name)] for name in ("val", "loss", "best_test")}
        assert [step for step, _ in told["val"]] == [2, 4]
        assert [value for _, value in told["val"]] == pytest.approx([line["val"] for line in run.history])
        assert [value for _, value in told["loss"]] == pytest.approx([line["loss"] for line in run.history])
        assert told["best_test"] == [(4, pytest.approx(run.test))]
        (config,) = events.Tensors("config/text_summary")
        assert b"- sampler: rns" in config.tensor_proto.string_val[0]


@needs("tensorboard")
def test_the_command_tells_a_tracker_into_its_folder(tmp_path: Path) -> None:
    graph = make_graph(80)
    arrays = {name: getattr(graph, name).numpy() for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    np.savez(tmp_path / "g.npz", edge_index=graph.edge_index.numpy(), **arrays)
    options = ["--epochs", "1", "--seeds", "7", "--hidden", "4", "--layers", "2", "--out", str(tmp_path / "out")]
    command = ["train", str(tmp_path / "g.npz"), *options, "--tracker", "tensorboard", "--json"]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    assert list((tmp_path / "out" / "tensorboard" / "seed-7").glob("events.out.tfevents.*"))
    assert (tmp_path / "out" / "seed-7" / "result.json").exists()


def wandb_records(file: Path) -> bytes:
    """The records of an offline run: LevelDB's log, whose blocks of 32 KiB cut records anywhere."""
    data, at, out = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length = int.from_bytes(data[at + 4 : at + 6], "little")
        out += data[at + 7 : at + 7 + length]
        at += 7 + length
    return out


@needs("wandb")
@pytest.mark.slow
def test_wandb_keeps_a_run_for_each_seed_and_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_SILENT", "true")
    runs = train("wandb", tmp_path)
    kept = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(kept) == len(runs)
    for run in runs:
        name, until = f"seed-{run.seed}".encode(), time.monotonic() + 60
        # On a busy machine, wandb's own process writes the last records after the run has ended.
        while not (found := [one for one in map(wandb_records, kept) if name in one]) and time.monotonic() < until:
            time.sleep(0.2)
        (own,) = found
        assert b"weight_decay" in own
        for value in (run.test, *(line["loss"] for line in run.history)):
            assert json.dumps(value).encode() in own


@needs("mlflow")
@pytest.mark.slow
def test_mlflow_has_every_evaluation_of_every_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    runs = train("mlflow", tmp_path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("handful")
    kept = {one.info.run_name: one for one in client.search_runs([experiment.experiment_id])}
    assert set(kept) == {"seed-1", "seed-2"}
    for run in runs:
        one = kept[f"seed-{run.seed}"]
        assert one.info.status == "FINISHED"
        assert one.data.params["sampler"] == "rns"
        told = client.get_metric_history(one.info.run_id, "val")
        assert [(metric.step, metric.value) for metric in told] == [
            (line["epoch"], pytest.approx(line["val"])) for line in run.history
        ]
        assert math.isclose(one.data.metrics["best_test"], run.test)


def break_off_and_resume(name: str, out: Path) -> Run:
    """A run that is broken off after its third epoch, and a second process that goes on with it."""
    graph = make_graph(120)
    for broken in (True, False):
        tracker = make_tracker(name, out / name)
        callbacks = [tracker, BreakOff(4)] if broken else [tracker]
        with pytest.raises(KeyboardInterrupt) if broken else nullcontext():
            run = fit(
                small_sage(graph), graph, RandomNodes(2), epochs=6, seed=1, callbacks=callbacks, checkpoint_seconds=0.0,
                out=out / "seed-1", resume=True,
            )  # fmt: skip
        if broken:
            tracker.close()  # as the tracker's own handler does when its process ends
    return run


@needs("wandb")
@pytest.mark.slow
def test_wandb_goes_on_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_SILENT", "true")
    break_off_and_resume("wandb", tmp_path)
    run_id = (tmp_path / "wandb" / "seed-1.id").read_text()
    assert {file.name for file in tmp_path.glob("wandb/wandb/offline-run-*/run-*.wandb")} == {f"run-{run_id}.wandb"}


@needs("mlflow")
@pytest.mark.slow
def test_mlflow_goes_on_with_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = break_off_and_resume("mlflow", tmp_path)
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow' / 'mlflow.db'}")
    (kept,) = client.search_runs([client.get_experiment_by_name("handful").experiment_id])
    assert kept.info.status == "FINISHED"
    told = {metric.step: metric.value for metric in client.get_metric_history(kept.info.run_id, "val")}
    assert told == {line["epoch"]: pytest.approx(line["val"]) for line in run.history}
    assert len(told) == 6


@pytest.mark.parametrize("name", TRACKERS)
def test_one_that_is_not_installed_is_said_with_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TRACKERS[name], "module", f"{name}_that_nobody_installed")
    with pytest.raises(HandfulError, match=rf"pip install 'handful\[{name}\]'"):
        make_tracker(name, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in TRACKERS if importlib.util.find_spec(name) is None])
def test_one_that_is_really_absent_is_an_error_too(name: str, tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match="is not installed"):
        make_tracker(name, tmp_path)


def test_a_name_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match="did you mean tensorboard"):
        make_tracker("tensorbord", tmp_path)
