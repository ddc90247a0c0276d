"""The table of regimes: the plan is the paper's, and the records make the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.errors import HandfulError
from handful.studies import Request, run_study
from handful.studies.regimes import OPTIMIZERS, REGIMES, in_words, regime_job


def test_under_the_paper_s_budget_jobs_are_the_paper_s() -> None:
    request = Request(budget="paper")
    job = regime_job(request, "ogbn-products", "rns-no-batch", "sgdm")
    assert (job.sampler, job.sampler_options) == ("rns", {"parts": 10})
    assert job.settings["update"] == "epoch"
    assert (job.settings["lr"], job.settings["momentum"], job.settings["optimizer"]) == (0.03, 0.9, "sgdm")
    assert (job.settings["epochs"], job.settings["weight_decay"]) == (1000, 0.0)
    assert job.architecture["dropout"] == 0.5
    assert (job.architecture["hidden"], job.architecture["layers"], job.architecture["norm"]) == (256, 5, "ln")
    assert job.seeds == (42, 123, 456, 789, 101112)
    with pytest.raises(HandfulError, match="ogbn-products alone"):
        regime_job(request, "ogbn-arxiv", "rns", "adam")


def test_on_a_laptop_regimes_differ_in_sampler_and_update_alone() -> None:
    request = Request(budget="laptop")
    for optimizer, lr in (("sgd", 0.03), ("sgdm", 0.03), ("adam", 0.001)):
        full, once, rns = (regime_job(request, "debian", regime, optimizer) for regime in REGIMES)
        assert [j.settings["lr"] for j in (full, once, rns)] == [lr] * 3
        assert once.settings | {"update": "step"} == rns.settings == full.settings
        assert once.sampler_options == rns.sampler_options == {"parts": 4}
        assert full.sampler == "full"
        assert full.architecture == once.architecture == rns.architecture


def test_words() -> None:
    means = {("full", "sgd"): 0.70, ("rns-no-batch", "sgd"): 0.69, ("rns", "sgd"): 0.77, ("full", "adam"): 0.8}
    assert "SGD -1.00 and +8.00" in in_words(means)
    assert "Adam" not in in_words(means)


@pytest.mark.slow
def test_the_study_end_to_end(small_debian: str, tmp_path: Path) -> None:
    found = run_study("regimes", Request(small_debian, budget="smoke", out=tmp_path, jobs=2))
    assert found.failed == ()
    assert [[row[0].text, len(row)] for row in found.rows] == [[title, 4] for title in REGIMES.values()]
    assert len(found.payload["cells"]) == len(REGIMES) * len(OPTIMIZERS)
    assert all(0 <= cell["test"]["mean"] <= 1 for cell in found.payload["cells"])
    for column in range(1, 4):
        assert 1 in {row[column].rank for row in found.rows}
