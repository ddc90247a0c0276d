from __future__ import annotations

import sys
from pathlib import Path

import pytest

from handful.bench.scale import PHASES, bench_scale, phases_table, scale_table, shapes_of

SHAPE = {"degree": 6, "features": 4, "train": 0.2, "parts": 2, "hidden": 8, "layers": 2, "rounds": 1, "seed": 0}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no RssAnon")
def test_epochs_are_measured_and_the_graphs_removed(tmp_path: Path) -> None:
    result = bench_scale(shapes_of([300], "4GiB", **SHAPE), tmp_path, print)
    (row,) = result["graphs"]
    assert row["edges"] > 1000
    assert set(row["ways"]) == {"memory", "budget"}
    budget = row["ways"]["budget"]
    assert 0 < budget["peak_bytes"] < 4 << 30
    assert all(budget[phase] > 0 for phase in PHASES)
    assert sum(budget[phase] for phase in PHASES) <= budget["seconds"]
    assert row["rate"] == pytest.approx(row["ways"]["memory"]["seconds"] / budget["seconds"])
    assert not any(tmp_path.iterdir())
    (cells,) = scale_table(result).rows
    assert cells[0].text == "300"
    assert len(phases_table(result).rows[0]) == 1 + len(PHASES)
