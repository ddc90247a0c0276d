"""Run folders: what they hold, who may write them, and that a broken run ends like an unbroken one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import handful as hf
from graphs import make_graph
from handful.nn import MODELS, model_defaults
from handful.training.record import (
    RunFolder,
    describe,
    differences,
    environment,
    hold,
    load_tensors,
    read_config,
    save_tensors,
    write_config,
)
from small import BreakOff, assert_same_end, full_batch, same_weights, small_sage

SETTINGS = {"epochs": 12, "lr": 0.01, "seed": 3, "checkpoint_seconds": 0.0, "evaluate_every": 2}


def train(out: Path | None, **changes: Any) -> hf.Run:
    """The run that every test here makes."""
    graph = make_graph(150)
    return hf.fit(small_sage(graph, 3, hidden=8), graph, hf.RandomNodes(3), out=out, **{**SETTINGS, **changes})


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
    logits = hf.infer(hf.load_model(tmp_path / "run"), graph)
    assert (logits.argmax(1) == graph.y)[graph.val_mask].double().mean() == run.val
    assert not list((tmp_path / "run").glob(".*.part"))


@pytest.mark.parametrize("optimizer", ["sgd", "sgdm", "adam", "adamw", torch.optim.NAdam, torch.optim.Adagrad])
def test_every_optimizer_resumes(tmp_path: Path, optimizer: Any) -> None:
    train(tmp_path / "whole", optimizer=optimizer)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", optimizer=optimizer, callbacks=[BreakOff(6)])
    train(tmp_path / "broken", resume=True, optimizer=optimizer)
    assert_same_end(RunFolder(tmp_path / "broken"), RunFolder(tmp_path / "whole"))


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


def test_two_processes_never_write_one_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with hold(folder.path), pytest.raises(hf.RunError, match=f"in use by process {os.getpid()}"):
        train(tmp_path / "run")
    train(tmp_path / "run", epochs=2)


def test_a_line_that_a_kill_cut_short_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.append({"epoch": 1, "val": 0.5})
    with folder.metrics.open("a") as file:
        file.write('{"epoch": 2, "va')
    assert folder.lines() == [{"epoch": 1, "val": 0.5}]
    folder.rewind(folder.lines())
    folder.append({"epoch": 2, "val": 0.6})
    assert [line["epoch"] for line in folder.lines()] == [1, 2]


def test_a_broken_checkpoint_gives_one_clear_error(tmp_path: Path) -> None:
    train(tmp_path / "run", epochs=2)
    folder = RunFolder(tmp_path / "run")
    folder.result.unlink()
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:100])
    with pytest.raises(hf.RunError, match=r"checkpoint\.safetensors cannot be read"):
        train(tmp_path / "run", resume=True, epochs=2)


def test_the_time_per_epoch_is_that_of_its_steps(tmp_path: Path) -> None:
    run = train(tmp_path)
    assert run.epoch_seconds == run.train_seconds / 12
    assert hf.Run("accuracy", 0.5, 0.5).epoch_seconds == 0
    assert RunFolder(tmp_path).run() == run


# -- configurations ---------------------------------------------------------------------------------------------------


def test_a_configuration_is_written_once_and_then_compared(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = {"graph": "debian", "options": {"hidden": 8, "parts": (1, 2)}, "lr": float("nan")}
    write_config(path, config)
    assert read_config(path) == {"graph": "debian", "options": {"hidden": 8, "parts": [1, 2]}, "lr": None}
    assert json.loads(path.read_text())["environment"] == environment()
    before = path.stat().st_mtime_ns
    write_config(path, config)
    assert path.stat().st_mtime_ns == before
    with pytest.raises(hf.RunError, match=r"hidden was 8 and is now 9\. Use another folder"):
        write_config(path, {**config, "options": {"hidden": 9, "parts": (1, 2)}})


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": (1, 2)}),
        ({"a": 1}, {"b": 1}, {"a": (1, None), "b": (None, 1)}),
        ({"o": {"x": 1, "y": 2}}, {"o": {"x": 1, "y": 3}}, {"y": (2, 3)}),
        ({"s": {"name": "rns", "parts": 4}}, {"s": {"name": "full"}}, {"s": ("rns", "full")}),
        ({"s": {"name": "rns", "parts": 4}}, {"s": {"name": "rns", "parts": 5}}, {"parts": (4, 5)}),
        ({"o": {"in": {"x": 1}}}, {"o": {"in": {"x": 2}}}, {"x": (1, 2)}),
        ({"own": None}, {"own": {"loss": "f"}}, {"own": (None, {"loss": "f"})}),
    ],
)
def test_differences_have_the_name_and_both_values(was: dict, now: dict, expected: dict) -> None:
    assert differences(was, now) == expected
    assert differences(now, was) == {name: (new, old) for name, (old, new) in expected.items()}


def test_modules_of_others_are_told_apart_by_layers_and_numbers() -> None:
    from torch_geometric.nn import GraphSAGE  # not above: the processes that are killed begin faster

    def sage(**changes: Any) -> dict[str, Any]:
        return describe(GraphSAGE(**{"in_channels": 4, "hidden_channels": 8, "num_layers": 2, **changes}))

    assert sage() == sage()
    for change in ({"hidden_channels": 9}, {"num_layers": 3}, {"dropout": 0.1}, {"act": "elu"}, {"norm": "LayerNorm"}):
        assert sage(**change) != sage(), change
    assert describe(nn.Dropout(0.1)) != describe(nn.Dropout(0.2))


# -- models -----------------------------------------------------------------------------------------------------------

OTHER = {"hidden": 6, "layers": 2, "norm": "ln", "residual": False, "heads": 3, "gnn_layers": 2, "dropout": 0.1}


@pytest.mark.parametrize("options", [{"hidden": 8}, OTHER], ids=["defaults", "others"])
@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_is_made_again(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    graph = make_graph(50)
    options = {key: value for key, value in options.items() if key in model_defaults(name)}
    model = hf.make_model(name, graph.num_features, graph.num_outputs, **options)
    model(full_batch(graph))  # running statistics are part of a model
    hf.save_model(model, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        again = hf.load_model(path)
        assert type(again) is type(model)
        assert again.options == model.options
        assert not again.training
        assert same_weights(again.state_dict(), model.state_dict())
        assert torch.equal(hf.infer(again, graph), hf.infer(model, graph))


def test_weights_alone_do_not_say_how_their_model_is_made(tmp_path: Path) -> None:
    graph = make_graph(50)
    model = small_sage(graph)
    path = tmp_path / "weights.safetensors"
    save_file(model.state_dict(), path)
    with pytest.raises(hf.RunError, match=r"does not say how its model is made: make the model, and use load_weights"):
        hf.load_model(path)
    other = small_sage(graph, seed=1)
    hf.load_weights(other, path)
    assert same_weights(other.state_dict(), model.state_dict())
    with pytest.raises(hf.RunError, match="do not fit this model"):
        hf.load_weights(small_sage(graph, hidden=9), path)


def test_a_network_of_ones_own_is_saved_as_weights(tmp_path: Path) -> None:
    class Wide(hf.SAGE):
        pass

    model = Wide(4, 3, hidden=8, layers=2)
    hf.save_model(model, tmp_path / "model.safetensors")
    with pytest.raises(hf.RunError, match="does not say how its model is made"):
        hf.load_model(tmp_path)
    again = Wide(4, 3, hidden=8, layers=2)
    hf.load_weights(again, tmp_path)
    assert same_weights(again.state_dict(), model.state_dict())


@pytest.mark.parametrize("damage", [b"", b"no tensors", 200, -8, "absent"])
def test_a_damaged_model_gives_one_clear_error(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "model.safetensors"
    hf.save_model(hf.SAGE(4, 3, hidden=8, layers=2), path)
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(damage if isinstance(damage, bytes) else path.read_bytes()[:damage])
    with pytest.raises(hf.RunError, match=r"model\.safetensors cannot be read"):
        hf.load_model(tmp_path)


def test_options_of_another_version_are_said(tmp_path: Path) -> None:
    model = hf.SAGE(4, 3, hidden=8, layers=2)
    state = {"model": "sage", "in_features": 4, "out_features": 3, "options": {"hidden": 8, "layers": 2, "wings": 2}}
    save_tensors(tmp_path / "model.safetensors", model.state_dict(), state)
    with pytest.raises(hf.HandfulError, match="there is no option 'wings'"):
        hf.load_model(tmp_path)


def test_tensors_and_state_come_back(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4).T, "b": torch.arange(5), "c": torch.tensor(1.5)}
    save_tensors(tmp_path / "file", tensors, {"epoch": 3, "name": "ü"})
    back, state = load_tensors(tmp_path / "file")
    assert same_weights(back, tensors)
    assert state == {"epoch": 3, "name": "ü"}
