from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handful.cli import main
from handful.datasets.registry import sources
from handful.datasets.synthetic import BlockModel, generate


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["handful", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def write_graph(path: Path) -> str:
    """A triangle, a pair and a node alone."""
    edges = np.array([[0, 1, 2, 3], [1, 2, 0, 4]])
    both = np.concatenate([edges, edges[::-1]], axis=1)
    np.savez(path, edge_index=both, x=np.eye(6, dtype=np.float32), y=np.array([0, 0, 1, 1, 1, 0]))
    return str(path)


def test_info_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "info", write_graph(tmp_path / "small.npz"), "--split", "rh", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "graph": "small",
        "nodes": 6,
        "edges": 8,
        "density": pytest.approx(8 / 30),
        "average_degree": pytest.approx(8 / 6),
        "isolated": 1,
        "components": 3,
        "homophily": pytest.approx(0.5),
        "diameter": 1,
        "average_distance": 1.0,
        "classes": 2,
        "features": 6,
        "split": {"train": 3, "val": 2, "test": 1},
        "undirected": True,
        "metric": "accuracy",
    }


def test_info_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "bare.npz", edge_index=np.array([[0, 1], [1, 2]]), num_nodes=3)
    assert run(monkeypatch, "info", str(tmp_path / "bare.npz")) == 0
    text = capsys.readouterr().out
    for part in ("bare, directed", "at least 2", "no split", "edge homophily"):
        assert part in text


def test_info_of_debian(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "info", "debian", "--split", "rl", "--sources", "4", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["edges"], found["classes"], found["features"]) == (63_436, 590_600, 58, 128)
    assert (found["isolated"], found["components"]) == (3_060, 3_320)
    assert found["homophily"] == pytest.approx(0.467, abs=0.001)
    assert found["split"] == {"train": 6_344, "val": 6_344, "test": 50_748}
    assert 3 < found["average_distance"] < 4.5


def test_info_of_what_does_not_exist(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "info", "debain", "--json") == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "did you mean debian" in streams.err


def test_datasets_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "datasets", "--root", str(tmp_path), "--check", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["home"] == str(tmp_path)
    assert len(found["datasets"]) == len(sources())
    on_disk = {data["name"]: data["on_disk"] for data in found["datasets"]}
    assert on_disk["debian"] is True
    assert on_disk["ogbn-arxiv"] is False
    arxiv = found["check"]["rows"][0]
    assert (arxiv["name"], arxiv["measured"]) == ("ogbn-arxiv", False)
    assert arxiv["columns"][0] == {
        "column": "nodes", "paper": "169K", "measured": 169_343, "agrees": True, "note": ""
    }  # fmt: skip
    assert len(found["check"]["paper"]) >= 9


def test_check_measures_what_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A graph of the size of tolokers-2 in its place: the counts agree with the paper, the homophily cannot."""
    model = BlockModel(nodes=11_758, degree=89, classes=2, homophily=0.5, features=0)
    here = replace(sources()["tolokers-2"], load=lambda request: generate(model), on_disk=lambda home: True)
    monkeypatch.setitem(sources(), "tolokers-2", here)
    assert run(monkeypatch, "datasets", "--root", str(tmp_path), "--check", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["check"]["rows"]}
    assert [name for name, row in rows.items() if row["measured"]] == ["tolokers-2"]
    agrees = {item["column"]: item["agrees"] for item in rows["tolokers-2"]["columns"]}
    assert len(agrees) == 9
    assert (agrees["nodes"], agrees["isolated"], agrees["components"]) == (True, True, True)
    assert (agrees["edges"], agrees["homophily"]) == (False, False)


def test_datasets_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "datasets", "--root", str(tmp_path), "--check") == 0
    text = capsys.readouterr().out
    for part in ("ogbn-papers100M", "63.4K", "artnet-exp", "against the caption"):
        assert part in text
