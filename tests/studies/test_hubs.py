from __future__ import annotations

from pathlib import Path

import pytest

from handful import Experiment
from handful.studies.hubs import BESIDE, VALUES, label
from studies.smoke import laptop, smoke


def test_every_share_of_hubs_has_a_row(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("hubs", tmp_path)
    rows = found.payload["rows"]
    assert [row["name"] for row in rows] == list(untrained)
    assert [job.sampler.options()["hubs"] for job in list(untrained.values())[:3]] == list(VALUES["smoke"])
    assert list(untrained)[3:] == list(BESIDE)
    none, share, _, full, _ = rows
    assert (none["hubs"], share["hubs"]) == (0, 15)
    assert none["edges"] < share["edges"]
    assert full["R"]["mean"] == pytest.approx(0, abs=1e-9)
    assert [row[0].text for row in found.tables[0].rows] == [row["label"] for row in rows]
    test, *_ = found.charts[0].views
    assert test.series[0].y == pytest.approx([50, 51, 52])
    assert len(test.series) == 1 + len(BESIDE)


def test_a_choice_of_hubs_as_people_read_it() -> None:
    assert label(None, 0.0) == "none"
    assert label(0.05, 0.05) == "largest 5%"
    assert label("drawn=0.1", 0.1) == "drawn 10%"
    assert label("auto", 0.03) == "auto (3%)"


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in laptop("hubs", tmp_path).payload["rows"]}
    assert rows["hubs-0.05"]["test"]["mean"] > rows["hubs-none"]["test"]["mean"] + 0.015
    assert rows["hubs-0.05"]["R"]["mean"] < rows["hubs-none"]["R"]["mean"] / 3
