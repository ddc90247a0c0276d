"""``handful structure`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cli.run import handful
from graphs import make_graph

MEASURES = {
    "edges",
    "average_degree",
    "isolated",
    "components",
    "largest_component",
    "diameter_lower_bound",
    "average_distance",
}


def test_structure_json(npz: Path, tmp_path: Path) -> None:
    result = handful("structure", npz, "--parts", "1,2,8", "--epochs", 3, "--out", tmp_path / "s", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert set(found) == {"graph", "parts"}
    assert [row["m"] for row in found["parts"]] == [1, 2, 8]
    for row in found["parts"]:
        assert set(row) == {"m", *MEASURES}
        assert all(set(row[name]) == {"mean", "sd"} for name in MEASURES)
    assert found["parts"][0]["edges"] == {"mean": make_graph(400).without_loops().coalesce().num_edges, "sd": 0}
    assert json.loads((tmp_path / "s" / "structure.json").read_text())["settings"]["epochs"] == 3
    assert "<svg" in (tmp_path / "s" / "structure.svg").read_text()
    people = handful("structure", npz, "--parts", "1,2", "--epochs", 2)
    assert people.code == 0
    assert "From m = 1 to 2" in people.stdout


def test_structure_of_a_graph_without_labels(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 100, (2, 300))
    np.savez(tmp_path / "bare.npz", edge_index=edges, num_nodes=100)
    result = handful("structure", tmp_path / "bare.npz", "--epochs", 1)
    assert result.code == 0, result.stderr
    assert "homophily" not in result.stdout
    refused = handful("structure", tmp_path / "bare.npz", "--parts", "1,200")
    assert refused.code == 2
    assert "between 1 and the number of nodes, 100, got 200" in refused.stderr
