from __future__ import annotations

import json
import os
import shutil
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import handful.storage as storage
from handful.errors import DatasetError, GraphError
from handful.graph import MASKS, Graph
from handful.kernels.sparse import dense, is_sparse
from handful.storage import ARRAYS, open_graph, save, saving

EDGES = np.array([[0, 1, 2, 3, 3, 0], [1, 2, 3, 0, 3, 2]])


def a_graph(**fields: object) -> Graph:
    rng = np.random.default_rng(0)
    defaults = {
        "x": torch.from_numpy(rng.normal(size=(5, 3)).astype(np.float32)),
        "y": [0, 1, 2, 1, -1],
        "train_mask": [0, 2],
        "val_mask": [1],
        "test_mask": [3],
        "edge_weight": np.arange(6, dtype=np.float32) + 0.5,
        "edge_attr": np.arange(12, dtype=np.float32).reshape(6, 2),
        "class_names": ("a", "b", "ç"),
        "ids": np.array(["Åse", "b", "", "long name", "d"]),
        "schema": {"id": "name", "columns": [{"name": "age", "center": 1.5}], "kept": ["who", "where"]},
        "kept": np.array([["Åse", "Å"], ["b", ""], ["", ""], ["c", "Zürich"], ["d", "e"]]),
        "name": "små graf",
    }
    return Graph.from_edge_index(EDGES, 5, **defaults | fields)  # type: ignore[arg-type]


def assert_same(a: Graph, b: Graph) -> None:
    for name in ARRAYS:
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None), name
        if left is not None:
            assert left.dtype == right.dtype, name
            assert np.array_equal(left, right) if name in ("ids", "kept") else torch.equal(left, right), name
    for name in storage.FIELDS:
        assert getattr(a, name) == getattr(b, name), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_opens_what_was_saved(tmp_path: Path, dtype: torch.dtype) -> None:
    graph = a_graph()
    assert graph.x is not None
    graph = graph.replace(x=graph.x.to(dtype))
    assert_same(graph, open_graph(save(graph, tmp_path / "deep" / "er" / "g")))
    assert sorted(p.name for p in (tmp_path / "deep" / "er").iterdir()) == ["g"]


def test_what_the_labels_are_is_saved(tmp_path: Path) -> None:
    few = {"class_names": None, "y": [0.5, 1, 2, 3, np.nan]}
    many = {"class_names": None, "y": [[0, 1], [1, 1], [np.nan, 0], [0, 0], [np.nan, np.nan]]}
    two = {"class_names": ("fraud", "ok"), "y": [0, 1, 1, 1, -1]}
    for name, fields in {"regression": few, "multilabel": many, "binary": two}.items():
        graph = a_graph(**fields)
        back = open_graph(save(graph, tmp_path / name))
        assert (back.task, back.kind, back.positive, back.metric) == (graph.task, name, graph.positive, graph.metric)
        torch.testing.assert_close(back.y, graph.y, equal_nan=True, rtol=0, atol=0)


def test_a_header_without_a_task_is_refused(tmp_path: Path) -> None:
    path = save(a_graph(), tmp_path / "g")
    header = json.loads((path / storage.HEADER).read_text())
    del header["task"]
    (path / storage.HEADER).write_text(json.dumps(header))
    with pytest.raises(DatasetError, match="not the header of a saved graph"):
        open_graph(path)


def test_topology_alone_and_an_empty_graph(tmp_path: Path) -> None:
    for name, graph in {
        "topology": Graph.from_edge_index(EDGES),
        "no-edges": Graph.from_edge_index(np.empty((2, 0), int), 4),
        "nothing": Graph.from_edge_index(np.empty((2, 0), int), 0),
    }.items():
        assert_same(graph, open_graph(save(graph, tmp_path / name), verify=True))


def test_open_maps_memory_and_never_writes_to_the_file(tmp_path: Path) -> None:
    path = save(a_graph(), tmp_path / "g")
    before = (path / "x.npy").read_bytes()
    graph = open_graph(path)
    assert graph.x is not None
    graph.x.zero_()
    assert (path / "x.npy").read_bytes() == before
    assert_same(a_graph(), open_graph(path))


