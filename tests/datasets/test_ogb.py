from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from handful.datasets import prepared
from handful.datasets.ogb import read_ogb
from handful.datasets.registry import load, sources
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS

SHARED = Path(__file__).parents[3] / "shared" / "data"
EDGES = np.array([[0, 0, 1, 3, 4], [1, 2, 2, 0, 4]])
X = np.array([[0.5, -1.25e-3], [1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
Y = np.array([2, 0, 1, 1, 0])
SPLIT = {"train": [0, 3], "valid": [1], "test": [4, 2]}


def write_csv(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (",".join(str(v) for v in np.atleast_1d(row)) for row in rows)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def write_text(folder: Path, scheme: str = "time") -> Path:
    """The known graph in OGB's csv.gz layout."""
    raw = folder / "raw"
    write_csv(raw / "edge.csv.gz", EDGES.T)
    write_csv(raw / "node-feat.csv.gz", X)
    write_csv(raw / "node-label.csv.gz", Y)
    write_csv(raw / "num-node-list.csv.gz", [5])
    write_csv(raw / "num-edge-list.csv.gz", [5])
    for part, nodes in SPLIT.items():
        write_csv(folder / "split" / scheme / f"{part}.csv.gz", nodes)
    return folder


def write_binary(folder: Path) -> Path:
    """The same in the layout of papers100M, where most labels are not known."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    counts = {"num_nodes_list": np.array([5]), "num_edges_list": np.array([5])}
    np.savez(raw / "data.npz", edge_index=EDGES, node_feat=X, node_year=np.zeros((5, 1)), **counts)
    np.savez(raw / "node-label.npz", node_label=np.array([[2.0], [0], [1], [1], [0]], np.float32))
    for part, nodes in SPLIT.items():
        write_csv(folder / "split" / "time" / f"{part}.csv.gz", nodes)
    return folder


def assert_known(graph: Any) -> None:
    both = {(int(u), int(v)) for u, v in EDGES.T} | {(int(v), int(u)) for u, v in EDGES.T}
    assert {(u, v) for u, v in graph.edge_index.T.tolist()} == both
    assert graph.num_edges == len(both)
    assert graph.undirected
    assert graph.x.numpy().tolist() == X.tolist()
    assert graph.y.tolist() == Y.tolist()


@pytest.mark.parametrize("write", [write_text, write_binary])
def test_raw_layouts(tmp_path: Path, write: Any) -> None:
    graph, splits = read_ogb(write(tmp_path / "g"), "time", "g")
    assert_known(graph)
    assert graph.train_mask is None
    found = [splits["official"][m].nonzero().squeeze(1).tolist() for m in MASKS]
    assert found == [[0, 3], [1], [2, 4]]


def test_unknown_labels_of_the_binary_layout(tmp_path: Path) -> None:
    folder = write_binary(tmp_path / "g")
    np.savez(folder / "raw" / "node-label.npz", node_label=np.array([[2.0], [0], [1], [1], [np.nan]]))
    write_csv(folder / "split" / "time" / "test.csv.gz", [2])
    graph, _ = read_ogb(folder, "time", "g")
    assert graph.y is not None
    assert graph.y.tolist() == [2, 0, 1, 1, -1]


def test_class_names(tmp_path: Path) -> None:
    folder = write_text(tmp_path / "g")
    write_csv(
        folder / "mapping" / "labelidx2arxivcategeory.csv.gz", [["label idx", "arxiv category"], [0, "arxiv cs ai"]]
    )
    assert read_ogb(folder, "time", "g")[0].class_names is None
    rows = [["label idx", "arxiv category"], [0, "arxiv cs ai"], [1, "arxiv cs lg"], [2, "arxiv cs os"]]
    write_csv(folder / "mapping" / "labelidx2arxivcategeory.csv.gz", rows)
    assert read_ogb(folder, "time", "g")[0].class_names == ("arxiv cs ai", "arxiv cs lg", "arxiv cs os")


def test_by_name_from_an_archive_placed_by_hand(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_text(tmp_path / "arxiv")
    archive = Path(shutil.make_archive(str(tmp_path / "arxiv"), "zip", tmp_path, "arxiv"))
    (home / "ogbn-arxiv").mkdir(parents=True)
    archive.rename(home / "ogbn-arxiv" / "arxiv.zip")
    graph = load("ogbn-arxiv", root=home)
    assert_known(graph)
    assert graph.train_nodes.tolist() == [0, 3]
    (home / "ogbn-arxiv" / "arxiv.zip").unlink()  # Converted once: nothing raw is needed any more.
    assert_known(load("ogbn-arxiv", root=home))
    assert sorted(p.name for p in (home / "ogbn-arxiv").iterdir()) == ["graph", "splits"]


@pytest.mark.parametrize("folder", ["ogbn-products", "ogbn_products"])
def test_by_name_from_unpacked_files(tmp_path: Path, folder: str) -> None:
    write_text(tmp_path / folder, "sales_ranking")
    graph = load("ogbn-products", root=tmp_path)
    assert_known(graph)
    assert graph.name == "ogbn-products"
    other = load("ogbn-products", root=tmp_path, split="stratified:40/20/40", seed=1)
    assert len(other.train_nodes) == 2


def test_without_network_the_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(prepared, "urlopen", refuse)
    with pytest.raises(DatasetError, match=r"put it at .*ogbn-arxiv/arxiv\.zip"):
        load("ogbn-arxiv", root=tmp_path)


def break_edges(folder: Path) -> None:
    write_csv(folder / "raw" / "edge.csv.gz", EDGES.T[:-1])


def break_edge_row(folder: Path) -> None:
    write_csv(folder / "raw" / "edge.csv.gz", [[0, 1], [1], [2, 3]])


def break_edge_id(folder: Path) -> None:
    write_csv(folder / "raw" / "edge.csv.gz", [[0, 1], [0, 2], [1, 2], [3, 5], [4, 4]])


def break_features(folder: Path) -> None:
    write_csv(folder / "raw" / "node-feat.csv.gz", [[1, 2], [3, ""], [3, 4], [5, 6], [7, 8]])


def break_number(folder: Path) -> None:
    write_csv(folder / "raw" / "node-feat.csv.gz", [[1, 2], [3, 4], [3, "x"], [5, 6], [7, 8]])


def break_labels(folder: Path) -> None:
    write_csv(folder / "raw" / "node-label.csv.gz", [0, 1, 2])


def break_gzip(folder: Path) -> None:
    path = folder / "raw" / "edge.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])


def break_split(folder: Path) -> None:
    write_csv(folder / "split" / "time" / "valid.csv.gz", [1, 77])


def drop_split(folder: Path) -> None:
    shutil.rmtree(folder / "split")


def drop_counts(folder: Path) -> None:
    (folder / "raw" / "num-node-list.csv.gz").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_edges, r"edge\.csv\.gz has 4 rows where there should be 5"),
        (break_edge_row, r"edge\.csv\.gz, row 2: 1 columns where there should be 2"),
        (break_edge_id, r"raw: edge 3 has target 5"),
        (break_features, r"node-feat\.csv\.gz, row 2: a value is missing"),
        (break_number, r"node-feat\.csv\.gz, row 3: 'x' is not a number"),
        (break_labels, r"node-label\.csv\.gz has 3 rows where there should be 5"),
        (break_gzip, r"edge\.csv\.gz cannot be read"),
        (break_split, r"time: val_mask\[1\] is node 77"),
        (drop_split, r"train\.csv\.gz does not exist"),
        (drop_counts, r"num-node-list\.csv\.gz does not exist"),
    ],
)
def test_broken_files(tmp_path: Path, damage: Any, message: str) -> None:
    folder = write_text(tmp_path / "g")
    damage(folder)
    with pytest.raises(HandfulError, match=message) as caught:
        read_ogb(folder, "time", "g")
    assert "\n" not in str(caught.value)


def test_broken_binary(tmp_path: Path) -> None:
    folder = write_binary(tmp_path / "g")
    np.savez(folder / "raw" / "node-label.npz", other=np.zeros(5))
    with pytest.raises(DatasetError, match=r"raw cannot be read \('node_label'\): fetch it again"):
        read_ogb(folder, "time", "g")


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "ogbn_arxiv_partial").exists(), reason="the shared data are absent")
def test_the_real_labels_and_split_of_arxiv(tmp_path: Path) -> None:
    folder = tmp_path / "ogbn_arxiv"
    shutil.copytree(SHARED / "ogbn_arxiv_partial", folder, copy_function=shutil.copyfile)
    edges = np.arange(1_166_243)
    write_fast = "\n".join(f"{e % 169_343},{(7 * e + 1) % 169_343}" for e in edges)  # The real edges are not here.
    (folder / "raw" / "edge.csv.gz").write_bytes(gzip.compress(write_fast.encode(), 1))
    graph = load("ogbn-arxiv", root=tmp_path)
    spec = sources()["ogbn-arxiv"]
    assert (graph.num_nodes, graph.num_classes) == (spec.nodes, spec.classes)
    assert [int(getattr(graph, m).sum()) for m in MASKS] == [90_941, 29_799, 48_603]


def test_several_labels_and_features_of_edges_alone(tmp_path: Path) -> None:
    """The layout of ogbn-proteins."""
    folder = write_text(tmp_path / "g", "species")
    (folder / "raw" / "node-feat.csv.gz").unlink()
    labels = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
    features = np.arange(10.0).reshape(5, 2)
    write_csv(folder / "raw" / "node-label.csv.gz", labels)
    write_csv(folder / "raw" / "edge-feat.csv.gz", features)
    graph, splits = read_ogb(folder, "species", "ogbn-proteins")
    assert (graph.task, graph.metric, graph.num_outputs) == ("multilabel", "roc_auc", 2)
    assert graph.y.tolist() == labels.tolist()
    touching = [[e for e in range(5) for end in EDGES[:, e] if end == v] for v in range(5)]
    np.testing.assert_allclose(graph.x, [features[edges].mean(0) for edges in touching])
    assert graph.replace(**splits["official"]).require_training()
