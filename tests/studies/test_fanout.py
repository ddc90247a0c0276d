from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies import presets
from studies.smoke import laptop, smoke


@pytest.mark.slow
def test_fanouts_as_deep_as_the_model(tmp_path: Path) -> None:
    found = smoke("fanout", tmp_path)
    assert set(found.payload) == {"graph", "metric", "fanouts"}
    rows = found.payload["fanouts"]
    space = [choice["fanout"] for choice in presets.search_space("neighbor")]
    assert [row["fanout"] for row in rows] == [",".join(map(str, f)) for f in space if len(f) <= 3]
    for row in rows:
        assert set(row) == {"fanout", "test", "epoch_seconds", "peak_memory_bytes", "paper"}
    seconds = [row["epoch_seconds"] for row in rows]
    assert f"takes {seconds[-1] / seconds[0]:.1f} times as long" in found.words
    test, time = found.charts[0].views
    assert test.series[0].y == [pytest.approx(100 * row["test"]["mean"]) for row in rows]
    assert time.series[0].y == seconds
    assert [row[0].text for row in found.details[0].rows] == [f"fanout [{row['fanout']}]" for row in rows]


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    assert len(laptop("fanout", tmp_path).payload["fanouts"]) == 3
