"""Tables straight to a folder: the same bytes as through memory, and refused where that is not possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handful.datasets.importer import Columns, Handling, read_tables
from handful.datasets.splits import drawn_split
from handful.datasets.table_writer import write_tables
from handful.errors import DatasetError, HandfulError
from handful.storage import open_graph, save

SPLIT = {"split": "rh", "seed": 3, "say": lambda text: None}


def an_edge_list(path: Path, ends: np.ndarray, names: list[str] | None = None) -> Path:
    rows = ends.tolist() if names is None else [[names[u], names[v]] for u, v in ends]
    path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in rows))
    return path


def assert_same_bytes(edges: Path, nodes: Path | None, folder: Path, **options: Any) -> None:
    graph = read_tables(edges, nodes, say=lambda text: None, name="g", **options)
    if graph.y is not None and graph.train_mask is None:
        graph = graph.replace(**drawn_split(graph, "rh", 3))
    whole, pieces = save(graph, folder / "whole"), folder / "pieces"
    write_tables(edges, nodes, pieces, "8GiB", **options, **SPLIT, name="g")
    assert sorted(path.name for path in whole.iterdir()) == sorted(path.name for path in pieces.iterdir())
    for path in whole.iterdir():
        assert path.read_bytes() == (pieces / path.name).read_bytes(), path.name
    open_graph(pieces, verify=True)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("repeated", [None, "first"])
def test_an_edge_list_alone(tmp_path: Path, symmetric: bool, undirected: bool, repeated: Any) -> None:
    ends = np.random.default_rng(0).integers(0, 30, (200, 2))
    ends = np.concatenate([ends, ends[:, ::-1]]) if symmetric else ends
    edges = an_edge_list(tmp_path / "edges.csv", ends)
    assert_same_bytes(edges, None, tmp_path, how=Handling(undirected=undirected, repeated=repeated))


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("unknown", ["skip", "add"])
def test_with_a_node_table(tmp_path: Path, text: bool, unknown: Any) -> None:
    names = [f"n{i * 7}" if text else str(1000 + i * 1_000_000) for i in range(44)]
    edges = an_edge_list(tmp_path / "edges.csv", np.random.default_rng(1).integers(0, 44, (200, 2)), names)
    rows = "".join(f"{name},{i % 3},{i / 7:.3f},{'xyz'[i % 3]}\n" for i, name in enumerate(names[:40]))
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,label,size,kind\n" + rows)
    assert_same_bytes(edges, nodes, tmp_path, how=Handling(undirected=True, unknown=unknown), columns=Columns())


def test_what_needs_memory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    far = an_edge_list(tmp_path / "far.csv", np.array([[0, 2_000_000]]))
    wide = an_edge_list(tmp_path / "wide.csv", np.array([[0, 2**40]]))
    text = an_edge_list(tmp_path / "text.csv", np.array([[0, 1]]), ["a", "b"])
    near = an_edge_list(tmp_path / "near.csv", np.array([[0, 1]]))
    weighted = tmp_path / "weighted.csv"
    weighted.write_text("source,target,weight\n0,1,2.5\n")
    for edges, memory, kind, message in (
        (far, "8GiB", DatasetError, "far.csv: ids from 0 to 2000000 have gaps, and are numbered in memory"),
        (wide, "8GiB", DatasetError, "ids beyond 2³¹ are numbered in memory"),
        (weighted, "8GiB", DatasetError, "weights of edges are added up in memory: leave memory out"),
        (near, "1MiB", HandfulError, "sorting the edges needs 32.0 MiB beside"),
    ):
        with pytest.raises(kind, match=message):
            write_tables(edges, None, tmp_path / "g", memory, **SPLIT)
        assert not (tmp_path / "g").exists()
        assert not list(tmp_path.glob(".g*"))
    assert_same_bytes(text, None, tmp_path)
