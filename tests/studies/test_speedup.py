"""The decomposition of the speedup, against numbers worked out by hand."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.files import write_json
from handful.studies import Request, presets, run_study
from handful.studies.budget import benchmark
from handful.studies.jobs import STARTUP
from handful.studies.speedup import (
    METHODS,
    SCALE,
    SPEEDUPS,
    Crossing,
    conclude,
    crossing,
    epoch_time,
    reachable,
    speedup,
    speedup_chart,
)
from handful.training.metrics import METRICS
from handful.training.record import RunFolder
from studies.smoke import GRAPH, made_outcome, smoke, trained_here

ACCURACY, MAE = METRICS["accuracy"], METRICS["mae"]


def lines(*rows: tuple[float, float, float | None]) -> list[dict[str, Any]]:
    """Evaluations as (epoch, seconds, val)."""
    return [{"epoch": epoch, "seconds": seconds, "val": val} for epoch, seconds, val in rows]


FULL = lines((1, 10.0, 0.50), (2, 12.0, 0.60), (4, 16.0, 0.70), (5, 30.0, 0.80))
RNS = lines((1, 8.0, 0.60), (2, 9.0, 0.58), (3, 10.0, 0.78), (4, 11.5, 0.76), (5, 12.5, 0.90))


def test_epoch_time_is_the_median_slope() -> None:
    assert epoch_time(FULL) == 2.0  # slopes 2, 2, 14: a mean would be 6
    assert epoch_time(RNS) == 1.0  # 1, 1, 1.5, 1
    assert epoch_time(lines((2, 1.0, 0.1), (6, 9.0, 0.1))) == 2.0
    assert epoch_time(lines((1, 1.0, 0.5), (2, 2.0, 0.5), (4, 8.0, 0.5))) == 2.0  # of 1 and 3
    assert isnan(epoch_time(FULL[:1]))


def test_crossing_interpolates_epochs_and_runtime() -> None:
    # Half way between (2, 12 s) and (4, 16 s); the first evaluation was at 10 s.
    half = crossing(FULL, 0.65)
    assert half is not None
    assert (half.epochs, half.start, half.nostart) == pytest.approx((3.0, 14.0, 4.0))
    # The first crossing counts: from 0.58 to 0.78 between epochs 2 and 3, though epoch 4 is below 0.77 again.
    found = crossing(RNS, 0.77)
    assert found is not None
    assert (found.epochs, found.start, found.nostart) == pytest.approx((2.95, 9.95, 1.95))


def test_crossing_at_the_edges() -> None:
    at = crossing(FULL, 0.70)  # exactly at an evaluation
    assert at is not None
    assert (at.epochs, at.start, at.nostart) == pytest.approx((4.0, 16.0, 6.0))
    assert crossing(FULL, 0.50) == crossing(FULL, 0.2) == Crossing(1.0, 10.0, 0.0)
    assert crossing(FULL, 0.81) is None
    late = crossing(lines((1, 1.0, None), (2, 2.0, 0.25), (3, 3.0, 0.75)), 0.5)
    assert late == Crossing(2.5, 2.5, 1.5)  # an evaluation without a value is still the first in time


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=12),
    st.floats(0.01, 1),
)
def test_a_crossing_lies_between_the_evaluations_around_it(values: list[float], target: float) -> None:
    history = lines(*((i + 1, 2.0 * i + 3, v) for i, v in enumerate(values)))
    found = crossing(history, target)
    reached = [i + 1 for i, v in enumerate(values) if v >= target]
    assert (found is None) == (not reached)
    if found is not None:
        assert max(1, reached[0] - 1) <= found.epochs <= reached[0]
        assert found.start == pytest.approx(2 * found.epochs + 1)


def test_speedups_are_ratios_of_means_over_seeds() -> None:
    slow = lines((1, 20.0, 0.50), (2, 26.0, 0.55), (3, 32.0, 0.75))  # slope 6; 0.65 at epoch 2.5, 29 s
    found = speedup({"full": [FULL, slow], "rns": [RNS]}, 0.65)
    # RNS: 0.58 → 0.78 between epochs 2 and 3: 0.65 at 2.35, 9.35 s, of which 8 s before the first evaluation.
    assert found["epoch"] == pytest.approx((2 + 6) / 2 / 1)
    assert found["epochs"] == pytest.approx((3 + 2.5) / 2 / 2.35)
    assert found["start"] == pytest.approx((14 + 29) / 2 / 9.35)
    assert found["nostart"] == pytest.approx((4 + 9) / 2 / 1.35)
    assert found["reached"] == {"full": 2, "rns": 1}


def test_a_seed_that_misses_the_target_leaves_no_speedup_to_it() -> None:
    found = speedup({"full": [FULL, FULL[:2]], "rns": [RNS]}, 0.65)
    assert found["reached"] == {"full": 1, "rns": 1}
    assert all(isnan(value) for value in (found["epochs"], found["start"], found["nostart"]))
    assert found["epoch"] == 2.0
    assert conclude([found], ACCURACY) == conclude([], ACCURACY)  # nothing to tell


def test_targets_are_what_every_run_reached() -> None:
    assert reachable([FULL], [RNS], metric=ACCURACY) == (0.78, 0.79, 0.80)
    assert reachable([FULL[:3]], [RNS], metric=ACCURACY) == (0.68, 0.69, 0.70)
    assert reachable([lines((1, 1.0, 0.015))], metric=ACCURACY) == (0.01,)
    assert reachable([lines((1, 1.0, None))], metric=ACCURACY) == ()


def test_an_error_is_reached_from_above() -> None:
    errors = [lines((1, 10.0, 900.0), (2, 12.0, 500.0)), lines((1, 8.0, 700.0), (2, 9.0, 431.0))]
    # The worse of the two bests is 500; a step is a hundredth of its first digit's unit.
    assert reachable(*([one] for one in errors), metric=MAE) == (502.0, 501.0, 500.0)
    assert reachable([lines((1, 1.0, 0.0432))], metric=MAE) == (0.0434, 0.0433, 0.0432)
    half = crossing(errors[0], 700.0, higher_is_better=False)
    assert half == Crossing(1.5, 11.0, 1.0)
    assert crossing(errors[0], 499.0, higher_is_better=False) is None
    found = speedup({"full": [errors[0]], "rns": [errors[1]]}, 600.0, higher_is_better=False)
    assert found["epochs"] == pytest.approx(1.75 / (1 + 100 / 269))
    assert "2.00×" in conclude([found], MAE)
    (view,) = speedup_chart([{**found, "paper": None}], "g", MAE).views
    assert view.x.of == ["600"]


def test_the_paper_has_targets_for_its_graphs() -> None:
    assert presets.TARGETS["ogbn-products"] == (0.88, 0.89, 0.90)


def test_the_chart_has_ours_and_the_paper_s() -> None:
    found = speedup({"full": [FULL], "rns": [RNS]}, 0.65)
    (view,) = speedup_chart([{**found, "paper": {"epoch": 2.0, "epochs": 1.5}}], "g", ACCURACY).views
    assert [one.name for one in view.series[::2]] == list(SPEEDUPS.values())
    assert view.series[0].y == [2.0]
    assert (view.series[1].y, view.series[1].paper) == ([2.0], True)
    assert view.series[5].y == [None]  # the paper does not tell


def test_the_studies_tell_what_their_records_hold(tmp_path: Path) -> None:
    request = Request(budget="smoke")
    jobs = {m: benchmark(request, GRAPH, m, SCALE).with_(evaluate_every=1) for m in METHODS}
    trained_here(jobs, tmp_path)
    histories = {name: RunFolder(tmp_path / name / "seed-42").lines() for name in METHODS}
    found = smoke("speedup", tmp_path)
    for method, history in histories.items():
        assert [line["epoch"] for line in history] == [1, 2]
        assert found.payload["epoch_seconds"][method] == epoch_time(history)
    assert len(found.tables[0].rows) == len(found.payload["targets"]) > 0
    for target in found.payload["targets"]:
        own = speedup({name: [own] for name, own in histories.items()}, target["target"])
        assert target["reached"] == own["reached"] == {"full": 1, "rns": 1}
        assert target["epochs"] == own["epochs"] > 0
        assert target["paper"] is None
    (_, curves) = found.charts
    assert [view.name for view in curves.views] == ["seconds", "epochs", "loss"]
    write_json(tmp_path / "full" / STARTUP, {"seconds": 1e6})
    write_json(tmp_path / "rns" / STARTUP, {"seconds": 1e5})
    slow = smoke("speedup", tmp_path)
    assert slow.payload["startup_seconds"] == {"full": 1e6, "rns": 1e5}
    for before, after in zip(found.payload["targets"], slow.payload["targets"], strict=True):
        assert after["start"] == pytest.approx(10, rel=1e-3)  # the runs take seconds
        assert after["epochs"] == before["epochs"]


def test_without_both_runs_there_is_nothing_to_compare(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {"full": made_outcome("full", [0.7], folder=folder), "rns": made_outcome("rns", None)}
    monkeypatch.setattr("handful.studies.grid.train_jobs", lambda request, jobs: ends)
    found = run_study("speedup", Request(GRAPH, budget="smoke", out=tmp_path))
    assert found.failed == ("rns",)
    assert "out of memory" in found.tables[0].rows[1][1].text


def test_the_paper_s_targets_and_numbers_stand_beside_ours(tmp_path: Path, untrained: dict[str, Any]) -> None:
    found = run_study("speedup", Request("pokec", budget="paper", out=tmp_path))
    assert [target["target"] for target in found.payload["targets"]] == list(presets.TARGETS["pokec"])
    assert all(target["paper"]["epoch"] > 0 for target in found.payload["targets"])
    assert len(found.tables[0].rows) == 2 * len(found.payload["targets"])
