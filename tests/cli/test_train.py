"""``handful train`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.run import handful
from graphs import make_graph

SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 3, "--lr", 0.01)


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    graph = make_graph(200)
    named = {name: getattr(graph, name).numpy() for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    return {"edge_index": graph.edge_index.numpy(), **named}


@pytest.fixture
def npz(arrays: dict[str, np.ndarray], tmp_path: Path) -> Path:
    np.savez(tmp_path / "my.npz", **arrays)
    return tmp_path / "my.npz"


def test_json_has_what_the_documentation_says(npz: Path, tmp_path: Path) -> None:
    result = handful("train", npz, *SMALL, "--parts", 2, "--seeds", "1,2", "--out", tmp_path / "run", "--json")
    assert result.code == 0, result.stderr
    summary = result.json
    assert (summary["graph"], summary["metric"], summary["sampler"]) == ("my", "accuracy", "rns(parts=2)")
    assert set(summary["val"]) == set(summary["test"]) == {"mean", "ci95"}
    assert summary["seconds"]["mean"] > 0
    assert summary["peak_memory_bytes"]["ram"] > 1e6
    assert summary["peak_memory_bytes"]["gpu"] is None
    first = summary["runs"][0]
    expected = {"seed", "best_epoch", "epochs", "steps", "val", "test", "seconds", "peak_ram_bytes", "dir"}
    assert expected <= set(first)
    assert (first["seed"], first["epochs"], first["steps"]) == (1, 3, 6)
    assert (Path(first["dir"]) / "result.json").exists()


def test_the_table_for_people_and_a_second_run_that_only_reads(npz: Path, tmp_path: Path) -> None:
    args = ("train", npz, *SMALL, "--sampler", "full", "--seeds", "1", "--out", tmp_path / "run")
    first = handful(*args)
    assert "test accuracy" in first.stdout
    again = handful(*args)
    assert again.code == 2
    assert "already holds a run" in again.stderr
    assert handful(*args, "--resume").stdout == first.stdout


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
        ("negative", "negative"),
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
def test_each_kind_of_broken_npz_is_one_line_and_exit_2(
    arrays: dict[str, np.ndarray], tmp_path: Path, key: str, words: str
) -> None:
    import re

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
        (("debain",), "did you mean debian"),
        (("debian", "--sampler", "rsn"), "did you mean rns"),
        (("debian", "-s", "prats=3"), "did you mean parts"),
        (("debian", "--model", "sgae"), "did you mean sage"),
        (("debian", "--seeds", "a,b"), "--seeds takes whole numbers"),
        (("debian", "--resume"), "--resume needs --out"),
        (("debian", "--split", "rj"), "did you mean r"),
    ],
)
def test_a_mistake_is_answered_with_what_is_right(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = handful("train", *args, *SMALL, *(() if "--resume" in args else ("--out", tmp_path / "run")))
    assert result.code == 2
    assert words in result.stderr


def test_help_names_every_option() -> None:
    result = handful("train", "--help")
    assert result.code == 0
    for option in ("--sampler", "--parts", "--precision", "--resume", "--json"):
        assert option in result.stdout
