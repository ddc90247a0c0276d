"""``handful tune`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.run import handful
from cut import cut_debian


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cut_debian(tmp_path_factory.mktemp("graph") / "cut.npz", 400)


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
    assert "use another --storage or --out" in other.stderr


def test_mistakes(graph: str, tmp_path: Path) -> None:
    for arguments, word in (
        (("--sampling", "rms"), "there is no sampler 'rms'"),
        (("--sampling", "rns partz=2"), "parts"),
        (("--sampling", " "), "--sampling takes a sampler"),
        (("--paper",), "the paper's tables"),
    ):
        result = handful("tune", graph, "--trials", 1, "--out", tmp_path, *arguments)
        assert result.code == 2, arguments
        assert word in result.stderr
