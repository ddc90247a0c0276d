"""The regimes under fair controls."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies.controls import CONTROLS, ROWS, controlled, in_words
from handful.studies.regimes import OPTIMIZERS, cell
from handful.studies.request import Request
from handful.training.metrics import METRICS
from studies.smoke import GRAPH, smoke, trained_here


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


@pytest.mark.slow
def test_a_row_for_every_regime_and_control(tmp_path: Path) -> None:
    request = Request(budget="smoke")
    jobs = {
        f"{regime}-{control}-{o}": controlled(cell(request, GRAPH, "rns", o), cell(request, GRAPH, regime, o), control)
        for regime, control in ROWS
        for o in OPTIMIZERS
    }
    trained_here(jobs, tmp_path)
    found = smoke("controls", tmp_path)
    assert len(found.tables[0].rows) == 2 * len(CONTROLS) + 1
    assert [(one["regime"], one["control"], one["optimizer"]) for one in found.payload["cells"]] == [
        (regime, control, o) for regime, control in ROWS for o in OPTIMIZERS
    ]
    steps = {
        job.name: len((job / "seed-42" / "metrics.jsonl").read_text()) for job in tmp_path.iterdir() if job.is_dir()
    }
    assert set(steps) == set(jobs)


def test_words() -> None:
    means = {("full", c, "sgd"): v for c, v in zip(CONTROLS, (0.5, 0.61, 0.6), strict=True)} | {
        ("rns", "epochs", "sgd"): 0.62
    }
    assert "SGD +12.00, +1.00, +2.00" in in_words(means, METRICS["accuracy"])
    assert "Adam" not in in_words(means, METRICS["accuracy"])
    assert in_words({}, METRICS["accuracy"]).startswith("No optimiser")
