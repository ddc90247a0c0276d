from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from handful.datasets.files import read_graph
from handful.errors import DatasetError, GraphError, HandfulError
from handful.graph import MASKS, Graph
from handful.storage import save

SHARED = Path(__file__).parents[3] / "shared" / "data"
GOOD: dict[str, Any] = {
    "edge_index": np.array([[0, 1, 2, 3], [1, 2, 3, 0]]),
    "x": np.eye(4, dtype=np.float32),
    "y": np.array([0, 1, 0, 1]),
    "train_mask": np.array([True, True, False, False]),
    "val_mask": np.array([False, False, True, False]),
    "test_mask": np.array([False, False, False, True]),
}


def write(path: Path, without: tuple[str, ...] = (), **changes: Any) -> Path:
    np.savez(path, **{k: v for k, v in (GOOD | changes).items() if k not in without})
    return path


def assert_good(graph: Graph) -> None:
    assert graph.edge_index.tolist() == [[3, 0, 1, 2], [0, 1, 2, 3]]
    assert graph.x is not None
    assert graph.x.tolist() == np.eye(4).tolist()
    assert graph.y is not None
    assert graph.y.tolist() == [0, 1, 0, 1]
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[0, 1], [2], [3]]


def test_npz(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path / "mine.npz"))
    assert_good(graph)
    assert graph.name == "mine"
    ids = {"train_idx": np.array([1, 0]), "valid_idx": np.array([2]), "test_idx": np.array([3])}
    assert_good(read_graph(write(tmp_path / "ids.npz", without=MASKS, **ids)))


def test_npz_options(tmp_path: Path) -> None:
    folds = {m: np.stack([np.zeros(4, bool), GOOD[m]], axis=1) for m in MASKS}
    assert_good(read_graph(write(tmp_path / "a.npz", **folds), fold=1))
    more = {"edge_weight": np.arange(4.0), "num_nodes": 4, "num_classes": 5, "class_names": np.array(list("abcde"))}
    graph = read_graph(write(tmp_path / "b.npz", **more), name="other")
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [3, 0, 1, 2]
    assert (graph.num_classes, graph.class_names, graph.name) == (5, tuple("abcde"), "other")
    assert read_graph(write(tmp_path / "c.npz"), metric="roc_auc").metric == "roc_auc"
    topology = read_graph(write(tmp_path / "d.npz", without=("x", "y", *MASKS), num_nodes=7))
    assert (topology.num_nodes, topology.x, topology.train_mask) == (7, None, None)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"edge_index": np.array([[0, 1], [1, 4]])}, "edge 1 has target 4"),
    ({"edge_index": np.array([[0, -1], [1, 2]])}, "edge 1 has source -1"),
    ({"edge_index": np.zeros((3, 4), int)}, r"edge_index must have shape \(2, E\), got \(3, 4\)"),
    ({"edge_index": np.zeros((2, 4))}, "edge_index must hold integers"),
    ({"x": np.eye(3), "num_nodes": 4}, r"x must have shape \(4, features\)"),
    ({"x": np.zeros((4, 2, 2))}, r"x must have shape \(4, features\)"),
    ({"x": np.array([[1.0], [np.nan], [0], [0]])}, r"x\[1, 0\] is nan"),
    ({"x": np.array([["a"], ["b"], ["c"], ["d"]])}, "x must be real numbers, got <U1"),
    ({"x": np.array([None, 1, 2, 3])}, "array 'x' cannot be read"),
    ({"y": np.array([0, 1, 0])}, r"y must have shape \(4,\)"),
    ({"y": np.array([0, -2, 0, 1])}, r"y\[1\] is -2"),
    ({"y": np.array([0, 1.5, 0, 1]), "task": np.array("classification")}, "y must hold whole numbers"),
    ({"y": np.array([0, 9, 0, 1]), "num_classes": 3}, r"y\[1\] is 9: labels run from 0 to 2"),
    ({"y": np.array([0, 1, -1, 1])}, "node 2 is in val_mask but has no label"),
    ({"val_mask": GOOD["train_mask"]}, "train_mask and val_mask overlap in 2 nodes, the first being 0"),
    ({"train_mask": np.zeros(4, bool)}, "train_mask is empty"),
    ({"train_mask": np.zeros(3, bool)}, "train_mask has 3 values for 4 nodes"),
    ({"train_mask": np.zeros((4, 10), bool)}, "train_mask holds 10 splits"),
    ({"train_mask": np.array([0, 11])}, r"train_mask\[1\] is node 11"),
    ({"edge_weight": np.ones(3)}, "edge_weight has 3 values for 4 edges"),
    ({"num_nodes": 3}, "node ids run from 0 to 2"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN, ids=[m[:30] for _, m in BROKEN])
