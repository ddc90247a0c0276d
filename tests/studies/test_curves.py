from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies.budget import pair
from handful.studies.curves import SCALE, in_words
from handful.studies.request import Request
from handful.training.record import RunFolder
from studies.smoke import GRAPH, laptop, smoke, trained_here


def test_curves_are_those_of_the_records(tmp_path: Path) -> None:
    trained_here(pair(Request(budget="smoke"), GRAPH, SCALE, evaluate_every=1), tmp_path)
    found = smoke("curves", tmp_path)
    assert set(found.payload) == {"graph", "metric", "curves", "best", "seconds", "failed"}
    assert [line["method"] for line in found.payload["curves"]] == ["full", "rns"]
    for line in found.payload["curves"]:
        history = RunFolder(tmp_path / line["method"] / "seed-42").lines()
        assert line["epoch"] == [1, 2]
        assert line["val"] == pytest.approx([one["val"] for one in history])
        assert line["seconds"] == pytest.approx([one["seconds"] for one in history])
        assert found.payload["best"][line["method"]]["mean"] == pytest.approx(max(line["val"]))
    assert found.payload["failed"] == {}
    (chart,) = found.charts
    assert [view.name for view in chart.views] == ["seconds", "epochs", "loss"]


def test_words() -> None:
    assert "take RNS 1.50 times as long" in in_words({"full": 2.0, "rns": 3.0})
    assert "nothing to compare" in in_words({"rns": 3.0})


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    assert len(laptop("curves", tmp_path).payload["curves"][0]["epoch"]) == 100
