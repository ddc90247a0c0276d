"""The terms along training with Adam."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies.along_adam import curve, in_words
from handful.studies.implicit import SAMPLERS
from handful.theory.implicit import ImplicitTerms
from studies.smoke import smoke


def terms(r: float) -> ImplicitTerms:
    return ImplicitTerms(1.0, 1.0, 0.5, 0.1, R=r, grad_norm_sq=2.0, batches=4, nodes=1.0, targets=1.0)


def test_curves_are_means_over_seeds_at_shares_of_the_training() -> None:
    found = curve(
        [[(0, terms(1.0)), (5, terms(3.0)), (10, terms(5.0))], [(0, terms(3.0)), (5, terms(3.0)), (10, terms(7.0))]]
    )
    assert found["share"] == [0, 50, 100]
    assert found["R"] == [2.0, 3.0, 6.0]
    said = in_words({"rns": found, "saint": {**found, "R": [9.0, 3.0, 1.0]}})
    assert "RNS 3, GraphSAINT 0.11" in said
    assert "changes (GraphSAINT, RNS from the least)" in said


def test_every_sampler_has_a_curve(tmp_path: Path) -> None:
    found = smoke("along-adam", tmp_path)
    assert list(found.payload["curves"]) == list(SAMPLERS)
    for one in found.payload["curves"].values():
        assert one["epoch"][0] == 0
        assert one["share"][-1] == 100
        assert len(one["R"]) == len(one["bias"]) == len(one["epoch"]) >= 2
        assert all(value >= 0 for value in one["R"])
    (chart,) = found.charts
    assert [view.name for view in chart.views] == ["bias of L̄", "R(w)", "‖∇L̄‖²"]
    assert float(found.tables[0].rows[0][1].text) == pytest.approx(found.payload["curves"]["rns"]["R"][0], rel=1e-2)
