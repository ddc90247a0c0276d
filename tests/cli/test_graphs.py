"""``handful info``, ``structure`` and ``shard`` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli.run import handful
from graphs import make_graph
from handful.shuffle.shards import is_sharded
from handful.vocabulary import STRUCTURE

MEASURES = set(STRUCTURE) - {"homophily"}
SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--parts", 2, "--seeds", 1)


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
        "largest_component": 3,
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
    for part in ("bare", "directed", "homophily"):
        assert part in result.stdout


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
    assert "debian" in result.stderr


def test_structure_json(npz: Path, tmp_path: Path) -> None:
    result = handful("structure", npz, "--parts", "1,2,8", "--epochs", 3, "--out", tmp_path / "s", "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert [row["m"] for row in found["parts"]] == [1, 2, 8]
    for row in found["parts"]:
        assert all(set(row[name]) == {"mean", "sd"} for name in MEASURES)
    assert found["parts"][0]["edges"] == {"mean": make_graph(400).without_loops().coalesce().num_edges, "sd": 0}
    assert json.loads((tmp_path / "s" / "structure.json").read_text())["settings"]["epochs"] == 3
    assert "<svg" in (tmp_path / "s" / "structure.svg").read_text()


def test_structure_of_a_graph_without_labels(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, 100, (2, 300))
    np.savez(tmp_path / "bare.npz", edge_index=edges, num_nodes=100)
    result = handful("structure", tmp_path / "bare.npz", "--epochs", 1)
    assert result.code == 0, result.stderr
    assert "homophily" not in result.stdout
    refused = handful("structure", tmp_path / "bare.npz", "--parts", "1,200")
    assert refused.code == 2
    assert "200" in refused.stderr


def test_a_graph_in_one_shard_trains_to_what_the_graph_trains_to(npz: Path, tmp_path: Path) -> None:
    result = handful("shard", npz, "--shards", 1, "--out", tmp_path / "one", "--json")
    assert result.code == 0, result.stderr
    assert (result.json["graph"], result.json["shards"], result.json["cuts"]) == ("my", 1, [0, 400])
    assert is_sharded(tmp_path / "one")
    runs = {}
    for name, graph in {"whole": npz, "shards": tmp_path / "one"}.items():
        same = ("--label-features", "no")  # a shard has no labels of neighbours
        result = handful("train", graph, *SMALL, *same, "--checksums", "--out", tmp_path / name, "--json")
        assert result.code == 0, result.stderr
        runs[name] = result.json
    assert runs["whole"]["batches"] == runs["shards"]["batches"]
    assert runs["whole"]["test"] == runs["shards"]["test"]
    assert "assessment" not in runs["shards"]


def test_it_says_what_comes_next(npz: Path, tmp_path: Path) -> None:
    result = handful("shard", npz, "--shards", 2, "--out", tmp_path / "two")
    assert result.code == 0, result.stderr
    assert f"handful train {tmp_path / 'two'} --processes 2" in result.stdout.replace("\n", " ")
    for args, said in {
        ("shard", npz, "--shards", 2, "--out", tmp_path / "two"): "two",
        ("shard", npz, "--shards", 500, "--out", tmp_path / "b"): "500",
        ("train", tmp_path / "two", *SMALL, "--out", tmp_path / "run"): "2 shards",
        ("info", tmp_path / "two"): "2 shards",
    }.items():
        result = handful(*args)
        assert result.code == 2
        assert said in result.stderr
