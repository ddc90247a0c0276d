from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handful.report.charts import CHARTS, Chart, charts_of
from handful.report.records import Record, read_records
from handful.studies import STUDIES
from made_records import payloads, write_run, write_samplers


def of(name: str, payload: dict[str, Any]) -> list[Chart]:
    return charts_of(Record(name, Path(), name, payload=payload))


def test_every_study_that_measures_has_a_chart() -> None:
    known = {name.replace("_", "-") for name in STUDIES}
    assert set(CHARTS) - {"compare", "diagnose"} == known - {"curves", "datasets"}  # the first has those of its runs


@pytest.mark.parametrize("name", [name for name in payloads() if name in CHARTS])
def test_every_series_has_as_many_values_as_places(name: str) -> None:
    charts = of(name, payloads()[name])
    assert charts
    for chart in charts:
        for view in chart.views:
            for series in view.series:
                assert len(series.x) == len(series.y)
                assert len(series.low) == len(series.high)
                assert len(series.low) in (0, len(series.x))
                assert not view.x.of or set(series.x) <= set(view.x.of)
                ends = zip(series.low, series.y, series.high, strict=True) if series.low else ()
                assert all(low <= y <= high for low, y, high in ends if y is not None)
        assert "NaN" not in json.dumps(chart.to_json())


def test_curves_are_the_mean_over_seeds_and_their_range(tmp_path: Path) -> None:
    for seed, top in ((1, 0.7), (2, 0.8)):
        write_run(tmp_path / f"seed-{seed}", "rns", seed, top, 0.5)
    lines = [
        [json.loads(line) for line in (tmp_path / f"seed-{seed}" / "metrics.jsonl").read_text().splitlines()]
        for seed in (1, 2)
    ]
    (record,) = read_records(tmp_path)
    (chart,) = charts_of(record)
    epochs, seconds, loss = chart.views
    assert [view.name for view in chart.views] == ["epochs", "seconds", "loss"]
    (series,) = epochs.series
    assert series.x == [5, 10, 15, 20, 25, 30, 35, 40]
    assert seconds.series[0].x == [2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20]
    assert series.y[0] == pytest.approx(50 * (lines[0][0]["val"] + lines[1][0]["val"]))
    assert (series.low[-1], series.high[-1]) == pytest.approx((100 * lines[0][-1]["val"], 100 * lines[1][-1]["val"]))
    assert loss.series[0].y[0] == pytest.approx(lines[0][0]["loss"])


def test_a_method_has_one_colour_in_all_charts(tmp_path: Path) -> None:
    write_samplers(tmp_path)
    charts = charts_of(read_records(tmp_path)[0]) + of("implicit", payloads()["implicit"])
    colors: dict[str, set[int]] = {}
    for chart in charts:
        for view in chart.views:
            for series in view.series:
                colors.setdefault(series.name, set()).add(series.color)
    assert all(len(own) == 1 for own in colors.values())
    assert len({own.pop() for own in colors.values()}) == 6


def test_the_papers_numbers_stand_beside_ours_in_percent() -> None:
    (chart,) = of("regimes", payloads()["regimes"])
    paper = {series.name: series for series in chart.views[0].series if series.paper}
    assert paper["RNS, paper"].y == pytest.approx([77.70, 82.60, 83.15])
    assert paper["RNS, paper"].high[0] == pytest.approx(77.70 + 0.29)
    ours = next(series for series in chart.views[0].series if series.name == "RNS")
    assert ours.y == pytest.approx([74, 77, 80])


def test_what_was_not_measured_is_not_drawn() -> None:
    (chart,) = of("speedup", payloads()["speedup"])
    nostart = next(series for series in chart.views[0].series if series.name == "… no start-up")
    assert nostart.y == [11.0, 11.0, None]
    nothing = payloads()["speedup"] | {"targets": []}
    assert of("speedup", nothing) == []
    failed = payloads()["structure"]
    for row in failed["parts"]:
        row["homophily"] = {"mean": None, "sd": None}  # a graph without labels
    assert len(of("structure", failed)) == len(of("structure", payloads()["structure"])) - 1


def test_nine_runs_have_nine_colours(tmp_path: Path) -> None:
    for regime in ("full", "once", "rns"):
        for optimizer in ("sgd", "sgdm", "adam"):
            write_run(tmp_path / f"{regime}-{optimizer}" / "seed-1", "rns", 1, 0.7, 0.1)
    (chart,) = charts_of(read_records(tmp_path)[0])
    assert len({series.color for series in chart.views[0].series}) == 9
