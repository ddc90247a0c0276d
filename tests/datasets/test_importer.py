from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.datasets import importer, tables
from handful.datasets.importer import Columns, read_tables
from handful.errors import DatasetError, HandfulError
from handful.graph import MASKS, Graph

EDGES = "source,target\nb,a\nc,b\na,c\n"
NODES = "id,age,colour,label,split\na,1.5,red,x,train\nb,2,blue,y,val\nc,3,,x,test\n"


def pair(folder: Path, edges: str = EDGES, nodes: str = NODES) -> tuple[Path, Path]:
    (folder / "edges.csv").write_text(edges)
    (folder / "nodes.csv").write_text(nodes)
    return folder / "edges.csv", folder / "nodes.csv"


def test_a_small_pair(tmp_path: Path) -> None:
    graph = read_tables(*pair(tmp_path), name="mine")
    assert graph.edge_index.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert graph.x is not None
    assert graph.x.tolist() == [[1.5, 0, 1], [2, 1, 0], [3, 0, 0]]
    assert graph.y is not None
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.class_names == ("x", "y")
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[0], [1], [2]]
    assert graph.name == "mine"


def test_named_columns(tmp_path: Path) -> None:
    edges = "when,who,whom,strength\n1,10,30,0.5\n2,20,10,2\n"
    nodes = "person,team,level,club,fold\n30,1,7,2001,test\n10,2,8,1999,train\n20,1,9,2001,\n"
    chosen = Columns("who", "whom", "strength", "person", "club", "fold", ("level", "team"), ("team",))
    graph = read_tables(*pair(tmp_path, edges, nodes), chosen)
    assert graph.edge_index.tolist() == [[1, 2], [0, 1]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5, 2]
    assert graph.x is not None
    assert graph.x.tolist() == [[7, 1, 0], [8, 0, 1], [9, 1, 0]]
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([1, 0, 1], ("1999", "2001"))


def test_unknown_labels(tmp_path: Path) -> None:
    graph = read_tables(*pair(tmp_path, nodes="id,label\na,1\nb,\nc,0\n"))
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names, graph.x) == ([1, -1, 0], None, None)
    graph = read_tables(*pair(tmp_path, nodes="id,label\na,-1\nb,5\nc,7.0\n"))
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([-1, 0, 1], ("5", "7"))


def test_dgl_layout(tmp_path: Path) -> None:
    edges = "src_id,dst_id\n0,1\n1,2\n"
    nodes = (
        "node_id,label,train_mask,val_mask,test_mask,feat\n"
        '0,0,True,False,False,"0.5, 1.5"\n1,1,False,True,False,"2, 3"\n2,1,False,False,True,"4,5"\n'
    )
    graph = read_tables(*pair(tmp_path, edges, nodes))
    assert graph.x is not None
    assert graph.x.tolist() == [[0.5, 1.5], [2, 3], [4, 5]]
    assert graph.train_nodes.tolist() == [0]
    with pytest.raises(DatasetError, match=r"nodes\.csv, row 3: 'feat' has 1 values"):
        read_tables(*pair(tmp_path, edges, nodes.replace("2, 3", "2")))


def test_parquet_with_vectors_and_compressed_text(tmp_path: Path) -> None:
    nodes = pa.table(
        {
            "id": ["a", "b", "c"],
            "label": pa.array(["u", "v", "u"]).dictionary_encode(),
            "emb": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)),
            "ok": [True, False, True],
        }
    )
    pa.parquet.write_table(nodes, tmp_path / "nodes.parquet")
    pa.parquet.write_table(pa.table({"src": ["a", "b"], "dst": ["b", "c"]}), tmp_path / "edges.parquet")
    (tmp_path / "edges.tsv.gz").write_bytes(gzip.compress(b"# a comment\nfrom\tto\na\tb\nb\tc\n"))
    for edges in ("edges.parquet", "edges.tsv.gz"):
        graph = read_tables(tmp_path / edges, tmp_path / "nodes.parquet")
        assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
        assert graph.x is not None
        assert graph.x.tolist() == [[1, 2, 1], [3, 4, 0], [5, 6, 1]]


def test_edge_list_alone(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("# SNAP's layout\n# FromNodeId\tToNodeId\n0\t3\n3\t1\n")
    assert read_tables(path).edge_index.tolist() == [[3, 0], [1, 3]]
    path.write_text("0 3\n3 1\n")
    assert read_tables(path).num_nodes == 4
    path.write_text("0,3,0.5\n3,1,2\n")
    weight = read_tables(path).edge_weight
    assert weight is not None
    assert weight.tolist() == [2, 0.5]
    path.write_text("source,target\n-5,900000000000\n900000000000,7\n")
    assert read_tables(path).edge_index.tolist() == [[2, 0], [1, 2]]
    path.write_text("source,target\nz,y\ny,x\n")
    assert read_tables(path).edge_index.tolist() == [[0, 1], [1, 2]]


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(["dense", "sparse", "text"]),
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), min_size=1, max_size=60),
    st.randoms(use_true_random=False),
)
def test_ids_of_any_type_over_many_blocks(
    tmp_path_factory: pytest.TempPathFactory, kind: str, edges: list[tuple[int, int]], rng: Any
) -> None:
    ids = list(range(20))
    rng.shuffle(ids)
    spell = {"dense": lambda i: i + 3, "sparse": lambda i: i * 10**12 - 7, "text": lambda i: f"n{i * i}é"}[kind]
    lines = "".join(f"{spell(ids[u])},{spell(ids[v])}\n" for u, v in edges)
    nodes = "id,label\n" + "".join(f"{spell(i)},{n % 2}\n" for n, i in enumerate(ids))
    paths = pair(tmp_path_factory.mktemp("g"), "source,target\n" + lines, nodes)
    expected = Graph.from_edge_index(np.array(edges).T, 20)
    before = tables.BLOCK_BYTES
    try:
        tables.BLOCK_BYTES = 128
        graph = read_tables(*paths)
    finally:
        tables.BLOCK_BYTES = before
    assert graph.edge_index.tolist() == expected.edge_index.tolist()


