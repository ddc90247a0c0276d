"""The card of a run folder: its front matter is YAML with the metrics of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import handful as hf
from handful.training.card import CARD, write_card
from handful.training.record import read_json

SMALL: dict[str, Any] = {"hidden": 4, "layers": 2, "epochs": 1}


def front_matter(folder: Path) -> dict[str, Any]:
    begin, head, body = (folder / CARD).read_text(encoding="utf-8").split("---\n", 2)
    assert begin == ""
    assert body.lstrip().startswith("# ")
    return dict(yaml.safe_load(head))


def test_experiment_and_seed_have_a_card_with_their_own_metrics(tmp_path: Path) -> None:
    hf.Experiment("synthetic?nodes=200&degree=4&classes=3", **SMALL, seeds=(1, 2)).run(tmp_path / "run")
    for folder, record in ((tmp_path / "run", "summary.json"), (tmp_path / "run" / "seed-2", "result.json")):
        head, test = front_matter(folder), read_json(folder / record)["test"]
        (entry,) = head["model-index"][0]["results"]
        (metric,) = entry["metrics"]
        assert metric["value"] == pytest.approx(test["mean"] if record == "summary.json" else test)
        assert (metric["type"], entry["dataset"]["name"]) == ("accuracy", "synthetic")
        assert head["library_name"] == "handful"


def test_numbers_and_several_labels_have_one_too(tmp_path: Path) -> None:
    graph = hf.load("synthetic?nodes=200&degree=4&classes=3")
    assert graph.y is not None
    several = (graph.y[:, None] == graph.y.new_tensor([0, 1, 2])).float()
    for name, y in {"number": graph.y + 0.5, "several": several}.items():
        hf.fit("sage", graph.replace(y=y), hf.RandomNodes(2), options={"hidden": 4, "layers": 2}, epochs=1,
               out=tmp_path / name)  # fmt: skip
    types = {name: front_matter(tmp_path / name)["tags"][1] for name in ("number", "several")}
    assert types == {"number": "node-regression", "several": "node-classification"}


def test_an_assessment_is_added(tmp_path: Path) -> None:
    hf.Experiment("synthetic?nodes=200&degree=4", **SMALL, seeds=(1,)).run(tmp_path / "run")
    write_card(tmp_path / "run", "It is good.", ["| class |\n|---|\n| a |"])
    text = (tmp_path / "run" / CARD).read_text()
    assert "It is good." in text
    assert "| a |" in text
