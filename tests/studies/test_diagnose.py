from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from handful import Experiment, make_sampler, open_run
from handful.errors import RunError
from handful.nn import make_model
from handful.studies.diagnose import (
    ALONG,
    diagnose_samplers,
    mean_terms,
    plane_chart,
    read_saved_model,
    term_chart,
    term_table,
)
from handful.studies.diagnose import (
    SAMPLERS as STUDIED,
)
from handful.theory import diagnosis
from handful.theory.implicit import ImplicitTerms, modified_loss
from handful.vocabulary import METHODS, TERMS
from studies.smoke import GRAPH, check, smoke

SMALL = Experiment(GRAPH, hidden=8, layers=3, residual=False, norm="ln", seeds=(3, 4))
SAMPLERS = [make_sampler("rns"), make_sampler("saint", roots=20), make_sampler("full")]
JOBS = [SMALL.with_(sampler=sampler) for sampler in SAMPLERS]


def test_the_finding_is_the_diagnosis_of_the_first_seed() -> None:
    seen: list[str] = []
    found = diagnose_samplers(JOBS, batches=3, repeats=2, report=lambda sampler: seen.append(sampler.name))
    check(found)
    assert sorted(seen) == ["full", "full", "rns", "rns", "saint", "saint"]
    assert set(found.payload) == {"graph", "settings", "samplers", "alpha_R_rank_correlation", "words"}
    graph = SMALL.load(3)
    network = partial(make_model, "sage", graph.num_features, graph.num_outputs, **SMALL.options)
    own = diagnosis.diagnose(graph, SAMPLERS, network, 3, 2, 3)
    for row, expected in zip(found.payload["samplers"], own, strict=True):
        assert row["R"]["mean"] == pytest.approx(expected.mean("R"), rel=1e-4, abs=1e-9)
    assert [row["name"] for row in found.payload["samplers"]] == ["rns", "saint", "full"]
    assert found.facts["hidden"] == "8"


def test_tables_and_charts_of_terms() -> None:
    graph = SMALL.load(3)
    network = partial(make_model, "sage", graph.num_features, graph.num_outputs, **SMALL.options)
    own = diagnosis.diagnose(graph, SAMPLERS[:2], network, 3, 2, 3)
    table = term_table("T", own)
    rows = {row[0].text: row[1:] for row in table.rows}
    assert table.head == ["", "RNS", "GraphSAINT"]
    best = int(np.argmin([d.mean("R") for d in own]))
    assert [cell.rank for cell in rows[TERMS["R"]]][best] == 1
    assert {cell.rank for cell in rows[TERMS["grad_norm_sq"]]} == {0}
    found = diagnose_samplers(JOBS[:2], 3, 2, step=0.1, momentum=0.5)
    modified = np.mean([modified_loss(terms, lr=0.1, momentum=0.5, m=4) for terms in own[0].terms])
    assert found.tables[0].rows[-1][1].text == f"{modified:.4g}"
    assert len(found.tables[0].rows) == len(table.rows) + 1
    chart = term_chart(own, "g")
    assert chart.together
    assert [view.name for view in chart.views] == [
        TERMS[term] for term in ("bias", "loss_variance", "R", "grad_norm_sq")
    ]
    assert chart.views[2].series[0].y == [own[0].mean("R")]
    (plane,) = plane_chart(own, "g").views
    assert [(s.x, s.y) for s in plane.series] == [([d.mean("alpha_error")], [d.mean("R")]) for d in own]


def test_saved_models_are_found_in_every_kind_of_place(tmp_path: Path) -> None:
    Experiment(GRAPH, hidden=8, layers=1, epochs=2, seeds=(1, 2)).run(tmp_path / "run")
    best = open_run(tmp_path / "run")
    seed = tmp_path / "run" / f"seed-{best.result.seed}"
    for place in (tmp_path / "run", seed, seed / "model.safetensors", str(seed)):
        weights = read_saved_model(place).state_dict()
        assert all(bool((weights[name] == value).all()) for name, value in best.model.state_dict().items())
    with pytest.raises(RunError, match="holds no run"):
        read_saved_model(tmp_path)


# -- studies ----------------------------------------------------------------------------------------------------------


def test_the_terms_of_every_sampler_and_their_plane(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    found = smoke("implicit", tmp_path, report=lambda done, total, word: said.append((done, total)))
    assert said == [(done, 8) for done in range(9)]
    rows = found.payload["samplers"]
    assert [row["name"] for row in rows] == list(STUDIED)
    assert [chart.name for chart in found.charts] == ["terms", "alpha-R"]
    assert found.payload["settings"]["batches"] == 4
    for row in rows:
        assert np.mean(row["repeats"]["R"]) == row["R"]["mean"] >= 0
    best = min(rows, key=lambda row: row["R"]["mean"])["name"]
    ranks = {row[0].text: [cell.rank for cell in row[1:]] for row in found.tables[0].rows}
    assert found.tables[0].head[1 + ranks[TERMS["R"]].index(1)] == METHODS[best]
    points = [(row["alpha_error"]["mean"], row["R"]["mean"]) for row in found.payload["samplers"]]
    assert found.payload["alpha_R_rank_correlation"] == spearmanr(*zip(*points, strict=True)).statistic
    (view,) = found.charts[1].views
    assert [(series.x[0], series.y[0]) for series in view.series] == points


def test_along_adam_every_sampler_has_a_curve(tmp_path: Path) -> None:
    found = smoke("along-adam", tmp_path)
    assert list(found.payload["curves"]) == list(STUDIED)
    for one in found.payload["curves"].values():
        assert one["epoch"][0] == 0
        assert one["share"][-1] == 100
        assert len(one["R"]) == len(one["bias"]) == len(one["epoch"]) >= 2
        assert all(value >= 0 for value in one["R"])
    assert len(found.charts[0].views) == len(ALONG)
    assert float(found.tables[0].rows[0][1].text) == pytest.approx(found.payload["curves"]["rns"]["R"][0], rel=1e-2)


def test_curves_are_means_over_seeds_at_shares_of_the_training() -> None:
    def terms(r: float) -> ImplicitTerms:
        return ImplicitTerms(1.0, 1.0, 0.5, 0.1, R=r, grad_norm_sq=2.0, nodes=1.0, targets=1.0)

    runs = [[(epoch, terms(r)) for epoch, r in zip((0, 5, 10), own, strict=True)] for own in ((1, 3, 5), (3, 3, 7))]
    found = mean_terms(runs)
    assert found["share"] == [0, 50, 100]
    assert found["R"] == [2.0, 3.0, 6.0]
