from __future__ import annotations

from pathlib import Path

import numpy as np

from handful.studies.implicit import SAMPLERS, facts, heading, measured
from handful.studies.request import Request
from studies.smoke import GRAPH, smoke


def test_the_terms_of_every_sampler(tmp_path: Path) -> None:
    found = smoke("implicit", tmp_path)
    assert set(found.payload) == {"graph", "batches", "seeds", "settings", "samplers"}
    assert [row["name"] for row in found.payload["samplers"]] == list(SAMPLERS)
    for row in found.payload["samplers"]:
        assert row["R"]["mean"] >= 0
        assert np.mean(row["repeats"]["R"]) == row["R"]["mean"]
    best = min(found.payload["samplers"], key=lambda row: row["R"]["mean"])["name"]
    ranked = [row[0].text for row in found.tables[0].rows if row[3].rank == 1]
    assert ranked == [
        {"rns": "RNS", "neighbor": "Neighbour sampling", "cluster": "ClusterGCN", "saint": "GraphSAINT"}[best]
    ]
    assert {row[4].rank for row in found.tables[0].rows} == {0}  # a small gradient is no merit


def test_progress_goes_over_samplers_and_initialisations() -> None:
    said: list[tuple[int, int]] = []
    what, found = measured(Request(GRAPH, budget="smoke", report=lambda done, total, word: said.append((done, total))))
    assert said == [(done, 8) for done in range(9)]
    assert heading(what) == f"{what['graph']} · 4 batches × 2 initialisations"
    assert (facts(what)["rns"].split(",")[0], facts(what)["batches"]) == ("parts = 4", "4")
    assert [d.name for d in found] == list(SAMPLERS)
