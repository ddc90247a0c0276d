from __future__ import annotations

import sys
from pathlib import Path

import pytest

from handful import Experiment, RandomNodes
from scripts import script

scale = script("scale")

SMALL = Experiment(
    "synthetic?nodes=300&degree=6&features=4&train=0.2", hidden=8, layers=2, norm="ln", sampler=RandomNodes(2)
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="no RssAnon")
def test_epochs_are_measured_and_the_graphs_removed(tmp_path: Path) -> None:
    result = scale.bench_scale([SMALL], 4 << 30, 1, tmp_path, print)
    (row,) = result["graphs"]
    assert row["nodes"] == 300
    assert row["edges"] > 1000
    assert set(row["ways"]) == {"memory", "budget"}
    budget = row["ways"]["budget"]
    assert 0 < budget["peak_bytes"] < 4 << 30
    assert all(budget[phase] > 0 for phase in scale.PHASES)
    assert sum(budget[phase] for phase in scale.PHASES) <= budget["seconds"]
    assert row["rate"] == pytest.approx(row["ways"]["memory"]["seconds"] / budget["seconds"])
    assert not any(tmp_path.iterdir())
    table, phases = scale.scale_tables(result)
    assert table.rows[0][0].text == phases.rows[0][0].text == "300"
    assert len(table.rows[0]) == len(table.head)
    assert len(phases.rows[0]) == 1 + len(scale.PHASES)
