"""``handful train`` as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.run import handful
from graphs import make_graph
from handful import __version__, open_run
from handful.report.page import read_findings
from npz import arrays_of, write_npz

SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 3, "--lr", 0.01)


def test_json_has_what_the_documentation_says(npz: Path, tmp_path: Path) -> None:
    result = handful("train", npz, *SMALL, "--parts", 2, "--seeds", "1,2", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    summary = result.json
    assert (summary["graph"], summary["metric"], summary["sampler"]) == ("my", "accuracy", "rns(parts=2)")
    assert set(summary["val"]) == set(summary["test"]) == {"mean", "ci95"}
    assert summary["seconds"]["mean"] > 0
    assert summary["peak_memory_bytes"]["ram"] > 1e6
    assert summary["peak_memory_bytes"]["gpu"] is None
    assert set(summary) == {
        "graph",
        "metric",
        "model",
        "sampler",
        "val",
        "test",
        "seconds",
        "prepare_seconds",
        "epoch_seconds",
        "peak_memory_bytes",
        "assessment",
        "baselines",
        "runs",
    }
    first = summary["runs"][0]
    expected = {"seed", "best_epoch", "epochs", "steps", "val", "test", "seconds", "peak_ram_bytes", "dir"}
    assert expected <= set(first)
    assert (first["seed"], first["epochs"], first["steps"]) == (1, 3, 6)
    assert (Path(first["dir"]) / "result.json").exists()


def test_the_table_for_people_and_a_second_run_that_only_reads(npz: Path, tmp_path: Path) -> None:
    args = ("train", npz, *SMALL, "--sampler", "full", "--seeds", "1", "--out", tmp_path / "run")
    first = handful(*args)
    for line in (f"handful predict {tmp_path / 'run'} --out predictions.csv", f"handful compare {npz}"):
        assert line in first.stdout
    again = handful(*args)
    assert again.code == 2
    assert str(tmp_path / "run") in again.stderr
    assert handful(*args, "--resume").stdout == first.stdout


def test_what_is_written(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = handful("train", npz, *SMALL, "--seeds", "1,2", "--out", out, "--json")
    assert json.loads((out / "train.json").read_text()) == result.json
    assert {"report.html", "finding.json", "table.md", "curves.svg"} <= {path.name for path in out.iterdir()}
    (found,), unreadable = read_findings(out)
    assert not unreadable
    assert [row[0].text for row in found.below[-1].rows] == ["1", "2"]
    assert found.facts["seeds"] == "1, 2"
    assert found.environment["handful"] == __version__
    opened = open_run(out)
    assert [run.test for run in opened.results] == [run["test"] for run in result.json["runs"]]
    curve = found.charts[-1].views[1].series[0]
    expected = np.mean([[100 * line["val"] for line in run.history] for run in opened.results], axis=0)
    assert curve.x == [1, 2, 3]
    assert curve.y == pytest.approx(expected.tolist())


def test_how_to_train_is_kept(npz: Path, tmp_path: Path) -> None:
    options = ("--scheduler", "cosine", "--clip", 1, "--class-weight", "balanced", "--optimizer", "sgdm")
    more = ("--momentum", 0.5, "--model-option", "heads=2", "--heads", 2, "--model", "gat", "--update", "epoch")
    result = handful("train", npz, *SMALL, *options, *more, "--seeds", "1", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    for folder in (tmp_path / "run", tmp_path / "run" / "seed-1"):
        config = json.loads((folder / "config.json").read_text())
        how = config["settings"]
        assert (how["scheduler"], how["clip"], how["class_weight"]) == ("cosine", 1.0, "balanced")
        assert (how["optimizer"], how["momentum"], how["update"], how["lr"]) == ("sgdm", 0.5, "epoch", 0.01)
        assert (config["model"], config["options"]["heads"], config["options"]["hidden"]) == ("gat", 2, 8)
    assert result.json["runs"][0]["steps"] == 3  # one per epoch
    plain = handful("train", npz, *SMALL, "--seeds", "1", "--out", tmp_path / "plain", "--json")
    losses = [open_run(tmp_path / name).history[-1]["loss"] for name in ("run", "plain")]
    assert losses[0] != losses[1]
    assert plain.json["runs"][0]["steps"] == 12


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--scheduler", "cosin", "scheduler"),
        ("--class-weight", "even", "class_weight"),
        ("--update", "steps", "update"),
        ("--precision", "fp16", "precision"),
        ("--evaluation", "exakt", "evaluation"),
        ("--norm", "bm", "norm"),
        ("--clip", "0", "clip"),
        ("--lr", "nan", "lr"),
        ("--seeds", "1,1", "seeds"),
        ("--set", "hiden=3", "hidden"),
        ("--tracker", "tensorbored", "tensorboard"),
    ],
)
def test_a_wrong_name_or_number_is_one_line_and_leaves_nothing(
    npz: Path, tmp_path: Path, option: str, value: str, words: str
) -> None:
    result = handful("train", npz, "--out", tmp_path / "run", option, value)
    assert (result.code, result.stdout) == (2, "")
    (line,) = result.stderr.strip().splitlines()
    assert words in line
    assert not (tmp_path / "run").exists()


# -- resuming ---------------------------------------------------------------------------------------------------------

GIVEN = (*SMALL, "--dropout", 0.5, "--seeds", "1", "--json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    """A graph in a file, what was trained on it, and what that came to."""
    place = tmp_path_factory.mktemp("trained")
    graph = write_npz(place / "my.npz", make_graph(200))
    result = handful("train", graph, *GIVEN, "--out", place / "run")
    assert result.code == 0, result.stderr
    return graph, place / "run", result.json


def refused(graph: Path, out: Path, *args: object) -> str:
    """What ``--resume`` is answered with, in one line; the folder is left as it was."""
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and "lock" not in path.name}
    result = handful("train", graph, *GIVEN, *args, "--resume", "--out", out)
    assert (result.code, result.stdout) == (2, "")
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert all(path.read_bytes() == text for path, text in before.items())
    return line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--dropout", 0.3), "dropout was 0.5 and is now 0.3"),
        (("--norm", "ln"), "norm was bn and is now ln"),
        (("--optimizer", "sgd"), "optimizer was adam and is now sgd"),
        (("--scheduler", "linear"), "scheduler was constant and is now linear"),
        (("--class-weight", "balanced"), "class_weight was none and is now balanced"),
        (("--clip", 2), "clip was None and is now 2.0"),
        (("--epochs", 4), "epochs was 3 and is now 4"),
        (("--hidden", 9), "hidden was 8 and is now 9"),
        (("--split", "rl"), "split was None and is now rl"),
        (("--seeds", "1,2"), r"seeds was [1] and is now [1, 2]"),
        (("--parts", 3), "parts was 4 and is now 3"),
        (("--sampler", "full"), "sampler was rns and is now full"),
        (("--model", "gcn"), "model was sage and is now gcn"),
        (("--device", "cpu,cpu"), "device was cpu and is now cpu,cpu"),
    ],
)
def test_another_experiment_is_refused_by_the_name_of_what_differs(
    trained: tuple[Path, Path, dict[str, Any]], change: tuple[object, ...], words: str
) -> None:
    graph, out, _ = trained
    assert words in refused(graph, out, *change)


def other_data(kind: str) -> dict[str, np.ndarray]:
    """Arrays of the graph with one thing in them changed."""
    graph = make_graph(200)
    known = arrays_of(graph)
    if kind == "features":
        known["x"][7, 3] += 1
    elif kind == "labels":
        known["y"][7] = (known["y"][7] + 1) % 4
    elif kind == "weights":
        known["edge_weight"] = np.ones(graph.num_edges, np.float32)
    elif kind == "split nodes":
        one, other = (np.flatnonzero(known[f"{part}_mask"])[0] for part in ("train", "val"))
        for part in ("train", "val"):
            known[f"{part}_mask"][[one, other]] = known[f"{part}_mask"][[other, one]]
    elif kind == "topology":
        known["edge_index"] = known["edge_index"][:, 1:]
    return known


@pytest.mark.parametrize("kind", ["features", "labels", "weights", "split nodes", "topology"])
def test_other_data_in_the_same_file_are_refused(trained: tuple[Path, Path, dict[str, Any]], kind: str) -> None:
    graph, out, _ = trained
    try:
        np.savez(graph, **other_data(kind))
        assert f"cannot be resumed: {kind} was " in refused(graph, out)
    finally:
        write_npz(graph, make_graph(200))


def test_the_same_is_resumed_and_comes_to_the_same(trained: tuple[Path, Path, dict[str, Any]], tmp_path: Path) -> None:
    graph, out, told = trained
    again = handful("train", graph, *GIVEN, "--resume", "--out", out)
    assert again.code == 0, again.stderr
    assert again.json == told
    anew = handful("train", graph, *GIVEN, "--resume", "--out", tmp_path / "anew")
    assert [anew.json[name] for name in ("val", "test")] == [told[name] for name in ("val", "test")]


# -- mistakes ---------------------------------------------------------------------------------------------------------


def test_sampler_options_by_name(npz: Path, tmp_path: Path) -> None:
    args = ("train", npz, *SMALL, "--seeds", "1", "--json", "--sampler", "neighbor", "-s", "fanout=3,2", "-s")
    result = handful(*args, "batch_size=50", "--out", tmp_path / "run")
    assert result.json["sampler"] == "neighbor(fanout=(3, 2), batch_size=50)"


def spoil(arrays: dict[str, np.ndarray], key: str) -> None:
    if key == "outside":
        arrays["edge_index"][0, 5] = 10_000
    elif key == "negative":
        arrays["edge_index"][1, 7] = -1
    elif key == "ragged":
        arrays["x"] = arrays["x"][:-1]
    elif key == "nan":
        arrays["x"][3, 2] = np.nan
    elif key == "label":
        arrays["y"][4] = -5
    elif key == "overlap":
        arrays["val_mask"] = arrays["val_mask"] | arrays["train_mask"]
    elif key == "no training":
        arrays["train_mask"] = np.zeros_like(arrays["train_mask"])
    elif key == "no edges":
        del arrays["edge_index"]
    elif key == "no labels":
        del arrays["y"]
    elif key == "pickle":
        arrays["x"] = np.array([{"a": 1}], object)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("outside", "source 10000"),
        ("negative", "target -1"),
        ("ragged", "199"),
        ("nan", r"x\[3, 2\]"),
        ("label", r"y\[4\] is -5"),
        ("overlap", "train_mask and val_mask overlap"),
        ("no training", "train_mask is empty"),
        ("no edges", "edge_index"),
        ("no labels", "y"),
        ("pickle", "x"),
    ],
)
def test_each_kind_of_broken_npz_is_one_line_and_exit_2(tmp_path: Path, key: str, words: str) -> None:
    arrays = arrays_of(make_graph(200))
    spoil(arrays, key)
    np.savez(tmp_path / "bad.npz", **arrays)
    result = handful("train", tmp_path / "bad.npz", *SMALL, "--seeds", "1", "--out", tmp_path / "run")
    assert result.code == 2
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert re.search(words, lines[0]), lines[0]
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("debian", "--sampler", "rsn"), "rns"),
        (("debian", "-s", "prats=3"), "parts"),
        (("debian", "--model", "sgae"), "sage"),
        (("debian", "--resume"), "--out"),
        (("debian", "--split", "rj"), "rh"),
    ],
)
def test_a_mistake_is_answered_with_what_is_right(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = handful("train", *args, *SMALL, *(() if "--resume" in args else ("--out", tmp_path / "run")))
    assert result.code == 2
    assert words in result.stderr


def test_help_names_every_option() -> None:
    result = handful("train", "--help")
    assert result.code == 0
    for option in ("--sampler", "--parts", "--set", "--resume", "--json"):
        assert option in result.stdout


# -- labels of every kind ---------------------------------------------------------------------------------------------


def without_split(path: Path, **labels: np.ndarray) -> Path:
    known = {name: array for name, array in arrays_of(make_graph(200)).items() if not name.endswith("_mask")}
    np.savez(path, **{**known, **labels})
    return path


def test_a_graph_without_a_split_gets_one_and_it_is_recorded(tmp_path: Path) -> None:
    graph = without_split(tmp_path / "my.npz")
    result = handful("train", graph, *SMALL, "--seeds", "1,2", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    assert "has no split: each seed draws stratified:60/20/20" in " ".join(result.stderr.split())
    opened = open_run(tmp_path / "run")
    assert opened.experiment.split == "stratified:60/20/20"
    drawn = opened.experiment.load(1)
    assert int(drawn.train_mask.sum()) == 120
    again = handful("train", graph, *SMALL, "--seeds", "1,2", "--out", tmp_path / "run", "--json", "--resume")
    assert again.json == result.json
    named = handful("train", graph, *SMALL, "--seeds", "1", "--split", "random:50/25/25", "--out", tmp_path / "other")
    assert "has no split" not in named.stderr


def test_numbers_are_predicted(tmp_path: Path) -> None:
    x = arrays_of(make_graph(200))["x"]
    graph = without_split(tmp_path / "my.npz", y=50 + 9 * x[:, 0])
    result = handful(
        "train", graph, *SMALL, "--epochs", 8, "--seeds", "1", "--metric", "mae", "--out", tmp_path / "run"
    )
    assert result.code == 0, result.stderr
    assert "regression" in result.stderr
    (finding,) = read_findings(tmp_path / "run")[0]
    assert [chart.name for chart in finding.charts] == ["added", "predicted", "curves"]
    numbers = json.loads((tmp_path / "run" / f"{finding.name}.json").read_text())
    assert numbers["metric"] == "mae"
    assert numbers["test"]["mean"] > 0


def test_several_labels_are_predicted(tmp_path: Path) -> None:
    x = arrays_of(make_graph(200))["x"]
    graph = without_split(tmp_path / "my.npz", y=(x[:, :3] > 0).astype(np.int8), class_names=np.array(list("abc")))
    result = handful("train", graph, *SMALL, "--seeds", "1", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    assert result.json["metric"] == "roc_auc"
    assert [one["name"] for one in result.json["assessment"]["classes"]] == ["a", "b", "c"]


def test_the_rarer_of_two_classes_is_looked_for_unless_another_is_named(tmp_path: Path) -> None:
    y = (np.random.default_rng(0).random(200) > 0.2).astype(int)
    graph = without_split(tmp_path / "my.npz", y=y, class_names=np.array(["fraud", "ok"]))
    told = {}
    for name, more in {"fraud": (), "ok": ("--positive", "ok")}.items():
        args = ("--seeds", "1", "--metric", "average_precision", "--class-weight", "balanced", "--threshold", "f1")
        result = handful("train", graph, *SMALL, *args, *more, "--out", tmp_path / name, "--json")
        assert result.code == 0, result.stderr
        told[name] = result.json
        assert told[name]["assessment"]["positive"] == name
        decision = open_run(tmp_path / name).decision
        assert decision.threshold == told[name]["assessment"]["threshold"] != 0.5
        assert decision.scale != 1.0  # the calibration is saved, too
    assert told["ok"]["test"]["mean"] > 0.6 > told["fraud"]["test"]["mean"]
    wrong = handful("train", graph, *SMALL, "--positive", "frod", "--out", tmp_path / "wrong")
    assert wrong.code == 2
    assert "frod" in wrong.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("-s", "parts=abc"), "parts must be a whole number, got 'abc'"),
        (("-s", "parts=2,4"), r"parts must be a whole number, got \(2, 4\)"),
        (("-s", "parts=2", "-s", "parts=4"), "option parts is given twice"),
        (("-s", "stratify=7"), "stratify must be true or false, got 7"),
        (("-s", "fraction=x"), "fraction must be a finite number, got 'x'"),
        (("-s", f"parts={'9' * 5000}"), "parts must be a whole number, got '999"),
        (("--parts", "2,4"), r"parts must be a whole number, got \(2, 4\)"),
        (("--weight-decay", "nan"), "weight_decay must be a finite number, got nan"),
        (("--lr", "1e999"), "lr must be a finite number, got inf"),
        (("--device", "meta"), "device 'meta' cannot be used here"),
        (("--device", "nonsense"), "device 'nonsense' cannot be used here"),
        (("--seeds", "99999999999999999999"), "seeds takes whole numbers from 0 on"),
        (("--seeds", "-1"), "seeds takes whole numbers from 0 on"),
        (("--layers", "1000000000"), "layers .*1,000"),
        (("--hidden", "1048576", "--layers", "4"), "a model with .* parameters and their gradients takes .* GiB"),
        (("--hidden", str(2**70)), "hidden must be a whole number, got 11805916"),
        (("--split", "random:nan/20/20"), "shares of a split must not be negative"),
        (("--threads", "99999"), "--threads 99999 is too many for this machine"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_values_that_nothing_can_take_are_one_line(
    npz: Path, tmp_path: Path, given: tuple[str, ...], message: str
) -> None:
    result = handful("train", npz, *SMALL, "--seeds", 1, *given, "--out", tmp_path / "run")
    assert result.code == 2
    assert "Traceback" not in result.stderr
    assert re.search(message, " ".join(result.stderr.split()).replace("│ ", "")), result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("synthetic?classes=0", "classes"),
        ("synthetic?nodes=2000000000", "takes .* of memory"),
        ("synthetic?nodes=1e300", "option nodes must be a whole number"),
        ("synthetic?seed=nan", "option seed must be a whole number"),
        ("~nobody-of-this-name/graph.npz", "there is no data set or file"),
        ("x" * 5000, "there is no data set or file"),
        ("/dev/zero", "neither a file nor a folder"),
    ],
    ids=lambda text: text[:30],
)
def test_names_of_no_graph_are_one_line(tmp_path: Path, graph: str, message: str) -> None:
    result = handful("train", graph, *SMALL, "--out", tmp_path / "run")
    assert result.code == 2
    assert "Traceback" not in result.stderr
    assert re.search(message, " ".join(result.stderr.split())), result.stderr


def test_the_graph_may_stay_on_the_host(npz: Path, tmp_path: Path) -> None:
    """The same numbers, and a run folder that says nothing of it."""
    runs = []
    for where in ("device", "host"):
        args = ("--parts", 2, "--seeds", "1", "--out", tmp_path / where, "--graph-on", where, "--json")
        result = handful("train", npz, *SMALL, *args)
        assert result.code == 0, result.stderr
        config = json.loads((tmp_path / where / "config.json").read_text())
        runs.append((result.json["test"], result.json["val"], {k: v for k, v in config.items() if k != "crc32"}))
    assert runs[0] == runs[1]
    wrong = handful("train", npz, *SMALL, "--graph-on", "gpu")
    assert wrong.code == 2
    assert "gpu" in wrong.stderr


def test_steps_of_several_parts(npz: Path, tmp_path: Path) -> None:
    result = handful(
        "train", npz, *SMALL, "--parts", 4, "--parts-per-step", 3, "--seeds", 1, "--out", tmp_path / "run", "--json"
    )
    assert result.code == 0, result.stderr
    assert result.json["runs"][0]["steps"] == 6
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["parts_per_step"] == 3


def test_m_is_not_chosen_by_several_processes(npz: Path, tmp_path: Path) -> None:
    result = handful("train", npz, *SMALL, "--parts", "auto", "--processes", 2, "--out", tmp_path / "run")
    assert (result.code, "`handful parts`" in result.stderr) == (2, True)


def test_only_training_runs_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    result = handful("datasets")
    assert (result.code, "torchrun" in result.stderr) == (2, True)


def test_restarts_need_a_folder(npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    result = handful("train", npz, *SMALL)
    assert (result.code, "--out" in result.stderr) == (2, True)


def test_parts_by_the_plan(tmp_path: Path) -> None:
    """The smallest m that fits into the budget, trained within it; and a budget that holds nothing."""
    graph = "synthetic?nodes=4000&degree=6&features=8&classes=3&train=0.2"
    words = ("train", graph, "--hidden", "64", "--layers", "2", "--norm", "ln", "--epochs", "1", "--seeds", "1")
    result = handful(*words, "--parts", "auto", "--memory", "2GiB", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    assert "m = 1" in result.stderr
    assert result.json["sampler"] == "rns(parts=1)"
    result = handful(*words, "--parts", "auto", "--memory", "1MiB", "--out", tmp_path / "small")
    assert result.code == 2
    assert "1.0 MiB" in result.stderr
    result = handful(*words, "--sampler", "full", "--parts", "auto", "--memory", "1GiB", "--out", tmp_path / "full")
    assert result.code == 2
    assert "rns" in result.stderr