def test_broken_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "bad.npz", **changes)
    with pytest.raises(HandfulError, match=message) as caught:
        read_graph(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_arrays_that_a_graph_does_not_take_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "more.npz", pos=np.eye(4), task=np.array("classification"))
    with pytest.warns(UserWarning, match=r"more\.npz: a graph cannot hold pos: not used$"):
        read_graph(path)


def test_unreadable_npz(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="does not exist"):
        read_graph(tmp_path / "none.npz")
    path = tmp_path / "a.npz"
    for content in (b"", b"not a zip", write(path).read_bytes()[:-200], b"\x80\x04\x95pickle"):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"a\.npz cannot be read"):
            read_graph(path)
    np.save(tmp_path / "b", np.eye(2))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(DatasetError, match=r"not a zip file.*numpy\.savez"):
        read_graph(tmp_path / "b.npz")
    with pytest.raises(GraphError, match="no edge_index among test_mask, train_mask, val_mask, x, y"):
        read_graph(write(path, without=("edge_index",)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("edge_index.npy", b"\x93NUMPY\x01\x00")
    with pytest.raises(DatasetError, match="array 'edge_index'"):
        read_graph(path)
    content = bytearray(write(path).read_bytes())
    at = content.index(GOOD["x"].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match="array 'x' cannot be read"):
        read_graph(path)


def test_pt(tmp_path: Path) -> None:
    tensors = {k: torch.from_numpy(v) for k, v in GOOD.items()}
    data = Data(**tensors)
    torch.save(data.to_dict(), tmp_path / "g.pt")
    assert_good(read_graph(tmp_path / "g.pt"))
    torch.save(data, tmp_path / "classes.pt")
    with pytest.raises(DatasetError, match=r"cannot be read .*data\.to_dict"):
        read_graph(tmp_path / "classes.pt")
    torch.save([1], tmp_path / "list.pt")
    with pytest.raises(DatasetError, match="holds a list"):
        read_graph(tmp_path / "list.pt")
    (tmp_path / "junk.pt").write_bytes(b"junk")
    with pytest.raises(DatasetError, match=r"junk\.pt cannot be read"):
        read_graph(tmp_path / "junk.pt")
    torch.save({"x": tensors["x"]}, tmp_path / "x.pt")
    with pytest.raises(GraphError, match=r"x\.pt: there is no edge_index among x"):
        read_graph(tmp_path / "x.pt")


def test_saved_folder(tmp_path: Path) -> None:
    save(read_graph(write(tmp_path / "mine.npz")), tmp_path / "folder")
    graph = read_graph(tmp_path / "folder")
    assert_good(graph)
    assert graph.name == "mine"
    assert read_graph(tmp_path / "folder", metric="roc_auc", name="other").name == "other"
    assert read_graph(tmp_path / "folder", metric="roc_auc").metric == "roc_auc"


def test_tables_by_folder_or_edge_list(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,kind,f\na,p,1\nb,q,2\nc,p,3\n")
    graph = read_graph(tmp_path, label="kind", metric="average_precision")
    assert graph.num_nodes == 3
    assert (graph.class_names, graph.metric) == (("p", "q"), "average_precision")
    assert read_graph(tmp_path / "edges.csv").num_edges == 2
    (tmp_path / "edges.tsv").write_text("")
    with pytest.raises(DatasetError, match=r"both edges\.csv and edges\.tsv"):
        read_graph(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="has no table 'edges'"):
        read_graph(tmp_path / "empty")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(DatasetError, match="not a graph file"):
        read_graph(tmp_path / "a.xlsx")


def test_errors_of_the_graph_are_graph_errors(tmp_path: Path) -> None:
    with pytest.raises(GraphError):
        read_graph(write(tmp_path / "bad.npz", x=np.eye(3)))


@pytest.mark.skipif(not (SHARED / "web-google").exists(), reason="the shared data are absent")
def test_web_google() -> None:
    graph = read_graph(SHARED / "web-google" / "web-google.npz")
    assert (graph.num_nodes, graph.num_edges, graph.undirected) == (875_713, 5_105_039, False)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "g.npz")
    with pytest.raises(DatasetError, match="is neither a file nor a folder"):
        read_graph(tmp_path / "g.npz")


def test_a_view_that_is_larger_than_what_is_stored(tmp_path: Path) -> None:
    many = torch.zeros(1, dtype=torch.int64).expand(2, 10**12)
    torch.save({"edge_index": many}, tmp_path / "g.pt")
    with pytest.raises(DatasetError, match=r"'edge_index' has shape \(2, 1000000000000\) and 8 bytes"):
        read_graph(tmp_path / "g.pt")
