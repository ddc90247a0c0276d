from __future__ import annotations

import numpy as np
import pytest

from graphs import make_graph
from handful import Graph, load
from handful.errors import HandfulError
from handful.studies.structure import sampled_structure
from handful.vocabulary import STRUCTURE
from studies.smoke import GRAPH, check


def test_measures_for_every_m() -> None:
    found = sampled_structure(load(GRAPH), (1, 4), 1, seed=42)
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
    found = sampled_structure(Graph.from_edge_index(edges, 60), [2, 3], 2, seed=0, report=seen.append)
    assert sorted(seen) == [2] * 4 + [3] * 6
    assert "homophily" not in [row[0].text for row in found.tables[0].rows]
    check(found)


def test_m_beyond_the_nodes_is_refused() -> None:
    for m in (0, 201):
        with pytest.raises(HandfulError, match=f"200, got {m}"):
            sampled_structure(make_graph(200), [1, m], 1, seed=0)
