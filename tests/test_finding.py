from __future__ import annotations

import json
import math

import pytest

from handful.errors import RunError
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two, mean_of, points


def a_view(name: str, y: list[float | None]) -> View:
    return View(name, "line", Axis("epoch", whole=True), Axis("loss", log=True), [Series("RNS", [1, 2], y, paper=True)])


def a_finding() -> Finding:
    chart = Chart("loss", "The loss", [a_view("full", [1.0, math.inf]), a_view("none", [None, math.nan])])
    empty = Chart("empty", "Nothing", [a_view("none", [None, None])], together=True)
    table = Table("Two", ["Method", "Test"], [[Cell("RNS"), Cell("72.5", 1)]])
    return Finding("study", "A study", "words", [table], [chart, empty], {"a": 1}, {"seeds": "3"}, failed=("one",))


def test_views_without_numbers_are_left_out() -> None:
    found = a_finding()
    assert [chart.name for chart in found.charts] == ["loss"]
    assert [view.name for view in found.charts[0].views] == ["full"]


def test_json_and_back() -> None:
    found = a_finding()
    text = json.dumps(found.to_json(), allow_nan=False)
    assert "payload" not in json.loads(text)
    again = Finding.from_json(json.loads(text))
    assert again.charts[0].views[0].series[0].y == [1.0, None]  # infinity is null
    assert json.dumps(again.to_json()) == text
    assert (again.tables, again.facts, again.failed) == (found.tables, found.facts, found.failed)


def test_other_files_are_refused() -> None:
    good = a_finding().to_json()
    with pytest.raises(RunError, match="has format 1"):
        Finding.from_json({key: value for key, value in good.items() if key != "format"})
    for key in ("name", "tables", "charts", "facts"):
        with pytest.raises(RunError, match="not a finding"):
            Finding.from_json(good | {key: None} if key != "name" else {k: v for k, v in good.items() if k != key})


def test_ranks() -> None:
    assert best_two([1.0, 3.0, 2.0, 3.0], highest=True) == [0, 1, 2, 1]
    assert best_two([1.0, 3.0, 2.0], highest=False) == [1, 0, 2]
    assert best_two([math.nan, 3.0, None, 2.0], highest=True) == [0, 1, 0, 2]
    assert best_two([4.0], highest=True) == [1]


def test_points_have_bars_where_there_are_intervals() -> None:
    series = points("a", [1, 2, 3], [{"mean": 0.5, "ci95": 0.1}, None, 0.25], color=2, scale=100)
    assert series.y == [50.0, None, 25.0]
    assert series.low == [40.0, None, 25.0]
    assert series.high == [60.0, None, 25.0]
    bare = points("a", [1], [0.5])
    assert (bare.low, bare.high) == ([], [])


def test_means() -> None:
    assert mean_of({"mean": 2, "sd": 1}) == 2.0
    assert [mean_of(value) for value in (None, math.nan, {"mean": None})] == [None, None, None]
