"""``handful shard`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

from cli.run import handful
from handful.shuffle.shards import is_sharded

SMALL = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--parts", 2, "--seeds", 1)


def test_a_graph_in_one_shard_trains_to_what_the_graph_trains_to(npz: Path, tmp_path: Path) -> None:
    result = handful("shard", npz, "--shards", 1, "--out", tmp_path / "one", "--json")
    assert result.code == 0, result.stderr
    assert (result.json["graph"], result.json["shards"], result.json["cuts"]) == ("my", 1, [0, 400])
    assert is_sharded(tmp_path / "one")
    runs = {}
    for name, graph in {"whole": npz, "shards": tmp_path / "one"}.items():
        result = handful("train", graph, *SMALL, "--checksums", "--out", tmp_path / name, "--json")
        assert result.code == 0, result.stderr
        runs[name] = result.json
    assert runs["whole"]["batches"] == runs["shards"]["batches"]
    assert runs["whole"]["test"] == runs["shards"]["test"]
    assert "assessment" not in runs["shards"]


def test_it_says_what_comes_next(npz: Path, tmp_path: Path) -> None:
    result = handful("shard", npz, "--shards", 2, "--out", tmp_path / "two")
    assert result.code == 0, result.stderr
    assert f"next: handful train {tmp_path / 'two'} --processes 2" in result.stdout.replace("\n", " ")
    for args, message in {
        ("shard", npz, "--shards", 2, "--out", tmp_path / "two"): "exists: choose another place for the shards",
        ("shard", npz, "--shards", 500, "--out", tmp_path / "b"): "has 400 nodes, and cannot be cut into 500 shards",
        ("train", tmp_path / "two", *SMALL, "--out", tmp_path / "run"): "has 2 shards, and there is 1 rank: start 2",
        ("info", tmp_path / "two"): "has 2 shards, and there is 1 rank: start 2",
    }.items():
        result = handful(*args)
        assert result.code == 2
        assert message in result.stderr
