from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies.architectures import METHODS, MODELS, cell, method_points
from handful.studies.request import Request
from studies.smoke import GRAPH, laptop, smoke, trained_here


def test_every_backbone_by_both_methods(tmp_path: Path) -> None:
    cells = {f"{m}-{how}": cell(Request(budget="smoke"), GRAPH, m, how) for m in MODELS for how in METHODS}
    trained_here({name: one for name, one in cells.items() if one is not None}, tmp_path)
    found = smoke("architectures", tmp_path)
    assert set(found.payload) == {"graph", "metric", "models"}
    assert [row["model"] for row in found.payload["models"]] == list(MODELS)
    for row, texts in zip(found.payload["models"], found.tables[0].rows, strict=True):
        assert row["delta"] == row["rns"]["mean"] - row["full"]["mean"]
        assert (row["paper"], row["errors"]) == (None, {})
        better = 2 if row["delta"] > 0 else 1
        assert [at for at, one in enumerate(texts) if one.rank] == [better]
    assert [row[0].text for row in found.details[0].rows][:2] == ["GCN, Full graph", "GCN, RNS"]
    assert [chart.name for chart in found.charts] == ["architectures", "curves", "curves-epochs", "curves-loss"]


def test_under_the_paper_s_budget_cells_are_the_paper_s() -> None:
    request = Request(budget="paper")
    assert cell(request, "pokec", "gat", "rns") is None  # the paper ran out of memory
    gat = cell(request, "ogbn-arxiv", "gat", "rns")
    assert gat is not None
    assert (gat.options["layers"], gat.options["dropout"], gat.settings.weight_decay) == (5, 0.5, 5e-4)


def test_on_a_laptop_methods_differ_in_the_sampler_alone() -> None:
    for model in MODELS:
        full, rns = (cell(Request(budget="laptop"), "debian", model, method) for method in ("full", "rns"))
        assert full is not None
        assert rns is not None
        assert full.with_(sampler=rns.sampler) == rns
        assert rns.model == model


def test_points_stand_beside_the_paper_s() -> None:
    ours, paper = {"mean": 0.7, "ci95": 0.1}, {"full": {"mean": 0.6, "ci95": 0.1}, "rns": None}
    rows = [{"full": ours, "rns": ours, "paper": paper}, {"full": None, "rns": ours, "paper": None}]
    series = method_points(["gcn", "sage"], rows, 100.0)
    assert [one.name for one in series] == ["Full graph", "Full graph, paper", "RNS"]
    assert series[0].y == [pytest.approx(70), None]
    assert series[1].y == [pytest.approx(60), None]
    assert [one.paper for one in series] == [False, True, False]


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    assert len(laptop("architectures", tmp_path).payload["models"]) == 4
