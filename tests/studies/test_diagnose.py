from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from handful import Experiment, make_sampler, open_run
from handful.errors import RunError
from handful.nn import make_model
from handful.studies.diagnose import BASE, diagnose_samplers, plane_chart, saved_model, term_chart, term_table
from handful.theory import diagnosis
from handful.theory.implicit import modified_loss
from handful.vocabulary import TERMS
from studies.smoke import GRAPH, check

SMALL = Experiment(GRAPH, **{**BASE, "hidden": 8}, norm="ln", seeds=(3, 4))
SAMPLERS = [make_sampler("rns"), make_sampler("saint", roots=20), make_sampler("full")]


def test_the_finding_is_the_diagnosis_of_the_first_seed(tmp_path: Path) -> None:
    seen: list[str] = []
    found = diagnose_samplers(SMALL, SAMPLERS, batches=3, repeats=2, report=lambda sampler: seen.append(sampler.name))
    check(found, tmp_path)
    assert sorted(seen) == ["full", "full", "rns", "rns", "saint", "saint"]
    assert set(found.payload) == {"graph", "settings", "samplers", "alpha_R_rank_correlation", "words"}
    graph = SMALL.load(3)
    network = partial(make_model, "sage", graph.num_features, graph.num_outputs, **SMALL.options)
    own = diagnosis.diagnose(graph, SAMPLERS, network, 3, 2, 3)
    for row, expected in zip(found.payload["samplers"], own, strict=True):
        assert row["R"]["mean"] == pytest.approx(expected.mean("R"), rel=1e-4, abs=1e-9)
    assert [row["name"] for row in found.payload["samplers"]] == ["rns", "saint", "full"]
    assert found.facts["hidden"] == "8"
    assert "random initialisation" in found.title


def test_tables_and_charts_of_terms() -> None:
    graph = SMALL.load(3)
    network = partial(make_model, "sage", graph.num_features, graph.num_outputs, **SMALL.options)
    own = diagnosis.diagnose(graph, SAMPLERS[:2], network, 3, 2, 3)
    table = term_table("T", own, step=0.1, momentum=0.5)
    rows = {row[0].text: row[1:] for row in table.rows}
    assert table.head == ["", "RNS", "GraphSAINT"]
    best = int(np.argmin([d.mean("R") for d in own]))
    assert [cell.rank for cell in rows["R(w)"]][best] == 1
    assert {cell.rank for cell in rows["‖∇L̄‖²"]} == {0}
    modified = np.mean([modified_loss(terms, lr=0.1, momentum=0.5) for terms in own[0].terms])
    assert rows["L̃ at lr 0.1"][0].text == f"{modified:.4g}"
    assert "L̃ at lr 0.1" not in [row[0].text for row in term_table("T", own).rows]
    chart = term_chart("terms", own, "g")
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
        weights = saved_model(place).state_dict()
        assert all(bool((weights[name] == value).all()) for name, value in best.model.state_dict().items())
    with pytest.raises(RunError, match="holds no run"):
        saved_model(tmp_path)