def test_a_stamped_folder_is_opened_without_reading_its_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(a_graph(), tmp_path / "g")
    read: list[str] = []
    crc32 = storage._crc32
    monkeypatch.setattr(storage, "_crc32", lambda file, start: (read.append(file.name), crc32(file, start))[1])
    open_graph(path)
    assert read == []
    open_graph(path, verify=True)
    assert len(read) == len(ARRAYS)


def test_a_copied_folder_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(save(a_graph(), tmp_path / "g"), copy)  # Keeps the time of change of contents, as archives do.
    count = [0]
    verify = storage._verify
    monkeypatch.setattr(storage, "_verify", lambda *args: (count.__setitem__(0, count[0] + 1), verify(*args))[1])
    assert_same(open_graph(copy), a_graph())
    assert count[0] == len(ARRAYS)
    open_graph(copy)
    assert count[0] == len(ARRAYS)


def test_a_folder_that_cannot_be_written_to_is_still_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(a_graph(), tmp_path / "g")
    storage._stamp_file(path).unlink()

    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", refuse)
    assert_same(open_graph(path), a_graph())
    assert not storage._stamp_file(path).exists()
    assert not [name for name in os.listdir(path) if name.startswith(".")]


def test_a_saved_graph_is_replaced_and_anything_else_is_not(tmp_path: Path) -> None:
    path = save(a_graph(), tmp_path / "g")
    other = a_graph(name="other")
    assert_same(other, open_graph(save(other, path)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DatasetError, match="not a saved graph"):
        save(other, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_failed_save_leaves_nothing_and_keeps_the_old_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(a_graph(), tmp_path / "g")

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(storage.ArrayFile, "_write", fail)
        with pytest.raises(OSError, match="disk full"):
            save(a_graph(name="new"), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g"]
    assert_same(open_graph(path), a_graph())


def edit_header(path: Path, **changes: object) -> None:
    header = json.loads((path / storage.HEADER).read_text())
    (path / storage.HEADER).write_text(json.dumps(header | changes))


def test_broken_folders(tmp_path: Path) -> None:
    def fresh() -> Path:
        return save(a_graph(), tmp_path / "g")

    with pytest.raises(DatasetError, match="is not a saved graph"):
        open_graph(tmp_path / "nowhere")
    (fresh() / "y.npy").unlink()
    with pytest.raises(DatasetError, match=r"y\.npy is missing"):
        open_graph(tmp_path / "g")
    path = fresh()
    (path / "x.npy").write_bytes((path / "x.npy").read_bytes()[:-5])
    with pytest.raises(DatasetError, match=r"x\.npy is cut short: it has 183 bytes of 188"):
        open_graph(path)
    path = fresh()
    time.sleep(0.02)
    content = bytearray((path / "indices.npy").read_bytes())
    content[-1] ^= 1
    (path / "indices.npy").write_bytes(content)
    with pytest.raises(DatasetError, match=r"indices\.npy has changed"):
        open_graph(path)
    edit_header(fresh(), version=99)
    with pytest.raises(DatasetError, match="version 99"):
        open_graph(path)
    edit_header(fresh(), format="something")
    with pytest.raises(DatasetError, match="not the header"):
        open_graph(path)
    (fresh() / storage.HEADER).write_text("{")
    with pytest.raises(DatasetError, match="not the header"):
        open_graph(path)
    edit_header(fresh(), arrays={"../../x": {}})
    with pytest.raises(DatasetError, match="not the header"):
        open_graph(path)


def forge(path: Path, name: str, array: np.ndarray, *, pickled: bool = False) -> None:
    """Put another array in a saved graph, with a header that agrees, as an attacker would."""
    np.save(path / f"{name}.npy", array, allow_pickle=pickled)
    header = json.loads((path / storage.HEADER).read_text())
    file = path / f"{name}.npy"
    entry = {"dtype": str(array.dtype), "shape": list(array.shape), "from": 0}
    header["arrays"][name] = entry | {"bytes": file.stat().st_size, "crc32": storage._crc32(file, 0)}
    (path / storage.HEADER).write_text(json.dumps(header))


def test_a_forged_folder_does_not_get_past_the_door(tmp_path: Path) -> None:
    path = save(a_graph(), tmp_path / "g")
    forge(path, "indices", np.array([0, 1, 2, 3, 3, 7], np.int32))
    with pytest.raises(GraphError, match="source 7"):
        open_graph(path)
    path = save(a_graph(), tmp_path / "g")
    forge(path, "y", np.array([0, 1, 2, None, "x"], object), pickled=True)
    with pytest.raises(DatasetError, match=r"y\.npy is not a readable \.npy file"):
        open_graph(path)


@pytest.mark.parametrize("array", [np.array(["1.5"] * 5), np.zeros(5, "datetime64[s]"), np.zeros(5, ">f4")])
def test_an_array_of_a_type_that_no_graph_has_is_refused(tmp_path: Path, array: np.ndarray) -> None:
    path = save(a_graph(), tmp_path / "g")
    forge(path, "y", array)
    with pytest.raises(DatasetError, match=r"y\.npy holds"):
        open_graph(path)


def test_masks_are_saved_as_booleans(tmp_path: Path) -> None:
    path = save(a_graph(), tmp_path / "g")
    for mask in MASKS:
        assert np.load(path / f"{mask}.npy").dtype == bool


@pytest.mark.parametrize("block", [1, 2, 5])
def test_a_folder_written_in_pieces_is_that_of_save(tmp_path: Path, block: int) -> None:
    graph = a_graph()
    whole = save(graph, tmp_path / "whole")
    with saving(tmp_path / "pieces") as folder:
        folder.fields = {name: getattr(graph, name) for name in storage.FIELDS}
        for name in reversed(ARRAYS):  # in any order
            values = np.asarray(getattr(graph, name))
            with folder.array(name, str(values.dtype), row=values.shape[1:]) as out:
                for lo in range(0, len(values), block):
                    out.append(values[lo : lo + block])
    for path in whole.iterdir():
        assert path.read_bytes() == (tmp_path / "pieces" / path.name).read_bytes(), path.name
    assert_same(graph, open_graph(tmp_path / "pieces", verify=True))


def test_pieces_that_come_to_nothing_leave_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with saving(tmp_path / "g") as folder, folder.array("indptr", "int64") as out:
            out.append(np.zeros(3))
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    with saving(tmp_path / "g") as folder, folder.array("x", "float32", row=(2,)) as out:
        with pytest.raises(ValueError, match=r"rows of shape \(3,\)"):
            out.append(np.zeros((1, 3)))
        out.append(np.zeros((1, 2)))
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


def test_sparse_features_are_saved_as_sparse_features(tmp_path: Path) -> None:
    x = torch.tensor([[0.0, 2, 0], [0, 0, 0], [1, 0, 3], [0, 0, 0], [0, 4, 0]])
    path = save(a_graph(x=x.to_sparse_csr()), tmp_path / "g")
    assert not (path / "x.npy").exists()
    for _ in range(2):
        back = open_graph(path)
        assert back.x is not None
        assert is_sparse(back.x)
        assert torch.equal(dense(back.x), x)
        assert back.identity() == a_graph(x=x.to_sparse_csr()).identity()
    assert save(back, tmp_path / "again").is_dir()
    assert_same(open_graph(save(back.replace(x=x), tmp_path / "dense")), a_graph(x=x))


@pytest.mark.parametrize(
    ("name", "how"), [*product(storage.SPARSE, ("missing", "short", "other")), ("x_indptr", "wrapped")]
)
def test_broken_sparse_features_are_refused(tmp_path: Path, name: str, how: str) -> None:
    path = save(a_graph(x=torch.eye(5).to_sparse_csr()), tmp_path / "g")
    header = json.loads((path / storage.HEADER).read_text())
    if how == "missing":
        del header["arrays"][name]
    else:
        values = np.load(path / f"{name}.npy")
        with saving(tmp_path / "other") as folder:
            folder.fields = {name: header[name] for name in storage.FIELDS}
            for kept in header["arrays"]:
                own = np.load(path / f"{kept}.npy")
                if kept == name and how == "wrapped":
                    own = np.append(values[:-1].astype(np.int64), int(values[-1]) + 2**32)
                elif kept == name:
                    own = values[:-1] if how == "short" else values[::-1] * np.array(-7, values.dtype)
                folder.write(kept, own)
        path = tmp_path / "other"
        storage._stamp_file(path).unlink()
        header = json.loads((path / storage.HEADER).read_text())
    (path / storage.HEADER).write_text(json.dumps(header))
    if (name, how) == ("x_values", "other"):
        assert open_graph(path).num_features == 5  # these are values too
        return
    with pytest.raises((DatasetError, GraphError), match="sparse"):
        open_graph(path)
