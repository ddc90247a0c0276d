"""Full graph against RNS, by backbone and on GraphLand."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasets.test_graphland import write
from handful import Experiment
from handful.errors import DatasetError, HandfulError
from handful.studies import Request, run_study
from handful.studies.pairs import GRAPHLAND, METHODS, MODELS, graphland_cell, model_cell
from studies.smoke import smoke


def test_every_backbone_by_both_methods(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("architectures", tmp_path)
    cells = found.payload["cells"]
    assert [(one["model"], one["method"]) for one in cells] == [(model, how) for model in MODELS for how in METHODS]
    for row in found.tables[0].rows:
        assert [cell.rank for cell in row] == [0, 2, 1, 0]
        assert row[3].text == "+1.00"
    assert "4 of 4" in found.words
    assert [chart.name for chart in found.charts] == ["architectures", "curves", "curves-epochs", "curves-loss"]


def test_under_the_paper_s_budget_cells_are_the_paper_s() -> None:
    request = Request(budget="paper")
    assert model_cell(request, "pokec", "gat", "rns") is None  # the paper ran out of memory
    gat = model_cell(request, "ogbn-arxiv", "gat", "rns")
    assert gat is not None
    assert (gat.options["layers"], gat.options["dropout"], gat.settings.weight_decay) == (5, 0.5, 5e-4)
    web = graphland_cell(Request(budget="paper", device="cuda"), "web-topics", "rl", "full")
    assert (web.split, web.model, web.device) == ("rl", "graphland-sage", "cuda:0,cuda:1")
    assert graphland_cell(request, "web-topics", "rl", "full").device == "cpu"


def test_where_the_paper_ran_out_of_memory_there_is_no_job(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = run_study("architectures", Request("pokec", budget="paper", out=tmp_path))
    assert "gat-full" not in untrained
    assert found.payload["cells"][0]["paper"]["test"]["mean"] > 0.5
    assert found.tables[1].rows[0][0].text == "GCN, Full graph"


def test_on_a_laptop_methods_differ_in_the_sampler_alone() -> None:
    request = Request(budget="laptop")
    pairs = [[model_cell(request, "debian", model, method) for method in METHODS] for model in MODELS]
    pairs.append([graphland_cell(request, "web-topics", "rh", method) for method in METHODS])
    for full, rns in pairs:
        assert full is not None
        assert rns is not None
        assert full.with_(sampler=rns.sampler) == rns
    assert [rns.model for _, rns in pairs if rns is not None] == [*MODELS, "graphland-sage"]


def test_graphland_s_data_sets_that_are_on_disk(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    write(tmp_path / "home" / "tolokers-2")
    found = smoke("graphland", tmp_path / "out", graph=None, root=str(tmp_path / "home"))
    assert list(untrained) == [f"tolokers-2-{split}-{method}" for split in ("rl", "rh") for method in METHODS]
    assert found.payload["missing"] == [name for name in GRAPHLAND if name != "tolokers-2"]
    papers = {(one["split"], one["method"]): one["paper"]["test"]["mean"] for one in found.payload["cells"]}
    assert (papers["rl", "full"], papers["rh", "full"]) == (0.5441, 0.5883)
    assert [row[0].text for row in found.tables[0].rows] == ["tolokers-2 RL", "tolokers-2 RH"]
    assert len(found.tables[1].rows) == 4  # beside the paper
    assert {job.split for job in untrained.values()} == {"rl", "rh"}


def test_data_sets_that_are_not_here_or_not_graphland_s_are_told(tmp_path: Path) -> None:
    root = str(tmp_path)
    with pytest.raises(DatasetError, match=r"hm-categories, .* is in"):
        run_study("graphland", Request(budget="smoke", root=root))
    with pytest.raises(HandfulError, match="debian"):
        run_study("graphland", Request("debian", budget="smoke", root=root))


@pytest.mark.slow
def test_graphland_is_trained_by_average_precision(tmp_path: Path) -> None:
    write(tmp_path / "home" / "tolokers-2")
    found = smoke("graphland", tmp_path / "out", graph=None, root=str(tmp_path / "home"))
    assert found.payload["metric"] == "average_precision"
