from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies.budget import benchmark
from handful.studies.request import Request
from handful.studies.samplers import SCALE
from handful.vocabulary import METHODS
from studies.smoke import GRAPH, laptop, smoke, trained_here


@pytest.mark.slow
def test_every_method_has_a_row(tmp_path: Path) -> None:
    request = Request(budget="smoke")
    trained_here({name: benchmark(request, GRAPH, name, SCALE) for name in METHODS}, tmp_path)
    found = smoke("samplers", tmp_path)
    assert set(found.payload) == {"graph", "metric", "rows"}
    rows = found.payload["rows"]
    assert [row["sampler"] for row in rows] == list(METHODS)
    for row in rows:
        assert 0 < row["test"]["mean"] <= 1
        assert row["seconds"]["mean"] > 0
        assert row["peak_memory_bytes"]["ram"] > 1e6
        assert row["paper"] is None
    cells = found.tables[0].rows
    assert [row[0].text for row in cells] == list(METHODS.values())
    best = max(rows, key=lambda row: row["test"]["mean"])["sampler"]
    assert METHODS[best] in [row[0].text for row in cells if row[1].rank == 1]
    models = {row[0].text: row for row in found.details[0].rows}
    at = found.details[0].head.index("model")
    assert (models["LADIES"][at].text, models["RNS"][at].text) == ("gcn", "sage")
    assert [chart.name for chart in found.charts] == ["costs", "curves"]
    assert "RNS is" in found.words


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    rows = laptop("samplers", tmp_path).payload["rows"]
    assert all(row["test"]["mean"] > 0.2 for row in rows)
