"""``handful tune`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from cli.run import handful
from cut import cut_debian
from graphs import make_graph
from handful.datasets.prepared import prepared
from handful.graph import MASKS
from handful.studies import presets


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cut_debian(tmp_path_factory.mktemp("graph") / "cut.npz", 400)


@pytest.mark.slow
def test_searches_then_trains_the_best_over_the_seeds(graph: str, tmp_path: Path) -> None:
    small = ("--hidden", 8, "--layers", 2, "--epochs", 1, "--trials", 2, "--seeds", "1,2", "--out", tmp_path)
    spaces = ("--sampling", "rns parts=2", "--sampling", "rns parts=4")
    searched = handful("tune", graph, *small, *spaces, "--no-final")
    assert searched.code == 0, searched.stderr
    assert "rns(parts=4)" in searched.stdout
    assert (tmp_path / "tune.db").exists()
    result = handful("tune", graph, *small, *spaces, "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert [(row["options"]["parts"], row["trials"]) for row in found["searches"]] == [(2, 2), (4, 2)]
    (best,) = found["final"]
    assert best["options"] == max(found["searches"], key=lambda row: row["val"])["options"]
    assert best["test"]["ci95"] >= 0
    assert len(list((tmp_path / "final" / "rns").glob("seed-*"))) == 2
    other = handful("tune", graph, *small, *spaces, "--epochs", 2)
    assert other.code == 2
    assert "epochs 1, not 2" in other.stderr


def test_mistakes(graph: str, tmp_path: Path) -> None:
    for arguments, word in (
        (("--sampling", "rms"), "rms"),
        (("--sampling", "rns partz=2"), "parts"),
        (("--sampling", " "), "--sampling"),
        (("--paper",), "paper"),
        (("--paper", "--hidden", 8), "--hidden"),
        (("--paper", "--model", "gcn"), "paper's tables"),
        (("--paper", "--layers", 2), "--layers"),
    ):
        result = handful("tune", graph, "--trials", 1, "--out", tmp_path, *arguments)
        assert result.code == 2, arguments
        assert word in result.stderr


@pytest.mark.slow
def test_with_the_paper_s_architecture_and_epochs(tmp_path: Path) -> None:
    """A small graph in the place of ogbn-arxiv."""
    small = make_graph(200)
    masks = {name: getattr(small, name) for name in MASKS}
    bare = small.replace(**dict.fromkeys(MASKS), name="ogbn-arxiv")
    prepared(tmp_path / "home" / "ogbn-arxiv", lambda: (bare, {"official": masks}), "official")
    few = ("--paper", "--root", tmp_path / "home", "--trials", 1, "--seeds", "1", "--no-final", "--out", tmp_path)
    result = handful("tune", "ogbn-arxiv", *few, "--sampling", "neighbor fanout=3,3", "--json")
    assert result.code == 0, result.stderr
    (study,) = optuna.get_all_study_summaries(f"sqlite:///{tmp_path / 'tune.db'}")
    kept, preset = study.user_attrs["experiment"], presets.sampling("ogbn-arxiv", "neighbor")
    assert kept["options"] == preset.options
    how = kept["settings"]
    assert (how["epochs"], how["evaluation"], how["evaluate_every"]) == (20, "sampled", 1)
    assert kept["sampler"]["fanout"] == [3, 3]
    result = handful("tune", "ogbn-arxiv", *few, "--model", "gcn", "--epochs", 1, "--json")
    assert result.code == 0, result.stderr
    (search,) = result.json["searches"]
    assert search["options"]["parts"] == presets.tuned("ogbn-arxiv", "gcn", "rns").sampler.options()["parts"]
