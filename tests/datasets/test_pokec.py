from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from handful.datasets import pokec
from handful.datasets.pokec import read_linkx
from handful.datasets.registry import load
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS

EDGES = np.array([[0, 0, 2, 3], [1, 2, 1, 0]])


def write_mat(path: Path, **changes: np.ndarray) -> Path:
    x = np.arange(8, dtype=np.float64).reshape(4, 2)
    fields = {"edge_index": EDGES, "node_feat": x, "label": np.array([[1, 0, 0, -1]])}
    savemat(path, {key: value for key, value in (fields | changes).items() if value is not None})
    return path


def test_linkx_file(tmp_path: Path) -> None:
    graph = read_linkx(write_mat(tmp_path / "pokec.mat"))
    both = {(int(u), int(v)) for u, v in EDGES.T} | {(int(v), int(u)) for u, v in EDGES.T}
    assert {(u, v) for u, v in graph.edge_index.T.tolist()} == both
    assert graph.undirected
    assert graph.x is not None
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert graph.y is not None
    assert graph.y.tolist() == [1, 0, 0, -1]
    assert graph.class_names == ("female", "male")


def test_by_name_the_split_belongs_to_the_seed(tmp_path: Path) -> None:
    folder = tmp_path / "pokec"
    folder.mkdir()
    rng = np.random.default_rng(0)
    n = 100
    fields = {"edge_index": rng.integers(0, n, (2, 300)), "node_feat": rng.normal(size=(n, 3))}
    write_mat(folder / "pokec.mat", **fields, label=np.where(np.arange(n) < 90, np.arange(n) % 2, -1)[None])
    one, again, two = (
        load("pokec", root=tmp_path, seed=1),
        load("pokec", root=tmp_path, seed=1),
        load("pokec", root=tmp_path),
    )
    assert [int(getattr(one, m).sum()) for m in MASKS] == [9, 9, 72]
    assert one.train_nodes.tolist() == again.train_nodes.tolist() != two.train_nodes.tolist()
    (folder / "pokec.mat").unlink()
    assert load("pokec", root=tmp_path).num_nodes == n


def test_without_network_the_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pokec, "URL", "http://127.0.0.1:9/x")
    with pytest.raises(DatasetError, match=r"put it at .*pokec/pokec\.mat"):
        load("pokec", root=tmp_path)


def test_broken_files(tmp_path: Path) -> None:
    path = write_mat(tmp_path / "pokec.mat")
    whole = path.read_bytes()
    for content in (b"junk", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=r"pokec\.mat (cannot be read|has no array)"):
            read_linkx(path)
    with pytest.raises(DatasetError, match=r"'label'.*not LINKX's file"):
        read_linkx(write_mat(path, label=None))  # type: ignore[arg-type]
    with pytest.raises(HandfulError, match=r"pokec\.mat: edge 0 has target 9"):
        read_linkx(write_mat(path, edge_index=np.array([[0], [9]])))
