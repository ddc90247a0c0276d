from __future__ import annotations

from pathlib import Path

import pytest

from studies.smoke import smoke


def test_the_bias_stays_below_its_bound(tmp_path: Path) -> None:
    found = smoke("bias-bound", tmp_path)
    assert set(found.payload) == {"graph", "bounds", "splits"}
    bounds = found.payload["bounds"]
    assert [b["m"] for b in bounds] == [1, 2, 4, 8, 16]
    assert all(b["bias"] <= b["bound"] + b["bias_ci95"] for b in bounds[1:])
    assert all(b["average_bound"] <= b["bound"] for b in bounds)
    assert bounds[0]["bias"] == pytest.approx(0, abs=1e-6)  # one part is the whole graph
    assert list(found.payload["splits"]) == ["rns", "neighbor", "cluster", "saint"]
    assert [row[0].text for row in found.tables[0].rows] == ["1", "2", "4", "8", "16"]
    (chart,) = found.charts
    assert chart.views[0].series[0].x == [2, 4, 8, 16]  # a log scale has no place for what is 0
