from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphs import make_graph
from handful import Graph, load
from handful.errors import HandfulError
from handful.studies.structure import in_words, sampled_structure
from handful.vocabulary import STRUCTURE
from studies.smoke import GRAPH, check, smoke


def test_measures_for_every_m(tmp_path: Path) -> None:
    found = smoke("structure", tmp_path)
    assert set(found.payload) == {"graph", "epochs", "settings", "parts"}
    assert [row["m"] for row in found.payload["parts"]] == [1, 4]
    whole = found.payload["parts"][0]
    graph = load(GRAPH).without_loops().coalesce()
    assert whole["edges"]["mean"] == graph.num_edges
    assert np.isnan(whole["edges"]["sd"])  # of one epoch
    assert whole["average_degree"]["mean"] == pytest.approx(graph.num_edges / graph.num_nodes)
    assert [view.name for view in found.charts[0].views] == [
        "isolated nodes (%)" if name == "isolated" else label for name, label in STRUCTURE.items()
    ]
    assert "From m = 1 to 4" in found.words


def test_a_progress_is_told_after_every_part_and_a_graph_without_labels_has_no_homophily(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 60, (2, 200))
    seen: list[int] = []
    found = sampled_structure(Graph.from_edge_index(edges, 60), [2, 3], 2, seed=0, report=seen.append)
    assert sorted(seen) == [2] * 4 + [3] * 6
    assert "homophily" not in [row[0].text for row in found.tables[0].rows]
    check(found, tmp_path)


def test_m_beyond_the_nodes_is_refused() -> None:
    for m in (0, 201):
        with pytest.raises(HandfulError, match=f"between 1 and the number of nodes, 200, got {m}"):
            sampled_structure(make_graph(200), [1, m], 1, seed=0)


def test_words_of_one_m() -> None:
    (row,) = sampled_structure(make_graph(200), [1], 1, seed=0).payload["parts"]
    assert in_words([row]).startswith("The largest component holds")
