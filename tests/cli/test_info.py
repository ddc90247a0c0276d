"""``handful info`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.run import handful


def write_graph(path: Path) -> str:
    """A triangle, a pair and a node alone."""
    edges = np.array([[0, 1, 2, 3], [1, 2, 0, 4]])
    both = np.concatenate([edges, edges[::-1]], axis=1)
    np.savez(path, edge_index=both, x=np.eye(6, dtype=np.float32), y=np.array([0, 0, 1, 1, 1, 0]))
    return str(path)


def test_info_as_json(tmp_path: Path) -> None:
    result = handful("info", write_graph(tmp_path / "small.npz"), "--split", "rh", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert found == {
        "graph": "small",
        "nodes": 6,
        "edges": 8,
        "density": pytest.approx(8 / 30),
        "average_degree": pytest.approx(8 / 6),
        "isolated": 1,
        "components": 3,
        "homophily": pytest.approx(0.5),
        "adjusted_homophily": pytest.approx(0.0, abs=1e-12),
        "unbiased_homophily": pytest.approx(0.0, abs=1e-12),
        "diameter": 1,
        "average_distance": 1.0,
        "classes": 2,
        "features": 6,
        "split": {"train": 3, "val": 2, "test": 1},
        "undirected": True,
        "metric": "accuracy",
    }


def test_info_for_people(tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", edge_index=np.array([[0, 1], [1, 2]]), num_nodes=3)
    result = handful("info", str(tmp_path / "bare.npz"))
    assert result.code == 0, result.stderr
    text = result.stdout
    for part in ("bare, directed", "at least 2", "no split", "homophily", "edge –, adjusted –, unbiased –"):
        assert part in text


def test_info_of_debian() -> None:
    result = handful("info", "debian", "--split", "rl", "--sources", "4", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert (found["nodes"], found["edges"], found["classes"], found["features"]) == (63_436, 590_600, 58, 128)
    assert (found["isolated"], found["components"]) == (3_060, 3_320)
    assert found["homophily"] == pytest.approx(0.467, abs=0.001)
    assert found["split"] == {"train": 6_344, "val": 6_344, "test": 50_748}
    assert 3 < found["average_distance"] < 4.5


def test_info_of_what_does_not_exist() -> None:
    result = handful("info", "debain", "--json")
    assert result.code == 2
    assert result.stdout == ""
    assert "did you mean debian" in result.stderr
