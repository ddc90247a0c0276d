from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphs import make_numbers
from handful.storage import save
from handful.studies.explicit_penalty import REGIMES, STEP, conclude
from handful.training.metrics import METRICS
from studies.smoke import laptop, smoke


@pytest.mark.slow
def test_every_regime_is_run_with_every_seed(tmp_path: Path) -> None:
    found = smoke("explicit-penalty", tmp_path, seeds=(1, 2))
    assert set(found.payload) == {"graph", "metric", "parts", "step", "epochs", "regimes", "runs"}
    assert list(found.payload["regimes"]) == list(REGIMES)
    for name, runs in found.payload["runs"].items():
        assert len(runs) == 2
        for key in ("test", "R", "mean_loss"):
            mean = found.payload["regimes"][name][key]["mean"]
            assert mean == pytest.approx(np.mean([run[key] for run in runs]))
    steps = [found.payload["runs"][name][0]["mean_loss"] for name in REGIMES]
    assert len(set(steps)) == len(REGIMES)  # no two regimes are the same training


def test_regimes_move_as_far_but_for_the_short_one() -> None:
    assert [lr for _, lr, _ in REGIMES.values()] == [STEP, STEP, 4 * STEP, 4 * STEP, 4 * STEP]
    assert [update for update, _, _ in REGIMES.values()] == ["step"] + ["epoch"] * 4
    assert [strength for _, _, strength in REGIMES.values()] == [0, 0, 0, STEP / 4, 10 * STEP / 4]


def test_the_gap_and_what_the_penalty_adds() -> None:
    tests = {"a": [0.80, 0.82], "b": [0.70, 0.72], "c": [0.76, 0.78], "d": [0.77, 0.79], "e": [0.0, 0.0]}
    runs = {name: [{"test": value} for value in values] for name, values in tests.items()}
    words = conclude(runs, METRICS["accuracy"])
    assert "gain 4.00 ± 0.00 points" in words
    assert "1.00 ± 0.00." in words
    assert "gain 0.04 ± " in conclude(runs, METRICS["mae"])


def test_numbers_are_in_their_own_unit(tmp_path: Path) -> None:
    save(make_numbers(), tmp_path / "numbers")
    found = smoke("explicit-penalty", tmp_path / "out", graph=str(tmp_path / "numbers"))
    assert found.payload["metric"] == "mae"
    means = {name: regime["test"]["mean"] for name, regime in found.payload["regimes"].items()}
    shown = [(row[0].text, row[1].text) for row in found.tables[0].rows if row[1].rank == 1]
    best = min(means, key=lambda name: means[name])
    assert shown == [(best, f"{means[best]:.4g}")]
    assert found.charts[0].views[0].series[0].y[0] == next(iter(means.values()))


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    found = laptop("explicit-penalty", tmp_path)
    assert found.payload["epochs"] == 40
    assert all(len(runs) == 1 for runs in found.payload["runs"].values())