BROKEN = [
    (EDGES.replace("c,b", "c,q"), NODES, r"edges.csv, row 3: target 'q' is not a node of .*nodes\.csv"),
    (EDGES.replace("c,b", "q,b"), NODES, "edges.csv, row 3: source 'q' is not a node"),
    (EDGES.replace("c,b", "c"), NODES, "edges.csv, row 3: 1 columns where there should be 2"),
    (EDGES.replace("c,b", "c,b,d"), NODES, "edges.csv, row 3: 3 columns where there should be 2"),
    (EDGES.replace("c,b", ",b"), NODES, "edges.csv, row 3: the edge has no 'source'"),
    (EDGES.replace("source", "start"), NODES, r"edges.csv has no source column .*: say which it is of start, target"),
    ("source,target\n", NODES, "edges.csv has no rows"),
    ("", NODES, "edges.csv has no rows"),
    ("source,target,weight\na,b,1\nb,c,x\n", NODES, "edges.csv, row 3: 'x' is not a number"),
    ("source,target,weight\na,b,1\nb,c,\n", NODES, "edges.csv, row 3: 'weight' is missing"),
    (EDGES, NODES.replace("c,3", "a,3"), "nodes.csv, row 4: node 'a' is there a second time"),
    (EDGES, NODES.replace("c,3", ",3"), "nodes.csv, row 4: the node has no 'id'"),
    (EDGES, NODES.replace("blue,y", "blue,"), "nodes.csv, row 3: the node is in a split but has no 'label'"),
    (EDGES, NODES.replace("label", "colour2"), "nodes.csv has no label column"),
    (EDGES, NODES.replace("id,", "key,"), "nodes.csv has no id column"),
    (EDGES, NODES.replace("1.5", ""), "nodes.csv, row 2: 'age' is missing"),
    (EDGES, NODES.replace("1.5", "inf"), "nodes.csv, row 2: 'age' is inf"),
    (EDGES, NODES.replace("val", "dev"), "nodes.csv, row 3: 'dev' is not a split"),
    (EDGES, NODES.replace("train", "val"), "train_mask is empty"),
    (EDGES, NODES.splitlines()[0] + "\n", "nodes.csv has no rows"),
    (EDGES, "id,label\na,0.5\nb,1\nc,1\n", "nodes.csv, row 2: label 0.5 is a fraction"),
    (EDGES, "id,label\na,\nb,\nc,\n", "nodes.csv has no label in its column 'label'"),
    (EDGES, "id,label,f\na,0,\nb,0,\nc,1,\n", "column 'f' is empty"),
    (EDGES, "id,label,t\na,0,2020-01-01\nb,0,2020-01-01\nc,1,2020-01-01\n", "column 't' holds date32"),
    ("source,target\n1,2\nx,2\n", "id,label\n1,0\n2,1\n", "edges.csv, row 3: 'x' is not a number"),
]


@pytest.mark.parametrize(("edges", "nodes", "message"), BROKEN, ids=[m[:40] for *_, m in BROKEN])
def test_broken_tables(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    with pytest.raises(HandfulError, match=message) as caught:
        read_tables(*pair(tmp_path, edges, nodes))
    assert "\n" not in str(caught.value)


def test_broken_files(tmp_path: Path) -> None:
    edges, nodes = pair(tmp_path)
    with pytest.raises(DatasetError, match="does not exist"):
        read_tables(tmp_path / "other.csv", nodes)
    with pytest.raises(DatasetError, match="not a table"):
        read_tables(tmp_path, nodes)
    with pytest.raises(DatasetError, match="no column 'who'"):
        read_tables(edges, nodes, Columns(source="who"))
    with pytest.raises(DatasetError, match="no column 'what'"):
        read_tables(edges, nodes, Columns(features=("what",)))
    (tmp_path / "e.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DatasetError, match=r"e\.parquet cannot be read"):
        read_tables(tmp_path / "e.parquet", nodes)
    whole = gzip.compress(EDGES.encode() * 100)
    (tmp_path / "e.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(DatasetError, match=r"e\.csv\.gz cannot be read"):
        read_tables(tmp_path / "e.csv.gz", nodes)
    many = "id,label,text\n" + "".join(f"{i},0,t{i}\n" for i in range(importer.MOST_CATEGORIES + 1))
    with pytest.raises(DatasetError, match="column 'text' has 1,001 different values"):
        read_tables(*pair(tmp_path, "source,target\n1,2\n", many))


def test_the_row_is_right_beyond_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)
    lines = [f"{i % 3},{(i + 1) % 3}" for i in range(500)]
    nodes = "id,label\n0,0\n1,1\n2,1\n"
    for bad, message in (("9,0", "source '9' is not a node"), ("x,0", "'x' is not a number"), ("0", "1 columns")):
        lines[398] = bad
        with pytest.raises(DatasetError, match=f"row 400: {message}"):
            read_tables(*pair(tmp_path, "source,target\n" + "\n".join(lines), nodes))
