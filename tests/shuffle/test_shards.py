"""Graphs in shards: their files, what is refused, and what every rank knows of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import handful as hf
from graphs import make_graph
from handful.errors import DatasetError, GraphError
from handful.shuffle.shards import ShardedGraph, even_cuts, is_sharded, open_shards, shard
from handful.storage import Folder
from in_ranks import Launch, shared_launch

__all__ = ["shared_launch"]


@settings(max_examples=30)
@given(nodes=st.integers(1, 60), shards=st.integers(1, 12), degree=st.integers(1, 5))
def test_every_shard_has_a_node_and_about_as_many_bytes(nodes: int, shards: int, degree: int) -> None:
    edges = torch.randint(nodes, (2, nodes * degree), generator=torch.Generator().manual_seed(nodes))
    graph = hf.Graph.from_edge_index(edges, nodes, x=torch.zeros(nodes, 3))
    if shards > nodes:
        with pytest.raises(GraphError, match="cannot be cut"):
            even_cuts(graph, shards)
        return
    cuts = even_cuts(graph, shards)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, nodes, shards + 1)
    assert min(np.diff(cuts)) >= 1


def test_one_shard_is_the_graph(tmp_path: Path) -> None:
    graph = make_graph(50, undirected=False, weighted=True)
    path = shard(graph, tmp_path / "one", 1)
    assert is_sharded(path)
    opened = hf.load(path)
    assert isinstance(opened, ShardedGraph)
    assert repr(opened) == repr(graph)
    assert opened.identity() == graph.identity()
    assert opened.checksum == graph.checksum
    assert opened.has_loops == graph.has_loops
    for name in ("indptr", "indices", "x", "y", "edge_weight", "train_mask", "val_mask", "test_mask", "in_degree"):
        assert torch.equal(getattr(opened, name), getattr(graph, name)), name
    assert opened.replace(metric="balanced_accuracy").identity()["metric"] == "balanced_accuracy"


def test_every_byte_of_a_graph_is_in_one_shard(tmp_path: Path) -> None:
    graph = make_graph(50, weighted=True)
    shard(graph, tmp_path / "three", 3)
    for name in ("indices", "x", "y", "edge_weight", "train_mask", "val_mask", "test_mask"):
        pieces = [np.load(tmp_path / "three" / f"shard-{k}" / f"{name}.npy") for k in range(3)]
        assert np.array_equal(np.concatenate(pieces), getattr(graph, name).numpy()), name


def test_what_is_in_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(DatasetError, match="exists: choose another place"):
        shard(make_graph(20), tmp_path / "there", 2)
    with pytest.raises(GraphError, match="has no x"):
        shard(hf.Graph.from_edge_index([[0], [1]]), tmp_path / "new", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_shard_that_is_not_what_was_written_is_refused(tmp_path: Path) -> None:
    path = shard(make_graph(20), tmp_path / "one", 1) / "shard-0"
    header, whole = json.loads((path / "graph.json").read_text()), (path / "indices.npy").read_bytes()
    changed = bytearray(whole)
    changed[-1] ^= 64
    (path / "indices.npy").write_bytes(changed)
    with pytest.raises(DatasetError, match="its checksum differs"):
        open_shards(path.parent)
    (path / "indices.npy").write_bytes(whole)
    open_shards(path.parent)
    for odd in ({"cuts": [0, 20, 10]}, {"cuts": [0]}, {"edges": "many"}, {"arrays": {}}, {"format": "other"}):
        (path / "graph.json").write_text(json.dumps({**header, **odd}))
        with pytest.raises(DatasetError, match="is not the header of"):
            open_shards(path.parent)
    (path / "graph.json").write_text(json.dumps({**header, "cuts": [0, 19]}))
    with pytest.raises(DatasetError, match="not a valid shard"):
        open_shards(path.parent)
    (path / "graph.json").write_text(json.dumps({**header, "num_classes": 2}))
    with pytest.raises(DatasetError, match="not a valid shard"):
        open_shards(path.parent)


def test_indices_beyond_the_graph_never_reach_a_kernel(tmp_path: Path) -> None:
    graph = make_graph(20)
    path = shard(graph, tmp_path / "one", 1)
    header = json.loads((path / "shard-0" / "graph.json").read_text())
    bad = graph.indices.numpy().copy()
    bad[3] = 20
    folder = Folder(path / "shard-0")
    with folder.array("indices", "int32") as out:
        out.append(bad)
    header["arrays"]["indices"] = folder.arrays["indices"]
    (path / "shard-0" / "graph.json").write_text(json.dumps(header))
    with pytest.raises(DatasetError, match="not a valid shard"):
        open_shards(path)


def test_as_many_ranks_as_shards(tmp_path: Path) -> None:
    path = shard(make_graph(20), tmp_path / "two", 2)
    with pytest.raises(DatasetError, match="has 2 shards, and the number of ranks is 1: start 2"):
        hf.load(path)


def test_bad_shards_and_what_shards_cannot_do_are_said(shared_launch: Launch) -> None:
    first, second = shared_launch["bad_shards"]
    elsewhere = "ToldElsewhere: rank 1: "
    for name, error in {
        "cut short": "/bad/cut short/shard-1/x.npy is cut short: it has 100 bytes of ",
        "missing": "/bad/missing/shard-1 is missing: /bad/missing has 1 shards here, and there are 2 ranks",
        "of another version": "/bad/of another version/shard-1 was saved in version 99",
    }.items():
        assert second[name].startswith(f"DatasetError: {error}"), second[name]
        assert first[name].startswith(f"{elsewhere}{error}"), first[name]
    assert first["of another graph"].startswith("RankError: /bad/of another graph of rank 0 and of rank 1 are of diff")
    assert second["of another graph"].startswith("RankError: /bad/of another graph of rank 1 and of rank 0 are of diff")
    assert first["too many"].startswith(
        "DatasetError: /bad/too many has 3 shards, and the number of ranks is 2: start 3"
    )
    assert second["too many"].startswith("ToldElsewhere: rank 0: ")
    refused = "GraphError: graph is in shards, which do not have "
    for name, error in {
        "sampler": "SamplerError: the batches of neighbor",
        "model": "HandfulError: a graph in shards is evaluated layer by layer, and SGFormer",
        "evaluation": "HandfulError: a graph in shards is evaluated exactly",
        "split": f"{refused}another test_mask, train_mask, val_mask",
        "device": f"{refused}device meta",
        "edges": f"{refused}all edges in one place",
    }.items():
        assert first[name].startswith(error), first[name]
        if name in ("sampler", "model", "evaluation"):  # found when a run begins, and said by one rank
            error = f"ToldElsewhere: rank 0: {error.partition(': ')[2]}"
        assert second[name].startswith(error), second[name]
