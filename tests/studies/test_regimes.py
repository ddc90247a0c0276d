"""The table of regimes: the experiments are the paper's, and the records make the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful import Experiment
from handful.errors import HandfulError
from handful.studies.budget import Request
from handful.studies.regimes import CONTROLS, OPTIMIZERS, REGIMES, cell, controlled
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
        updates, flow = (controlled(rns, full, control) for control in ("updates", "flow"))
        assert updates.settings.epochs == m * rns.settings.epochs  # one step an epoch against m
        assert (
            updates.settings.epochs / updates.settings.evaluate_every
            == full.settings.epochs / full.settings.evaluate_every
        )
        assert flow.settings.lr * flow.settings.epochs == m * rns.settings.lr * rns.settings.epochs
        assert controlled(rns, full, "epochs") == full


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
