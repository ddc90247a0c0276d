from __future__ import annotations

from pathlib import Path

import pytest

from datasets.test_graphland import write
from handful.errors import DatasetError, HandfulError
from handful.studies import Request, run_study
from handful.studies.graphland import DATASETS, cell
from handful.training.record import RunFolder
from studies.smoke import smoke


@pytest.mark.slow
def test_what_is_on_disk_by_both_methods_and_splits(tmp_path: Path) -> None:
    write(tmp_path / "home" / "tolokers-2")
    found = smoke("graphland", tmp_path / "out", graph=None, root=str(tmp_path / "home"))
    assert set(found.payload) == {"datasets", "failed"}
    entries = {entry["dataset"]: entry for entry in found.payload["datasets"]}
    assert list(entries) == list(DATASETS)
    assert [name for name, entry in entries.items() if "missing" not in entry] == ["tolokers-2"]
    for split in ("rl", "rh"):
        one = entries["tolokers-2"][split]
        assert one["delta"] == one["rns"]["mean"] - one["full"]["mean"]
        assert one["paper"]["full"]["mean"] == {"rl": 0.5441, "rh": 0.5883}[split]
        run = RunFolder(tmp_path / "out" / f"tolokers-2-{split}-rns" / "seed-42").run()
        assert (run.metric, run.test) == ("average_precision", one["rns"]["mean"])
    beside = found.tables[1]
    assert beside.title == "Beside the paper"
    assert [row[0].text for row in beside.rows] == ["tolokers-2 · RL", "tolokers-2 · RH"]
    assert "of 2 cases" in found.words


def test_cells_are_the_paper_s_or_small() -> None:
    web = cell(Request(budget="paper", device="cuda"), "web-topics", "rl", "full")
    assert (web.split, web.model, web.device) == ("rl", "graphland-sage", "cuda:0,cuda:1")
    assert cell(Request(budget="paper"), "web-topics", "rl", "full").device == "cpu"
    full, rns = (cell(Request(budget="laptop"), "web-topics", "rh", method) for method in ("full", "rns"))
    assert full.with_(sampler=rns.sampler) == rns
    assert (rns.model, rns.split) == ("graphland-sage", "rh")


def test_data_sets_that_are_not_here_or_not_graphland_s_are_told(tmp_path: Path) -> None:
    root = str(tmp_path)
    with pytest.raises(DatasetError, match=r"none of hm-categories, .* is in"):
        run_study("graphland", Request(budget="smoke", root=root))
    with pytest.raises(HandfulError, match="there is no data set of GraphLand 'debian'"):
        run_study("graphland", Request("debian", budget="smoke", root=root))
