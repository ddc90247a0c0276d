"""The table of regimes: the experiments are the paper's, and the records make the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.errors import HandfulError
from handful.studies.regimes import OPTIMIZERS, REGIMES, cell, in_words
from handful.studies.request import Request
from handful.training.metrics import METRICS
from studies.smoke import GRAPH, laptop, smoke, trained_here


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


def test_words() -> None:
    means = {("full", "sgd"): 0.70, ("rns-no-batch", "sgd"): 0.69, ("rns", "sgd"): 0.77, ("full", "adam"): 0.8}
    assert "SGD -1.00 and +8.00" in in_words(means, METRICS["accuracy"])
    assert "Adam" not in in_words(means, METRICS["accuracy"])


@pytest.mark.slow
def test_a_table_of_regimes_and_optimisers(tmp_path: Path) -> None:
    request = Request(budget="smoke")
    trained_here({f"{r}-{o}": cell(request, GRAPH, r, o) for r in REGIMES for o in OPTIMIZERS}, tmp_path)
    found = smoke("regimes", tmp_path)
    assert set(found.payload) == {"graph", "metric", "epochs", "cells"}
    rows = found.tables[0].rows
    assert [[row[0].text, len(row)] for row in rows] == [[title, 4] for title in REGIMES.values()]
    cells = found.payload["cells"]
    assert [(one["regime"], one["optimizer"]) for one in cells] == [(r, o) for r in REGIMES for o in OPTIMIZERS]
    assert all(0 <= one["test"]["mean"] <= 1 for one in cells)
    assert all((one["paper"], one["error"]) == (None, None) for one in cells)
    for column in range(1, 4):
        assert 1 in {row[column].rank for row in rows}


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    assert len(laptop("regimes", tmp_path).payload["cells"]) == 9
