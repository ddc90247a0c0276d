from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from graphs import make_graph
from handful import Experiment
from handful.errors import DatasetError
from handful.finding import Finding
from handful.studies import Request, run_study
from handful.studies.grid import Entry, Grid
from handful.studies.survey import (
    LONGER,
    OURS,
    PATIENCE,
    STEPS,
    TRIED,
    cut_grid,
    options_for,
    plan_jobs,
    set_up,
    survey_finding,
)
from handful.training.record import write_config
from handful.vocabulary import METHODS
from studies.smoke import MADE, check, made_outcome, smoke


def made(
    tests: dict[str, dict[str, list[float] | None]],
    missing: dict[str, str] | None = None,
    metric: str = "accuracy",
    seconds: dict[str, float] | None = None,
    **request: Any,
) -> Finding:
    """The finding of made-up tests by graph, method and seed; ``None`` where a job failed."""
    entries, outcomes = {}, {}
    with TemporaryDirectory() as folder:
        write_config(Path(folder, "config.json"), {**MADE.to_json(), "seeds": []})
        for graph, methods in tests.items():
            for method, seeds in methods.items():
                name = f"{graph}-{method}"
                entries[name] = Entry(MADE, graph, method, facts={"name": graph, "method": method, "epochs": 2})
                spent = {"train_seconds": (seconds or {}).get(method, 1.0)}
                outcomes[name] = made_outcome(name, seeds, folder=Path(folder), metric=metric, **spent)
        asked = Request(budget="smoke", seeds=(1, 2, 3), **request)
        return survey_finding(asked, Grid(entries, outcomes), missing or {})


FOUR = {
    f"g{i}": {
        "full": [0.70 + 0.01 * i + noise for noise in (0.0, 0.011, -0.008)],
        "saint": [0.72 + noise for noise in (0.0, 0.01, -0.01)],
        "rns": [0.60 + 0.02 * i + noise for noise in (0.003, 0.0, -0.01)],
        OURS[0]: [0.75 + noise for noise in (0.001, 0.01, -0.01)],
    }
    for i in range(5)
}


def test_every_sampler_has_about_four_batches() -> None:
    graph = make_graph(200)
    for method, options in options_for(graph, layers=2).items():
        job = set_up(Experiment("debian", layers=2), method, options)
        assert job.method == method
        steps = sum(1 for _ in job.sampler.sample(graph, 0, 0))
        assert steps == (1 if method == "full" else STEPS), method


def test_ranks_and_tests_over_graphs() -> None:
    found = made(FOUR, {"far": "not here"})
    check(found)
    means = np.array([[np.mean(FOUR[g][m]) for m in ("full", "saint", "rns", OURS[0])] for g in FOUR])
    by_hand = np.mean([rankdata(-row) for row in means], axis=0)
    ranks = found.payload["equal epochs"]["ranks"]
    assert [ranks["mean"][m] for m in ("full", "saint", "rns", OURS[0])] == pytest.approx(by_hand.tolist())
    assert ranks["critical_difference"] == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 5)), rel=1e-3)
    assert found.tables[0].rows[-1][0].text == "mean rank"
    against = {row["method"]: row for row in found.payload["equal epochs"]["against"]}
    assert against["saint"]["points"] == pytest.approx(3.0, abs=0.05)
    assert (against["saint"]["better"], against["saint"]["worse"]) == (5, 0)
    assert all(row["p"] <= row["p_holm"] <= 1 for row in against.values())
    assert found.facts["left out"] == "far: not here"
    assert METHODS[OURS[0]] in found.words
    ranked = found.charts[0].views[0].series
    assert ranked[0].name == METHODS[OURS[0]]
    assert ranked[0].high[0] - ranked[0].low[0] == pytest.approx(ranks["critical_difference"])


def test_best_settings_are_another_question() -> None:
    found = made(FOUR, tune_each=5)
    check(found)
    assert found.payload["best settings"]["ranks"]["mean"] == made(FOUR).payload["equal epochs"]["ranks"]["mean"]
    assert "equal epochs" not in found.payload


