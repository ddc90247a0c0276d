"""The table of regimes: the experiments are the paper's, and the records make the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasets.test_graphland import write
from handful import Experiment
from handful.errors import DatasetError, HandfulError
from handful.studies import Request, run_study
from handful.studies.regimes import (
    CONTROLS,
    GRAPHLAND,
    METHODS,
    MODELS,
    OPTIMIZERS,
    REGIMES,
    cell,
    graphland_cell,
    match_steps,
    model_cell,
)
from studies.smoke import smoke


def test_under_the_paper_s_budget_cells_are_the_paper_s() -> None:
    request = Request(budget="paper")
    once = cell(request, "ogbn-products", "rns-no-batch", "sgdm")
    assert (once.sampler.name, once.sampler.options()["parts"]) == ("rns", 10)
    how = once.settings
    assert (how.update, how.lr, how.momentum, how.optimizer) == ("epoch", 0.03, 0.9, "sgdm")
    assert (how.epochs, how.weight_decay, how.evaluate_every) == (1000, 0.0, 5)
    assert once.options["dropout"] == 0.5
    assert (once.options["hidden"], once.options["layers"], once.options["norm"]) == (256, 5, "ln")
    assert once.seeds == (42, 123, 456, 789, 101112)
    with pytest.raises(HandfulError, match="ogbn-products alone"):
        cell(request, "ogbn-arxiv", "rns", "adam")


def test_on_a_laptop_regimes_differ_in_sampler_and_update_alone() -> None:
    request = Request(budget="laptop")
    for optimizer, lr in (("sgd", 0.03), ("sgdm", 0.03), ("adam", 0.001)):
        full, once, rns = (cell(request, "debian", regime, optimizer) for regime in REGIMES)
        assert (full.settings.lr, full.settings.optimizer, full.settings.update) == (lr, optimizer, "step")
        assert once.with_(update="step") == rns == full.with_(sampler=rns.sampler)
        assert (full.sampler.name, rns.sampler.name, rns.sampler.options()["parts"]) == ("full", "rns", 4)


def test_updates_and_flow_time_are_equal() -> None:
    request = Request(budget="laptop")
    for optimizer in OPTIMIZERS:
        rns, full = (cell(request, "debian", regime, optimizer) for regime in ("rns", "full"))
        m = rns.sampler.options()["parts"]
        updates, flow = (match_steps(rns, full, control) for control in ("updates", "flow"))
        assert updates.settings.epochs == m * rns.settings.epochs  # one step an epoch against m
        assert (
            updates.settings.epochs / updates.settings.evaluate_every
            == full.settings.epochs / full.settings.evaluate_every
        )
        assert flow.settings.lr * flow.settings.epochs == m * rns.settings.lr * rns.settings.epochs
        assert match_steps(rns, full, "epochs") == full


def test_a_table_of_regimes_and_optimisers(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("regimes", tmp_path)
    cells = found.payload["cells"]
    assert [(one["regime"], one["optimizer"]) for one in cells] == [(r, o) for r in REGIMES for o in OPTIMIZERS]
    assert list(untrained) == [f"{r}-{o}" for r in REGIMES for o in OPTIMIZERS]
    rows = found.tables[0].rows
    assert [row[0].text for row in rows] == list(REGIMES.values())
    assert [[cell.rank for cell in row[1:]] for row in rows] == [[0] * 3, [2] * 3, [1] * 3]  # each better than the last
    assert [one.name for one in found.charts[0].views[0].series] == list(REGIMES.values())
    assert found.words.count("+3.00") == 2 * len(OPTIMIZERS)  # by one row, and by the next


def test_a_row_for_every_regime_and_control(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("controls", tmp_path)
    assert len(found.tables[0].rows) == 2 * len(CONTROLS) + 1
    places = [(one["regime"], one["control"], one["optimizer"]) for one in found.payload["cells"]]
    assert [f"{regime}-{control}-{optimizer}" for regime, control, optimizer in places] == list(untrained)
    assert found.words.count("+18.00") == found.words.count("+15.00") == len(OPTIMIZERS)  # at equal epochs, and updates


def test_every_backbone_by_both_methods(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("architectures", tmp_path)
    cells = found.payload["cells"]
    assert [(one["model"], one["method"]) for one in cells] == [(model, how) for model in MODELS for how in METHODS]
    for row in found.tables[0].rows:
        assert [cell.rank for cell in row] == [0, 2, 1, 0]
        assert row[3].text == "+1.00"
    assert "4 of 4" in found.words
    assert [chart.name for chart in found.charts] == ["architectures", "curves", "curves-epochs", "curves-loss"]


def test_a_row_for_every_size_and_homophily(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("synthetic", tmp_path, epochs=7)
    assert [row[0].text for row in found.tables[0].rows] == ["300 nodes, homophily 0.6"]
    assert {job.settings.epochs for job in untrained.values()} == {7}


def test_under_the_paper_s_budget_backbones_and_graphland_are_the_paper_s() -> None:
    request = Request(budget="paper")
    gat = model_cell(request, "ogbn-arxiv", "gat", "rns")
    assert (gat.options["layers"], gat.options["dropout"], gat.settings.weight_decay) == (5, 0.5, 5e-4)
    web = graphland_cell(Request(budget="paper", device="cuda"), "web-topics", "rl", "full")
    assert (web.split, web.model, web.device) == ("rl", "graphland-sage", "cuda:0,cuda:1")
    assert graphland_cell(request, "web-topics", "rl", "full").device == "cpu"
    assert (web.options["hidden"], web.settings.evaluate_every) == (200, 1)


def test_where_the_paper_ran_out_of_memory_a_job_is_tried(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = run_study("architectures", Request("pokec", budget="paper", out=tmp_path))
    assert {"gat-full", "gat-rns"} < set(untrained)
    beside = {row[0].text: row[2].text for row in found.tables[1].rows}
    assert beside["GAT, Full graph"] == beside["GAT, RNS"] == "OOM"
    assert found.payload["cells"][0]["paper"]["test"]["mean"] > 0.5
    assert found.tables[1].rows[0][0].text == "GCN, Full graph"


def test_on_a_laptop_methods_differ_in_the_sampler_alone() -> None:
    request = Request(budget="laptop")
    pairs = [[model_cell(request, "debian", model, method) for method in METHODS] for model in MODELS]
    pairs.append([graphland_cell(request, "web-topics", "rh", method) for method in METHODS])
    for full, rns in pairs:
        assert full.with_(sampler=rns.sampler) == rns
    assert [rns.model for _, rns in pairs] == [*MODELS, "graphland-sage"]


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
        run_study("graphland", Request("debian", budget="paper", root=root))


def test_graphland_takes_any_graph_with_both_splits(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("graphland", tmp_path / "out", graph="debian")
    assert [row[0].text for row in found.tables[0].rows] == ["debian RL", "debian RH"]
    assert next((job.graph, job.split, job.model) for job in untrained.values()) == ("debian", "rl", "graphland-sage")


@pytest.mark.slow
def test_graphland_is_trained_by_average_precision(tmp_path: Path) -> None:
    write(tmp_path / "home" / "tolokers-2")
    found = smoke("graphland", tmp_path / "out", graph=None, root=str(tmp_path / "home"))
    assert found.payload["metric"] == "average_precision"
