"""``handful parts`` and ``handful train --parts auto``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.run import handful
from cut import cut_debian

SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 2)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    return cut_debian(tmp_path_factory.mktemp("graph") / "cut.npz", 400)


@pytest.mark.slow
def test_the_curve_and_the_recommendation(graph: str, tmp_path: Path) -> None:
    args = ("parts", graph, *SMALL, "--seeds", "1,2", "--most", 2, "--out", tmp_path / "runs")
    result = handful(*args, "--json")
    assert result.code == 0, result.stderr
    assert set(result.json) == {"recommended", "curve"}
    curve = result.json["curve"]
    assert [point["m"] for point in curve] == [1, 2]
    assert result.json["recommended"] in (1, 2)
    for point in curve:
        assert 0 <= point["val"]["mean"] <= 1
        assert point["val"]["ci95"] >= 0
        assert point["seconds"] > 0
    again = handful(*args)
    assert again.code == 0
    assert f"m = {result.json['recommended']}" in again.stdout


def test_mistakes(graph: str, tmp_path: Path) -> None:
    one = handful("parts", graph, *SMALL, "--seeds", "1", "--out", tmp_path)
    assert one.code == 2
    assert "seeds" in one.stderr
    full = handful("train", graph, *SMALL, "--sampler", "full", "--parts", "auto", "--out", tmp_path / "a")
    assert full.code == 2
    assert "rns" in full.stderr
    word = handful("train", graph, *SMALL, "--parts", "many", "--out", tmp_path / "b")
    assert word.code == 2
    assert "parts" in word.stderr


@pytest.mark.slow
def test_train_takes_the_number_of_parts_that_was_found(graph: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = handful("train", graph, *SMALL, "--parts", "auto", "--seeds", "1,2", "--out", out, "--json")
    assert result.code == 0, result.stderr
    tried = {int(path.name.removeprefix("m-")) for path in (out / "parts").iterdir()}
    assert {1, 2} <= tried
    m = int(result.json["sampler"].split("parts=")[1].split(")")[0].split(",")[0])
    assert m in tried
    assert f"m = {m}" in result.stderr
