"""``handful report`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.run import handful
from handful import Experiment
from studies.smoke import trained_here

GRAPH = "synthetic?nodes=200&degree=6&features=8&classes=3"
SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--seeds", "1")


def old_run(folder: Path) -> Path:
    """What handful 0.1 left of a run."""
    folder.mkdir(parents=True)
    config = {"graph": "debian", "sampler": {"name": "rns", "parts": 4}, "settings": {"epochs": 2}, "seed": 1}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text('{"epoch": 1, "val": 0.5}\n')
    return folder


def test_a_folder_without_records_is_told_what_to_give(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        result = handful("report", folder)
        assert (result.code, result.stdout) == (2, "")
        assert str(folder) in result.stderr


def test_one_page_for_all_that_is_recorded(tmp_path: Path) -> None:
    assert handful("train", GRAPH, *SMALL, "--out", tmp_path / "run").code == 0
    asked = Experiment(GRAPH, hidden=8, layers=2, epochs=2, lr=0.01, seeds=(1,))
    trained_here({"rns": asked}, tmp_path / "compared")
    compared = handful("compare", GRAPH, *SMALL, "--samplers", "rns", "--out", tmp_path / "compared")
    assert compared.code == 0, compared.stderr
    asked.with_(seeds=(1, 2)).run(tmp_path / "loose")
    old_run(tmp_path / "old")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "finding.json").write_text('{"format": 1}')
    result = handful("report", tmp_path, "--json")
    assert result.code == 0, result.stderr
    assert result.json == {"path": str(tmp_path / "report.html"), "records": 3, "tables": 6, "charts": 6}
    page = (tmp_path / "report.html").read_text()
    for word in ("broken/finding.json", "old"):
        assert word in page
    people = handful("report", tmp_path, "--out", tmp_path / "other.html")
    assert str(tmp_path / "other.html") in people.stdout
    for place in ("broken/finding.json", "old"):
        assert place in people.stderr
    assert (tmp_path / "other.html").read_text() == page


def test_where_nothing_can_be_read_the_reasons_are_told(tmp_path: Path) -> None:
    old_run(tmp_path / "old")
    result = handful("report", tmp_path)
    assert (result.code, result.stdout) == (2, "")
    assert "old: " in result.stderr


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ({"data": None}, '{"epoch": 1, "val": 0.5}'),
        ({"data": "odd"}, '{"epoch": 1, "val": 0.5}'),
        ({"sampler": "rns"}, '{"epoch": 1, "val": 0.5}'),
        ({"seeds": []}, '{"epoch": 1, "val": 0.5}'),
        ({}, "3"),
    ],
)
def test_one_odd_run_does_not_cost_the_page(tmp_path: Path, config: dict[str, Any], lines: str) -> None:
    experiment = Experiment(GRAPH, hidden=8, layers=2, epochs=2, seeds=(1,))
    experiment.run(tmp_path / "good")
    experiment.run(tmp_path / "odd")
    seed = tmp_path / "odd" / "seed-1"
    (seed / "config.json").write_text(json.dumps(json.loads((seed / "config.json").read_text()) | config))
    (seed / "metrics.jsonl").write_text(lines + "\n")
    result = handful("report", tmp_path, "--json")
    assert result.code == 0, result.stderr
    assert result.json["records"] == 1
    assert "odd: " in result.stderr
