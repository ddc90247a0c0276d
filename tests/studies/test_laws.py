from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphs import make_graph
from handful import Graph, load
from handful.errors import HandfulError
from handful.studies import Request, run_study
from handful.studies.laws import BACKBONES, measure_structure, noisy_graph, tail_lines
from handful.vocabulary import FLOWS, STRUCTURE
from studies.smoke import GRAPH, check, smoke

SEARCHES: dict[str, Any] = {"sources": 16, "sweeps": 4, "report": lambda m: None}


@pytest.mark.slow
def test_the_modified_loss_holds_to_third_order_and_the_others_to_second(tmp_path: Path) -> None:
    found = smoke("backward-error", tmp_path)
    (case,) = found.payload["cases"]
    slopes = case["slopes"]
    assert slopes["modified"] == pytest.approx(3, abs=0.15)
    assert slopes["unmodified"] == pytest.approx(2, abs=0.15)
    assert slopes["appendix_coefficient"] == pytest.approx(2, abs=0.15)
    for name, errors in case["errors"].items():
        fitted = np.polyfit(np.log(case["steps"]), np.log(errors), 1)[0]
        assert fitted == pytest.approx(slopes[name], abs=0.1)
    assert [row[1].rank for row in found.tables[0].rows] == [1, 0, 0]
    assert FLOWS["sgd"]["modified"] in found.words


@pytest.mark.slow
def test_momentum_has_two_coefficients(tmp_path: Path) -> None:
    (case,) = smoke("backward-error", tmp_path, optimizer="sgdm").payload["cases"]
    slopes = case["slopes"]
    assert slopes["modified"] == pytest.approx(3, abs=0.15)
    assert all(slopes[name] < 2.4 for name in FLOWS["sgdm"] if name != "modified")


@pytest.mark.slow
def test_the_correction_of_adam_holds_for_a_large_epsilon(tmp_path: Path) -> None:
    found = smoke("backward-error", tmp_path, optimizer="adam")
    assert [(case["eps"], case["parts"]) for case in found.payload["cases"]][:3] == [(1.0, 1), (1.0, 4), (0.1, 1)]
    slopes = found.payload["cases"][0]["slopes"]
    assert slopes["modified"] == pytest.approx(3, abs=0.15)
    assert slopes["unmodified"] == pytest.approx(2, abs=0.15)
    assert len(found.tables[0].rows) == 2 * len(found.payload["cases"])


def test_an_optimiser_is_for_one_study_and_known() -> None:
    with pytest.raises(HandfulError, match="backward-error"):
        run_study("bias-bound", Request(optimizer="adam"))
    with pytest.raises(HandfulError, match="lion"):
        run_study("backward-error", Request(optimizer="lion"))


def test_the_graph_is_small_undirected_and_the_same_for_a_seed() -> None:
    graph = noisy_graph(50, 3)
    assert graph.num_nodes == 50
    assert graph.undirected
    assert noisy_graph(50, 3).checksum == graph.checksum != noisy_graph(50, 4).checksum


def test_the_bias_stays_below_its_bound(tmp_path: Path) -> None:
    found = smoke("bias-bound", tmp_path)
    assert set(found.payload) == {"graph", "bounds", "splits", "sigma_over_share"}
    bounds = found.payload["bounds"]
    assert [b["m"] for b in bounds] == [1, 2, 4, 8, 16]
    assert all(b["bias"] <= b["bound"] + b["bias_ci95"] for b in bounds[1:])
    assert all(b["average_bound"] <= b["bound"] for b in bounds)
    assert bounds[0]["bias"] == pytest.approx(0, abs=1e-6)  # one part is the whole graph
    assert list(found.payload["splits"]) == ["rns", "neighbor", "cluster", "saint"]
    assert [row[0].text for row in found.tables[0].rows] == ["1", "2", "4", "8", "16"]
    for b, over in zip(bounds[1:], found.payload["sigma_over_share"]["sage"], strict=True):
        assert over == pytest.approx(b["sigma_average"] / (1 - 1 / b["m"]))
    assert [len(row) for row in found.tables[2].rows] == [1 + len(BACKBONES)] * 4
    (chart,) = found.charts
    assert chart.views[0].series[0].x == [2, 4, 8, 16]  # a log scale has no place for what is 0


def test_the_law_is_near_what_is_sampled(tmp_path: Path) -> None:
    found = smoke("degree-law", tmp_path)
    assert set(found.payload) == {"graph", "parts"}
    n = load(GRAPH).num_nodes
    for row in found.payload["parts"]:
        assert set(row) == {"m", "alpha", "survival", "survival_sampled", "distance", "tail", "tail_law"}
        assert row["distance"] < 0.15
        assert row["survival"] == pytest.approx(1 / row["m"], abs=20 / n)
        assert row["survival_sampled"] == pytest.approx(row["survival"], abs=0.1)
    assert found.payload["parts"][0]["distance"] < 1e-9
    assert found.payload["parts"][0]["tail"] == found.payload["parts"][0]["tail_law"] == 1


def test_the_tail_of_a_power_law_shrinks_as_the_law_says(tmp_path: Path) -> None:
    graph = "synthetic?nodes=40000&degree=12&features=2&classes=2&exponent=2.3"
    for row in smoke("degree-law", tmp_path, graph=graph).payload["parts"][:3]:
        assert row["tail"] == pytest.approx(row["tail_law"], rel=0.25)


def test_the_views_of_the_degree_law(tmp_path: Path) -> None:
    found = smoke("degree-law", tmp_path)
    assert [view.name for view in found.charts[0].views] == ["degrees", "edges", "exponent"]


def test_tails_are_sums_from_the_right() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.1])
    exact, seen = tail_lines(4, law, np.array([0.5, 0.5, 0.0, 0.0]), color=2)
    assert exact.x == seen.x == [1]  # no sample goes further
    assert exact.y == [pytest.approx(0.6)]
    assert seen.y == [pytest.approx(0.5)]
    assert (exact.mark, seen.mark, seen.color) == (None, "dot", 2)


def test_measures_for_every_m() -> None:
    found = measure_structure(load(GRAPH), (1, 4), 1, seed=42, **SEARCHES)
    check(found)
    assert [row["m"] for row in found.payload["parts"]] == [1, 4]
    whole = found.payload["parts"][0]
    graph = load(GRAPH).without_loops().coalesce()
    assert whole["edges"]["mean"] == graph.num_edges
    assert np.isnan(whole["edges"]["sd"])  # of one epoch
    assert whole["average_degree"]["mean"] == pytest.approx(graph.num_edges / graph.num_nodes)
    assert len(found.charts[0].views) == len(STRUCTURE)


def test_a_progress_is_told_after_every_part_and_a_graph_without_labels_has_no_homophily() -> None:
    edges = np.random.default_rng(0).integers(0, 60, (2, 200))
    seen: list[int] = []
    found = measure_structure(
        Graph.from_edge_index(edges, 60), [2, 3], 2, seed=0, sources=16, sweeps=4, report=seen.append
    )
    assert sorted(seen) == [2] * 4 + [3] * 6
    assert "homophily" not in [row[0].text for row in found.tables[0].rows]
    check(found)


def test_m_beyond_the_nodes_is_refused() -> None:
    for m in (0, 201):
        with pytest.raises(HandfulError, match=f"200, got {m}"):
            measure_structure(make_graph(200), [1, m], 1, seed=0, **SEARCHES)