def test_the_search_for_best_settings_chooses_the_number_of_batches(tmp_path: Path) -> None:
    graph = make_graph(400)
    for steps in TRIED:
        for method, options in options_for(graph, 2, steps).items():
            job = set_up(Experiment("debian", layers=2, epochs=40), method, options, tuned=True)
            drawn = sum(1 for _ in job.sampler.sample(graph, 0, 0))
            assert abs(drawn - (1 if method == "full" else steps)) <= 1, method  # METIS leaves a cluster empty
            assert (job.settings.epochs, job.settings.patience) == (300, PATIENCE)
    entries, _ = plan_jobs(Request(budget="smoke", tune_each=1, out=tmp_path))
    assert {len(entry.samplers) for entry in entries.values() if entry.column != "full"} == {len(TRIED)}


@pytest.mark.slow
def test_each_method_is_trained_with_its_best_settings(tmp_path: Path) -> None:
    graph = "synthetic?nodes=120&degree=4&features=8&classes=3"
    found = run_study("survey", Request(graph=graph, budget="smoke", epochs=2, tune_each=1, out=tmp_path, jobs=2))
    check(found)
    assert not found.failed
    assert [cell["method"] for cell in found.payload["cells"]] == list(METHODS)
    (table,) = found.details
    assert len(table.rows) == len(METHODS)


def test_our_methods_have_half_of_the_seconds_of_neighbour_sampling() -> None:
    every = {g: {**methods, "neighbor": [0.8, 0.8, 0.8]} for g, methods in FOUR.items()}
    (row,) = made(every).payload["half"]
    assert (row["ours"], row["method"]) == (OURS[0], "neighbor")
    assert row["points"] == pytest.approx(100 * (np.mean(FOUR["g0"][OURS[0]]) - 0.8))


def test_equal_seconds_are_those_of_neighbour_sampling_even_if_another_method_is_slower() -> None:
    slow = {"neighbor": 4.0, "ladies": 10.0, "rns": 2.0, OURS[0]: 2.0}
    assert made({"g": {name: [0.9, 0.9, 0.9] for name in slow}}, seconds=slow).payload["seconds"] == {"g": 4.0}


def test_a_limit_of_seconds_cuts_all_methods_but_those_without_a_limit() -> None:
    lines = [{"epoch": e, "train_seconds": float(e), "val": v, "test": v} for e, v in ((1, 0.5), (2, 0.9))]
    outcomes = {name: made_outcome(name, [0.9]) for name in ("saint", "neighbor")}
    for outcome in outcomes.values():
        assert outcome.summary is not None
        outcome.summary.runs[0].history = lines
    grid = cut_grid(
        Grid({name: Entry(MADE, "g", name) for name in outcomes}, outcomes), "train_seconds", {"g": 1.5}, ["neighbor"]
    )
    assert (grid.mean("g", "saint"), grid.mean("g", "neighbor")) == (0.5, 0.9)


def test_a_failure_costs_its_graph_the_ranks_alone() -> None:
    found = made({**FOUR, "g9": {**FOUR["g0"], "saint": None}})
    assert found.failed == ("g9-saint",)
    assert found.payload["equal epochs"]["ranks"]["graphs"] == list(FOUR)
    assert found.tables[0].rows[5][2].text == "failed"
    assert made({"g0": FOUR["g0"]}).payload["equal epochs"]["ranks"] is None


def test_numbers_are_in_their_own_unit_and_have_no_part_in_the_ranks() -> None:
    errors = {g: {m: [1000 * v for v in seeds] for m, seeds in methods.items()} for g, methods in FOUR.items()}
    found = made(errors, metric="mae")
    assert (found.payload["equal epochs"]["ranks"], found.payload["equal epochs"]["against"]) == (None, [])
    first = found.tables[0].rows[0]
    assert [cell.rank for cell in first[1:]] == [2, 0, 1, 0]  # the least error is the best
    assert first[1].text.startswith("701")
    (view,) = found.charts[0].views
    full = next(series for series in view.series if series.name == METHODS["full"])
    off = np.subtract(errors["g0"]["full"], errors["g0"]["rns"])
    assert full.y[0] == pytest.approx(off.mean())


def test_every_sampler_on_two_small_graphs(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("survey", tmp_path, graph=None)
    assert [cell["method"] for cell in found.payload["cells"]] == list(METHODS) * 2
    assert len(untrained) == 2 * len(METHODS)
    same = {
        job.with_(epochs=1, first_hop="auto", mean_field=0, label_features="no").settings for job in untrained.values()
    }
    assert len(same) == 1  # one budget
    assert {job.settings.epochs for job in untrained.values()} == {2, 2 * LONGER}


def test_graphs_that_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="survey"):
        run_study("survey", Request("nowhere.npz", budget="smoke", out=tmp_path))
