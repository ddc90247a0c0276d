from __future__ import annotations

from pathlib import Path

import pytest

from handful import Experiment
from handful.studies.mean_field import EVERY_M, VALUES, settings_of
from studies.smoke import laptop, smoke


def test_every_m_and_weight_of_the_stand_in_has_a_row(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("mean-field", tmp_path)
    rows = found.payload["rows"]
    assert [(row["m"], row["lambda"]) for row in rows] == [(m, v) for m in EVERY_M["smoke"] for v in VALUES["smoke"]]
    for (row, job), value in zip(zip(rows, untrained.values(), strict=True), VALUES["smoke"], strict=True):
        assert job.sampler.options()["parts"] == row["m"]
        assert {name: getattr(job.settings, name) for name in settings_of(value)} == settings_of(value)
        assert row["R"]["mean"] > 0


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    rows = {(row["m"], row["lambda"]): row["test"]["mean"] for row in laptop("mean-field", tmp_path).payload["rows"]}
    for m in (4, 8):
        assert rows[m, None] + 0.01 < rows[m, 0.0]
        assert rows[m, 0.0] < rows[m, 1.0]
    assert rows[4, 1.0] - rows[16, 1.0] < 0.01  # m hardly matters any more
