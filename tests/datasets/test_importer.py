from __future__ import annotations

import gzip
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from handful.datasets import schema, tables
from handful.datasets.importer import import_tables, update_graph
from handful.datasets.schema import Schema
from handful.errors import DatasetError, GraphError, HandfulError
from handful.graph import MASKS, Graph
from handful.kernels.sparse import dense, is_sparse
from handful.settings import TableOptions
from handful.storage import open_graph

EDGES = "source,target\nb,a\nc,b\na,c\n"
NODES = "id,age,colour,label,split\na,1.5,red,x,train\nb,2,blue,y,val\nc,3,,x,test\n"


def pair(folder: Path, edges: str = EDGES, nodes: str = NODES) -> tuple[Path, Path]:
    (folder / "edges.csv").write_text(edges)
    (folder / "nodes.csv").write_text(nodes)
    return folder / "edges.csv", folder / "nodes.csv"


def test_a_small_pair(tmp_path: Path) -> None:
    graph = import_tables(*pair(tmp_path), scale="none", name="mine")
    assert graph.edge_index.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert graph.x is not None
    assert graph.x.tolist() == [[1.5, 0, 1, 0], [2, 1, 0, 0], [3, 0, 0, 1]]
    assert graph.ids is not None
    assert graph.ids.tolist() == ["a", "b", "c"]
    assert graph.y is not None
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.class_names == ("x", "y")
    assert [getattr(graph, m).nonzero().squeeze(1).tolist() for m in MASKS] == [[0], [1], [2]]
    assert graph.name == "mine"


def test_dictionaries_are_saved_like_the_same_files(tmp_path: Path) -> None:
    edges = {"source": ["b", "c", "a"], "target": ["a", "b", "c"]}
    nodes = {"id": ["a", "b", "c"], "age": [1.5, 2, 3], "colour": ["red", "blue", None], "label": ["x", "y", "x"]}
    nodes["split"] = ["train", "val", "test"]
    one = import_tables(edges, nodes, out=tmp_path / "one", name="g")
    import_tables(*pair(tmp_path), out=tmp_path / "other", name="g")
    assert open_graph(tmp_path / "one").identity() == open_graph(tmp_path / "other").identity() == one.identity()
    with pytest.raises(DatasetError, match=r"there is no option 'lable': did you mean label"):
        import_tables(edges, nodes, lable="x")
    with pytest.raises(DatasetError, match="the edge table, row 2: target 'z' is not in the node table"):
        import_tables({"source": ["b", "a"], "target": ["a", "z"]}, nodes)


def test_a_split_by_time_is_said_and_gives_the_scales() -> None:
    days = [f"{day:02d}.01.2024" for day in (9, 1, 2, 3, 3, 8, 5)]
    nodes = {"id": list("abcdefgh"), "day": [*days, None], "size": range(8), "label": list("xyxyxyxy")}
    edges, said = {"source": ["a"], "target": ["b"]}, list[str]()
    graph = import_tables(edges, nodes, split="time:day", say=said.append)
    assert [getattr(graph, mask).nonzero().squeeze(1).tolist() for mask in MASKS] == [[1, 2, 3, 4], [5, 6], [0]]
    assert "train before 2024-01-05 (4), val before 2024-01-09 (2), then test (1)" in said[0]
    assert "1 labelled rows without 'day'" in said[0]
    assert graph.num_features == 1
    assert graph.x[[1, 2, 3, 4]].mean().abs() < 1e-6
    later = import_tables(edges, nodes, schema=Schema.from_json(graph.schema), say=said.append)
    assert later.train_mask is None
    assert len(said) == 1
    for column, words in (("label", "no times"), ("none", "no column 'none'"), ("id", "no times to split by")):
        with pytest.raises(DatasetError, match=words):
            import_tables(edges, nodes, split=f"time:{column}")


def test_times_of_edges_that_a_split_by_time_does_not_use_are_said(tmp_path: Path) -> None:
    nodes = {
        "id": list("abc"),
        "day": ["01.01.2024", "02.01.2024", "13.01.2024"],
        "label": list("xyx"),
        "age": [1, 2, 3],
    }
    for when, times in (
        ("2024-05-23,x", True),
        ("23.05.2024,7", True),
        ("2024-05-23T10:00:00,", True),
        ("7,2024", False),
        (",", False),
    ):
        (tmp_path / "edges.csv").write_text(f"source,when,target,note\na,{when.split(',')[0]},b,{when.split(',')[1]}\n")
        said: list[str] = []
        import_tables(tmp_path / "edges.csv", nodes, split="time:day", say=said.append)
        assert any("edge_time='when'" in text for text in said) == times
        said.clear()
        import_tables(tmp_path / "edges.csv", nodes, split=None, say=said.append)
        assert not any("has times" in text for text in said)


def test_a_column_that_tells_the_label_is_named() -> None:
    rng = np.random.default_rng(0)
    fraud = rng.random(200) < 0.3
    ids = [f"n{i}" for i in range(200)]
    nodes = {"id": ids, "closed": np.where(fraud, "yes", "no").tolist(), "age": rng.normal(size=200)}
    said: list[str] = []
    for _ in range(2):
        import_tables({"source": ids, "target": ids[::-1]}, {**nodes, "label": fraud.tolist()}, say=said.append)
    assert len(said) == 2
    assert "by one column alone: 'closed';" in said[0]


def test_kept_columns_are_saved_and_are_no_features(tmp_path: Path) -> None:
    nodes = "id,name,age,number,label\na,Jörg,1,007,x\nb,,2,010,y\nc,Łucja,3,9,x\n"
    edges = EDGES + "d,a\n"
    made = import_tables(*pair(tmp_path, edges, nodes), keep=["name", "number"], unknown="add", out=tmp_path / "g")
    for graph in (made, open_graph(tmp_path / "g", verify=True)):
        assert graph.kept.tolist() == [["Jörg", "007"], ["", "010"], ["Łucja", "9"], ["", ""]]
        assert graph.schema["kept"] == ["name", "number"]
    assert made.num_features == 1
    found, said = Schema.from_json(made.schema), list[str]()
    later = pair(tmp_path, EDGES, "name,id,age\nZoë,a,1\nBo,b,2\nAl,c,3\n")
    assert import_tables(*later, schema=found, say=said.append).kept[:, 0].tolist() == ["Zoë", "Bo", "Al"]
    assert not said
    with pytest.raises(GraphError, match="kept must hold texts"):
        made.replace(kept=np.array(["a"]))


def test_named_columns(tmp_path: Path) -> None:
    edges = "when,who,whom,strength\n1,10,30,0.5\n2,20,10,2\n"
    nodes = "person,team,level,club,fold\n30,1,7,2001,test\n10,2,8,1999,train\n20,1,9,2001,\n"
    chosen = {"source": "who", "target": "whom", "weight": "strength", "id": "person", "label": "club"}
    chosen |= {"split_column": "fold", "features": ["level", "team"], "categorical": "team", "scale": "none"}
    graph = import_tables(*pair(tmp_path, edges, nodes), **chosen)
    assert graph.edge_index.tolist() == [[1, 2], [0, 1]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [0.5, 2]
    assert graph.x is not None
    assert graph.x.tolist() == [[1, 0, 0, 7], [0, 1, 0, 8], [1, 0, 0, 9]]
    assert graph.ids is not None
    assert graph.ids.tolist() == [30, 10, 20]
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([1, 0, 1], ("1999", "2001"))


def test_classes_that_may_be_unknown_labels_have_a_note(tmp_path: Path) -> None:
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, nodes="id,label\na,None\nb,x\nc,?\n"), say=said.append)
    assert graph.class_names == ("?", "None", "x")
    assert [name for name in ("None", "?", "x") if any(f"is {name} in 1 rows" in text for text in said)] == [
        "None",
        "?",
    ]


@pytest.mark.parametrize(
    ("decimal", "cells", "noted"),
    [
        (".", ("1.198", "588", "86"), True),
        (",", ("1,198", "588", "86"), True),
        (".", ("1.198", "588", "86.5"), False),
        (".", ("0.198", "0.588", "0"), False),
        (".", ("1.198", "2.588", "3.100"), False),  # all have three decimals
    ],
)
def test_marks_that_may_be_between_thousands_have_a_note(
    tmp_path: Path, decimal: str, cells: tuple[str, ...], noted: bool
) -> None:
    said: list[str] = []
    text = "id;sum\n" + "".join(f"{id};{cell}\n" for id, cell in zip("abc", cells, strict=True))
    import_tables(*pair(tmp_path, nodes=text), decimal=decimal, say=said.append)  # type: ignore[arg-type]
    assert any("three decimals" in text and cells[0] in text for text in said) == noted


def test_labels_to_regress_on_have_the_same_notes() -> None:
    prices = [10.0 + i for i in range(30)] + [-999.0] * 3
    nodes, said = {"id": list(range(33)), "price": prices}, list[str]()
    import_tables({"source": [0], "target": [1]}, nodes, label=["price"], task="regression", say=said.append)
    assert sum("-999.0 in 3 rows" in text for text in said) == 1


@pytest.mark.parametrize("undirected", [False, True])
def test_merged_edges_are_counted(undirected: bool) -> None:
    edges = {"source": ["a", "a", "b", "a"], "target": ["b", "b", "a", "c"], "weight": [1.0, 2.0, 4.0, 8.0]}
    for rows, count in ((edges, 1), ({name: values[1:] for name, values in edges.items()}, 0)):
        said: list[str] = []
        import_tables(rows, {"id": ["a", "b", "c"]}, label=[], undirected=undirected, say=said.append)
        assert [text[:2] for text in said if "repeat an edge" in text] == ["1 "] * count


def test_a_decimal_comma_of_an_edge_names_the_option(tmp_path: Path) -> None:
    edges = "source;target;weight\na;b;1.5\nb;c;22,39\n"
    with pytest.raises(DatasetError, match=r"row 3: '22,39' is not a number.*decimal=','"):
        import_tables(*pair(tmp_path, edges))


def test_weights_of_edges_have_the_same_notes(tmp_path: Path) -> None:
    weights = [*[f"{i}" for i in range(40)], "1.198", "999", "999"]
    edges = "source,target,weight\n" + "".join(f"a,b,{weight}\n" for weight in weights)
    said: list[str] = []
    import_tables(*pair(tmp_path, edges), say=said.append)
    assert [word for word in ("three decimals", "999.0 in 2 rows") if any(word in text for text in said)] == [
        "three decimals",
        "999.0 in 2 rows",
    ]


@pytest.mark.parametrize(
    ("cells", "noted"),
    [
        ([18 + i for i in range(30)] + [-999] * 3, "-999 in 3 rows"),
        ([0.5 * i for i in range(30)] + [9999.0, None, 9999.0], "9999.0 in 2 rows"),
        ([f"2024-05-{i:02}" for i in range(1, 31)] + ["9999-12-31", None, "9999-12-31"], "9999-12-31 in 2 rows"),
        ([18 + i for i in range(30)] + [-999], None),  # a single row is an outlier
        ([18 + i for i in range(30)] + [70] * 3, None),  # nearer than the range of the others
        ([1.9**i for i in range(30)] * 2, None),
        ([None] * 30 + [1, 1, 1], None),
    ],
)
def test_numbers_that_may_stand_for_missing_values_have_a_note(cells: list[Any], noted: str | None) -> None:
    said: list[str] = []
    ids = list(range(len(cells)))
    import_tables({"source": [0], "target": [1]}, {"id": ids, "value": cells}, label=[], say=said.append)
    found = [text for text in said if "missing value" in text]
    assert [noted in text for text in found] == [True] if noted else not found


def test_commas_between_thousands_are_no_decimal_commas(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"'1,198': remove the commas"):
        import_tables(*pair(tmp_path, nodes='id,sum\na,"1,198"\nb,588\nc,86\n'))


def test_ids_that_are_all_unknown_are_not_left_out() -> None:
    nodes = {"id": ["00001", "00002"]}
    for source, advised in ((["1", "2"], False), (["1", "00002"], True)):
        with pytest.raises(DatasetError, match="00001") as caught:
            import_tables({"source": source, "target": ["2", "1"]}, nodes)
        assert ("unknown='skip'" in str(caught.value)) == advised


def test_ids_that_are_added_have_a_note(tmp_path: Path) -> None:
    for nodes, alone in (("id,x\na,1\nz,2\n", False), ("id,x\ny,1\nz,2\n", True)):
        said: list[str] = []
        import_tables(*pair(tmp_path, nodes=nodes), unknown="add", say=said.append)
        (text,) = [text for text in said if "added as nodes" in text]
        assert ("spelling" in text) == alone
    said = []
    import_tables(pair(tmp_path)[0], say=said.append)  # without a node table, all ids are nodes
    assert not any("added as nodes" in text for text in said)


def test_unknown_labels(tmp_path: Path) -> None:
    graph = import_tables(*pair(tmp_path, nodes="id,label\na,1\nb,\nc,0\n"))
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names, graph.x) == ([1, -1, 0], None, None)
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, nodes="id,label\na,-1\nb,\nc,7.0\n"), say=said.append)
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([0, -1, 1], ("-1", "7"))
    assert ["-1 in 1 rows" in text for text in said] == [True]


@pytest.mark.parametrize("labels", [[-1, 0, 1, None, -1], [-1.0, 0.0, 1.0, np.nan, -1.0], ["-1", "0", "1", None, "-1"]])
def test_minus_one_is_a_class_of_a_table(labels: list[Any]) -> None:
    said: list[str] = []
    edges = {"source": [0, 1], "target": [1, 2]}
    graph = import_tables(edges, {"id": list(range(5)), "label": labels}, split=None, say=said.append)
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([0, 1, 2, -1, 0], ("-1", "0", "1"))
    assert ["-1 in 2 rows" in text for text in said] == [True]
    assert graph.replace(task="regression").y.nan_to_num(9).tolist() == [-1, 0, 1, 9, -1]
    found = schema.Schema.from_json(graph.schema)
    later = import_tables(edges, {"id": [0, 1, 2], "label": [1, -1, None]}, schema=found, say=said.append)
    assert later.y is not None
    assert later.y.tolist() == [2, 0, -1]
    assert len(said) == 1


@pytest.mark.parametrize(
    ("count", "task", "noted"), [(30, "classification", 0), (31, "classification", 1), (31, "regression", 0)]
)
def test_many_classes_of_whole_numbers_may_be_numbers_to_predict(count: int, task: str, noted: int) -> None:
    ages = list(range(20, 20 + count)) * 3
    edges, said = {"source": [0], "target": [1]}, list[str]()
    for label in (ages, [f"type {age}" for age in ages])[: 1 + (task == "classification")]:
        nodes = {"id": list(range(len(ages))), "label": label}
        import_tables(edges, nodes, task=task, split=None, say=said.append)
    assert ["task='regression'" in text for text in said] == [True] * noted


def test_masks_in_columns(tmp_path: Path) -> None:
    edges = "src_id,dst_id\n0,1\n1,2\n"
    masks = (
        "train_mask,val_mask,test_mask,age\n0,0,True,False,False,5\n1,1,False,True,False,6\n2,1,False,False,True,7\n"
    )
    graph = import_tables(*pair(tmp_path, edges, "node_id,label," + masks))
    assert (graph.train_nodes.tolist(), graph.num_features) == ([0], 1)


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
        graph = import_tables(tmp_path / edges, tmp_path / "nodes.parquet")
        assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
        assert graph.x is not None
        assert graph.x.tolist() == [[1, 2, 1], [3, 4, 0], [5, 6, 1]]


def test_edge_list_alone(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("# SNAP's layout\n# FromNodeId\tToNodeId\n0\t3\n3\t1\n")
    assert import_tables(path).edge_index.tolist() == [[3, 0], [1, 3]]
    path.write_text("0 3\n3 1\n")
    assert import_tables(path).num_nodes == 4
    path.write_text("0,3,0.5\n3,1,2\n")
    weight = import_tables(path).edge_weight
    assert weight is not None
    assert weight.tolist() == [2, 0.5]
    path.write_text("source,target\n-5,900000000000\n900000000000,7\n")
    assert import_tables(path).edge_index.tolist() == [[2, 0], [1, 2]]
    path.write_text("source,target\nz,y\ny,x\n")
    assert import_tables(path).edge_index.tolist() == [[0, 1], [1, 2]]


@settings(max_examples=25)
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
        graph = import_tables(*paths)
    finally:
        tables.BLOCK_BYTES = before
    assert graph.edge_index.tolist() == expected.edge_index.tolist()


def test_columns_of_edges_that_are_not_used_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "edges.csv").write_text("source,target,when,weight,memo\na,b,2020,1,x\nb,c,2021,2,y\n")
    (tmp_path / "nodes.csv").write_text(NODES)
    import_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", say=said.append)
    (words,) = said
    assert "edges.csv: not used" in words
    assert "when, memo" in words


def test_text_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    edges, nodes = pair(tmp_path)
    nodes.write_bytes("id,city,label\na,Zürich,x\nb,Bern,y\nc,Bern,y\n".encode("latin-1"))
    with pytest.raises(DatasetError, match=r"nodes\.csv: column 'city' is not UTF-8: name its encoding"):
        import_tables(edges, nodes)
    nodes.write_bytes("id,label\na,Zürich\nb,Bern\nc,Bern\n".encode("latin-1"))
    with pytest.raises(DatasetError, match=r"nodes\.csv: column 'label' is not UTF-8"):
        import_tables(edges, nodes)
    edges.write_text(EDGES, encoding="utf-16")
    with pytest.raises(DatasetError, match=r"edges\.csv is UTF-16: save it again as UTF-8"):
        import_tables(edges, nodes)


def test_values_that_differ_by_spaces_or_capitals_alone_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    nodes = "id,city,label\na,Bern,yes\nb,bern ,no\nc,Bern,Yes\n"
    graph = import_tables(*pair(tmp_path, EDGES, nodes), say=said.append)
    assert graph.class_names == ("Yes", "no", "yes")
    city, label = said
    assert "city has both 'Bern' and 'bern '" in city
    assert "the label has both 'Yes' and 'yes'" in label


def test_a_class_for_nearly_every_row_is_no_label(tmp_path: Path) -> None:
    rows = "".join(f"{i},c{i}\n" for i in range(60))
    with pytest.raises(DatasetError, match="'label' has 60 classes, nearly one per row: name another column"):
        import_tables(*pair(tmp_path, "source,target\n0,1\n", "id,label\n" + rows))


BROKEN = [
    (EDGES.replace("c,b", "c,q"), NODES, "edges.csv, row 3: target 'q' is not in the node table"),
    (EDGES.replace("c,b", "q,b"), NODES, "edges.csv, row 3: source 'q' is not in the node table"),
    (EDGES.replace("c,b", "c"), NODES, "edges.csv, row 3: 1 columns where there should be 2"),
    (EDGES.replace("c,b", "c,b,d"), NODES, "edges.csv, row 3: 3 columns where there should be 2"),
    (EDGES.replace("c,b", ",b"), NODES, "edges.csv, row 3: the edge has no 'source'"),
    (EDGES.replace("source", "start"), NODES, r"edges.csv has no source column .*: give source='COLUMN', one of start"),
    ("source,target\n", NODES, "edges.csv has no rows: give a table with a row for every edge"),
    ("", NODES, "edges.csv has no rows"),
    ("source,target,weight\na,b,1\nb,c,x\n", NODES, "edges.csv, row 3: 'x' is not a number"),
    ("source,target,weight\na,b,1\nb,c,\n", NODES, "edges.csv, row 3: 'weight' is missing"),
    (
        "source,target,weight\na,b,1\nb,c,-2\n",
        NODES,
        "edges.csv, row 3: 'weight' is -2.0, and an edge counts 0",
    ),
    ("source,target\n7,8\n", "id,label\n007,0\n008,1\n", r"source '7' is .* \(its ids are such as '007' and '008'\)"),
    (
        EDGES,
        "id;price;label\na;1,5;x\nb;2;y\nc;-1.000,25;y\n",
        "'price' holds numbers with a comma .*decimal",
    ),
    (EDGES, NODES.replace("c,3", "a,3"), "nodes.csv, row 4: node 'a' is there a second time"),
    (EDGES, NODES.replace("c,3", ",3"), "nodes.csv, row 4: the node has no 'id'"),
    (EDGES, NODES.replace("blue,y", "blue,"), "nodes.csv, row 3: the node is in a split but has no 'label'"),
    (EDGES, NODES.replace("id,", "key,"), "nodes.csv has no id column"),
    (EDGES, NODES.replace("1.5", "inf"), "nodes.csv, row 2: 'age' is inf"),
    (EDGES, NODES.replace("val", "dev"), "nodes.csv, row 3: 'dev' is not a split"),
    (EDGES, NODES.replace("train", "val"), "train_mask is empty"),
    (EDGES, NODES.splitlines()[0] + "\n", "nodes.csv has no rows"),
    (EDGES, "id,label\na,0.5\nb,1\nc,1\n", "nodes.csv, row 2: label 0.5 is a fraction"),
    ("source,target\n1,2\nx,2\n", "id,label\n1,0\n2,1\n", "edges.csv, row 3: source 'x' is not in the node table"),
    (EDGES, NODES.replace("colour", "age"), "nodes.csv has more than one column 'age'"),
    (EDGES, "id,label\na,inf\nb,1\nc,1\n", "nodes.csv, row 2: 'label' is inf"),
]


@pytest.mark.parametrize(("edges", "nodes", "message"), BROKEN, ids=[m[:40] for *_, m in BROKEN])
def test_broken_tables(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    with pytest.raises(HandfulError, match=message) as caught:
        import_tables(*pair(tmp_path, edges, nodes))
    assert "\n" not in str(caught.value)


def test_broken_files(tmp_path: Path) -> None:
    edges, nodes = pair(tmp_path)
    with pytest.raises(DatasetError, match="does not exist"):
        import_tables(tmp_path / "other.csv", nodes)
    with pytest.raises(DatasetError, match="not a table"):
        import_tables(tmp_path, nodes)
    with pytest.raises(DatasetError, match="no column 'who'"):
        import_tables(edges, nodes, source="who")
    with pytest.raises(DatasetError, match="no column 'what'"):
        import_tables(edges, nodes, features=("what",))
    (tmp_path / "e.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DatasetError, match=r"e\.parquet cannot be read"):
        import_tables(tmp_path / "e.parquet", nodes)
    whole = gzip.compress(EDGES.encode() * 100)
    (tmp_path / "e.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(DatasetError, match=r"e\.csv\.gz cannot be read"):
        import_tables(tmp_path / "e.csv.gz", nodes)
    many = "id,label,text\n" + "".join(f"{i},0,t{i}\n" for i in range(schema.MOST_CATEGORIES + 1))
    with pytest.raises(DatasetError, match="column 'text' has 1,001 different values"):
        import_tables(*pair(tmp_path, "source,target\n1,2\n", many))


def test_the_row_is_right_beyond_the_first_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100)
    lines = [f"{i % 3},{(i + 1) % 3}" for i in range(500)]
    nodes = "id,label\n0,0\n1,1\n2,1\n"
    for bad, message in (
        ("9,0", "source '9' is not in the node table"),
        ("x,0", "source 'x' is not in the node table"),
        ("0", "1 columns"),
    ):
        lines[398] = bad
        with pytest.raises(DatasetError, match=f"row 400: {message}"):
            import_tables(*pair(tmp_path, "source,target\n" + "\n".join(lines), nodes))


LARGE = 2**63


@pytest.mark.parametrize(
    "ids",
    [
        (LARGE, LARGE + 1, LARGE + 2),
        (2**53 + 1, 2**53 + 2, 1.5),
        (2**53 + 1, 2**53 + 2, 2**53 + 3),
        ("007", "7", "07"),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_ids_are_never_floats(tmp_path: Path, ids: tuple[Any, ...], listed: bool) -> None:
    edges = f"source,target\n{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n"
    paths = pair(tmp_path, edges, "id,label\n" + "".join(f"{one},{i % 2}\n" for i, one in enumerate(ids)))
    if not listed and ids[0] == "007":
        return  # without a node table that says otherwise, whole numbers are numbers
    graph = import_tables(*paths) if listed else import_tables(paths[0])
    assert graph.ids is not None
    assert sorted(map(str, graph.ids.tolist())) == sorted(map(str, ids))
    place = {str(one): i for i, one in enumerate(graph.ids.tolist())}
    expected = {(place[str(ids[0])], place[str(ids[1])]), (place[str(ids[1])], place[str(ids[2])])}
    assert set(map(tuple, graph.edge_index.T.tolist())) == expected


def test_ids_of_parquet(tmp_path: Path) -> None:
    def tables(kind: Any, ids: list[Any]) -> tuple[Any, Any]:
        column = pa.array(ids, kind)
        return pa.table({"source": column[:2], "target": column[1:]}), pa.table({"id": column, "label": [0, 1, 0]})

    for kind, ids in ((pa.uint64(), [1, LARGE, LARGE + 1]), (pa.float64(), [1, 2, 3]), (pa.int8(), [1, 2, 3])):
        graph = import_tables(*tables(kind, ids))
        assert graph.ids is not None
        assert [str(one) for one in graph.ids.tolist()] == [str(one) for one in ids]
        assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    with pytest.raises(DatasetError, match=r"ids must be whole numbers, .* is 2\.5"):
        import_tables(*tables(pa.float64(), [1, 2, 2.5]))
    edges, nodes = tables(pa.int64(), [1, 2, 3])
    assert import_tables(edges, nodes.set_column(0, "id", pa.array(["1", "2", "3"]))).num_edges == 2


def test_all_problems_of_a_table_at_once(tmp_path: Path) -> None:
    nodes = "id,age,size,label,split\na,inf,1,x,train\na,2,x,y,dev\nc,3,inf,x,\n"
    with pytest.raises(DatasetError) as caught:
        import_tables(*pair(tmp_path, EDGES, nodes))
    message = str(caught.value)
    for part in ("3 problems", "row 3: 'dev' is not a split", "row 2: 'age' is inf", "node 'a' is there a second time"):
        assert part in message
    edges = "source,target,weight\na,q,1\nb,r,nan\nz,a,2\nw,w,3\n"
    with pytest.raises(DatasetError) as caught:
        import_tables(*pair(tmp_path, edges))
    message = str(caught.value)
    assert "row 4: source 'z' is not in the node table; row 5: source 'w' is" in message
    assert "; 5 in all: add them to it" in message
    assert "row 3: 'weight' is missing or not finite" in message
    with pytest.raises(DatasetError, match=r"has no column 'two'.*has no column 'one'"):
        import_tables(*pair(tmp_path), ignore=("one",), categorical=("two",))


def test_unknown_ids_are_skipped_or_added(tmp_path: Path) -> None:
    edges = "source,target\na,q\nb,a\nq,r\n"
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, edges), unknown="skip", say=said.append)
    assert graph.edge_index.tolist() == [[1], [0]]
    assert any("2 edges have an end that is not a node, and are left out" in text for text in said)
    graph = import_tables(*pair(tmp_path, edges), unknown="add", scale="none")
    assert graph.ids is not None
    assert graph.ids.tolist() == ["a", "b", "c", "q", "r"]
    assert graph.edge_index.T.tolist() == [[1, 0], [0, 3], [3, 4]]
    assert graph.x is not None
    assert graph.y is not None
    assert graph.x[3:].tolist() == [[1.5, 0, 0, 1]] * 2  # the median of the training rows, and no colour
    assert graph.y.tolist() == [0, 1, 0, -1, -1]
    assert graph.train_nodes.tolist() == [0]
    numbers = "source,target\n1,2\nx,2\n", "id,label\n1,0\n2,1\n"
    graph = import_tables(*pair(tmp_path, *numbers), unknown="add")
    assert graph.ids is not None
    assert graph.ids.tolist() == ["1", "2", "x"]


@pytest.mark.parametrize(
    ("repeated", "weights"), [(None, [5, 2]), ("sum", [5, 2]), ("mean", [2.5, 2]), ("first", [4, 2]), ("count", [2, 1])]
)
def test_repeated_edges(tmp_path: Path, repeated: Any, weights: list[float]) -> None:
    edges = "source,target,weight\nb,a,4\nc,b,2\nb,a,1\n"
    graph = import_tables(*pair(tmp_path, edges), repeated=repeated)
    assert graph.edge_weight is not None
    assert (graph.edge_index.T.tolist(), graph.edge_weight.tolist()) == ([[1, 0], [2, 1]], weights)
    plain = pair(tmp_path, "source,target\nb,a\nc,b\nb,a\n")
    graph = import_tables(*plain, repeated=repeated)
    assert graph.num_edges == (3 if repeated is None else 2)
    assert (graph.edge_weight is not None) == (repeated == "count")


def test_tables_without_labels_and_columns_that_are_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, nodes=",id,age,none\n0,a,1,\n1,b,2,\n2,c,3,\n"), say=said.append)
    assert (graph.y, graph.num_features) == (None, 1)
    assert graph.schema is not None
    assert graph.schema["ignored"] == ["unnamed 1", "none"]
    assert any("has no label column" in text for text in said)
    graph = import_tables(*pair(tmp_path, nodes="id,label,age\na,,1\nb,,2\nc,,3\n"))
    assert graph.y is None


def test_features_and_categorical_are_a_union(tmp_path: Path) -> None:
    nodes = "id,label,a,b,c\na,0,1,7,9\nb,1,2,8,9\nc,1,3,7,9\n"
    graph = import_tables(*pair(tmp_path, nodes=nodes), features=("a",), categorical=("b",))
    assert graph.schema is not None
    assert [column["name"] for column in graph.schema["columns"]] == ["a", "b"]
    assert graph.num_features == 4


def test_another_table_by_the_schema_of_the_first(tmp_path: Path) -> None:
    first = import_tables(*pair(tmp_path), undirected=True)
    found = schema.Schema.from_json(first.schema)
    nodes = "colour,id,extra,age\nblue,d,1,3\npink,a,1,1.5\n,e,2,\n"
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, "target,source\nd,a\ne,d\n", nodes), schema=found, say=said.append)
    assert graph.undirected
    assert graph.x is not None
    assert first.x is not None
    assert graph.x[0].tolist() == [*first.x[2, :1].tolist(), 1, 0, 0]
    assert graph.x[1].tolist() == [*first.x[0, :1].tolist(), 0, 0, 1]
    assert graph.y is None
    extra, age, colour = said
    assert "extra" in extra
    assert "'age' is missing in 1 rows" in age
    assert "'pink': 1 rows are 'other'" in colour


# -- edges up to the time of training -------------------------------------------------------------------------------

START = datetime(2024, 1, 1)
WRITTEN = {
    "number": lambda time: (time - START).total_seconds() / 60,
    "iso": lambda time: time.isoformat(),
    "dmy": lambda time: time.strftime("%d.%m.%Y %H:%M"),
    "utc": lambda time: time.replace(tzinfo=UTC),
}


def timed(edge: str = "iso", node: str = "iso", **more: Any) -> tuple[dict[str, Any], dict[str, Any], list[bool]]:
    """20 nodes, 300 edges of random minutes, and which of the edges are before the first of validation. The times of an
    edge and of a node are written as ``WRITTEN`` has it. Some edges have the very time of the boundary."""
    rng = np.random.default_rng(0)
    joined = [START + timedelta(minutes=int(minute)) for minute in rng.permutation(200)[:20] * 60]
    boundary = sorted(joined)[10]  # half of 20 nodes are for training
    made = [START + timedelta(minutes=int(minute)) for minute in rng.integers(0, 12000, 300)]
    made[::50] = [boundary] * 6
    ends = rng.integers(0, 20, (2, 300)).tolist()
    edges = {"source": [f"n{i}" for i in ends[0]], "target": [f"n{i}" for i in ends[1]]}
    edges |= {"when": [WRITTEN[edge](time) for time in made], "amount": rng.integers(1, 9, 300).astype(float), **more}
    nodes = {"id": [f"n{i}" for i in range(20)], "joined": [WRITTEN[node](time) for time in joined]}
    nodes |= {"label": ["a", "b"] * 10, "age": range(20)}
    early = [time < boundary for time in made]
    assert 50 < sum(early) < 250
    return edges, nodes, early


def pairs_of(edges: dict[str, Any], early: list[bool]) -> list[tuple[int, int]]:
    rows = zip(edges["source"], edges["target"], early, strict=True)
    return sorted((int(u[1:]), int(v[1:])) for u, v, kept in rows if kept)


def by_time(edges: Any, nodes: Any, said: list[str] | None = None, **how: Any) -> Graph:
    say = (lambda text: None) if said is None else said.append
    return import_tables(edges, nodes, **{"split": "time:joined", "edge_time": "when", "say": say, **how})


def as_csv(path: Path, table: dict[str, Any]) -> Path:
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("edge", "node"), [("iso", "iso"), ("number", "number"), ("dmy", "iso"), ("iso", "dmy"), ("utc", "iso")]
)
@pytest.mark.parametrize("files", [False, True])
def test_the_graph_has_the_edges_before_the_first_validation_time(
    edge: str, node: str, files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, nodes, early = timed(edge, node)
    sources: tuple[Any, Any] = (edges, nodes)
    if files:
        monkeypatch.setattr(tables, "BLOCK_BYTES", 1000)  # the edges are then in several blocks
        sources = as_csv(tmp_path / "edges.csv", edges), as_csv(tmp_path / "nodes.csv", nodes)
    said: list[str] = []
    graph = by_time(*sources, said)
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == pairs_of(edges, early)
    assert [int(getattr(graph, mask).sum()) for mask in MASKS] == [10, 5, 5]
    assert any(f"{300 - sum(early)} of 300 edges are left out: 'when'" in text for text in said)
    assert not any("not used: when" in text for text in said)
    reached = {node for pair in pairs_of(edges, early) for node in pair}
    alone = [i for i in range(20) if not graph.train_mask[i] and i not in reached]
    assert any(f"{len(alone)} of 10 validation and test nodes" in text for text in said)


def test_nodes_whose_edges_are_all_later_are_counted() -> None:
    edges = {"source": ["n0", "n0", "n3"], "target": ["n1", "n2", "n0"], "when": [5, 20, 30]}
    nodes = {"id": [f"n{i}" for i in range(4)], "joined": [1, 2, 20, 30], "label": list("abab"), "age": range(4)}
    said: list[str] = []
    graph = by_time(edges, nodes, said)
    assert graph.edge_index.tolist() == [[0], [1]]
    assert any("2 of 3 edges are left out: 'when' is 20 or later" in text for text in said)
    assert any("2 of 2 validation and test nodes" in text for text in said)


def test_columns_and_weights_are_those_of_the_edges_before_the_boundary() -> None:
    edges, nodes, early = timed()
    alone = {name: [value for value, kept in zip(values, early, strict=True) if kept] for name, values in edges.items()}
    how: dict[str, Any] = {"say": lambda text: None, "split": "time:joined"}
    for options in (
        {"edge_columns": ("amount", "when")},
        {"weight": "amount"},
        {"weight": "amount", "unknown": "skip"},
    ):
        graph = by_time(edges, nodes, **options)
        same = import_tables(alone, nodes, **how, **options)
        assert (graph.x == same.x).all()
        assert sorted(graph.edge_index.T.tolist()) == sorted(same.edge_index.T.tolist())
        assert (graph.edge_weight is None and same.edge_weight is None) or (graph.edge_weight == same.edge_weight).all()
    whole = import_tables(edges, nodes, **how, edge_columns=("amount",))
    assert not (whole.x == by_time(edges, nodes, edge_columns=("amount",)).x).all()


@pytest.mark.parametrize(("unknown", "count"), [("skip", 20), ("add", 21)])
def test_edges_to_unknown_ids_are_left_out_by_time_too(unknown: str, count: int) -> None:
    edges, nodes, early = timed()
    edges["target"][:10] = ["n20"] * 10
    said: list[str] = []
    graph = by_time(edges, nodes, said, unknown=unknown)
    assert graph.num_nodes == count
    inside = [kept and (unknown == "add" or i >= 10) for i, kept in enumerate(early)]
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == pairs_of(edges, inside)
    skipped = sum(early[:10])
    assert any(f"{skipped} edges have an end that is not a node" in text for text in said) == (unknown == "skip")


def test_a_later_table_is_used_whole_with_or_without_times(tmp_path: Path) -> None:
    edges, nodes, _ = timed()
    graph = by_time(edges, nodes, out=tmp_path / "graph")
    found = Schema.from_json(open_graph(tmp_path / "graph").schema)
    assert found.edges.time == "when"
    assert found.edges.weight is None
    for lost in ((), ("when",)):
        later = {name: values for name, values in edges.items() if name not in lost}
        said: list[str] = []
        again = import_tables(later, nodes, schema=found, say=said.append)
        assert sorted(map(tuple, again.edge_index.T.tolist())) == pairs_of(edges, [True] * 300)
        assert again.edge_weight is None
        assert not any("when" in text for text in said)
    update_graph(graph, {"source": ["n0"], "target": ["n1"], "when": ["never"]}, say=said.append)
    assert any("import again to train by time" in text for text in said)


@pytest.mark.parametrize(("dates", "pairs"), [("dmy", [[0, 1]]), ("mdy", [[0, 2]])])
def test_dates_of_edges_are_read_like_dates_of_nodes(dates: str, pairs: list[list[int]]) -> None:
    nodes = {
        "id": range(3),
        "joined": ["01/01/2024", "03/03/2024", "04/04/2024"],
        "label": list("aba"),
        "age": range(3),
    }
    edges = {"source": [0, 0], "target": [1, 2], "when": ["05/01/2024", "01/05/2024"]}
    assert by_time(edges, nodes, dates=dates).edge_index.T.tolist() == pairs


def test_a_list_without_a_header_may_have_times_in_its_third_column(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1,5\n1,2,50\n3,0,6\n")
    nodes = {"id": range(4), "joined": [1, 2, 20, 30], "label": list("abab"), "age": range(4)}
    graph = by_time(tmp_path / "edges.csv", nodes, edge_time="weight")
    assert graph.edge_weight is None
    assert sorted(graph.edge_index.T.tolist()) == [[0, 1], [3, 0]]


def test_times_of_edges_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    edges, nodes, _ = timed()
    hours = pa.array([time(1)] * 300)
    for options, message in (
        ({"split": "rh"}, "edge_time is for a split by time"),
        ({"split": None}, "edge_time is for a split by time"),
        ({"schema": Schema.from_json(by_time(edges, nodes).schema)}, "leave out edge_time"),
        ({"edge_time": "day"}, "no column 'day'"),
        ({"edge_time": "source"}, "one thing alone"),
        ({"edge_time": "amount", "weight": "amount"}, "one thing alone"),
        ({"edge_time": "amount"}, "'amount' has numbers, and 'joined' has dates"),
        ({"edge_time": "kind"}, "'kind' holds text such as 'x', and no times"),
        ({"edge_time": "hours"}, "'hours' has times of day, and 'joined' has dates"),
        ({"edge_time": "some"}, "row 2: the edge has no 'some'; row 4: .* 298 in all: fill"),
        ({"edge_time": "none"}, "row 1: the edge has no 'none'"),
        ({"edge_time": "late"}, "'late' is .* or later for all edges"),
        ({"edge_time": "either"}, "day and month"),
        ({"edge_time": "either", "dates": "ymd"}, "no date as"),
        ({"memory": "8GiB", "out": tmp_path / "g"}, "edge_time are in memory: leave memory out"),
    ):
        some = [START.isoformat(), None, START.isoformat(), *[None] * 297]
        more = {"kind": ["x"] * 300, "hours": hours, "some": some, "none": pa.nulls(300, pa.string())}
        more |= {"late": [datetime(2030, 1, 1)] * 300, "either": ["01/02/2024"] * 300}
        with pytest.raises(DatasetError, match=message) as caught:
            by_time({**edges, **more}, nodes, **options)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "g").exists()
    with pytest.raises(DatasetError, match="give a node table too"):
        by_time(edges, None)
    with pytest.raises(DatasetError, match="three different times"):
        by_time(edges, {**nodes, "joined": pa.nulls(20, pa.string())})


# -- straight to a folder -------------------------------------------------------------------------------------------

SPLIT = {"split": "rh", "seed": 3, "say": lambda text: None}


def an_edge_list(path: Path, ends: np.ndarray, names: list[str] | None = None) -> Path:
    rows = ends.tolist() if names is None else [[names[u], names[v]] for u, v in ends]
    path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in rows))
    return path


def assert_same_bytes(edges: Path, nodes: Path | None, folder: Path, **options: Any) -> None:
    whole, pieces = folder / "whole", folder / "pieces"
    import_tables(edges, nodes, out=whole, **options, **SPLIT, name="g")
    import_tables(edges, nodes, out=pieces, memory="8GiB", **options, **SPLIT, name="g")
    assert sorted(path.name for path in whole.iterdir()) == sorted(path.name for path in pieces.iterdir())
    for path in whole.iterdir():
        assert path.read_bytes() == (pieces / path.name).read_bytes(), path.name
    open_graph(pieces, verify=True)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("repeated", [None, "first"])
def test_an_edge_list_alone_in_the_same_bytes(tmp_path: Path, symmetric: bool, undirected: bool, repeated: Any) -> None:
    ends = np.random.default_rng(0).integers(0, 30, (200, 2))
    ends = np.concatenate([ends, ends[:, ::-1]]) if symmetric else ends
    edges = an_edge_list(tmp_path / "edges.csv", ends)
    assert_same_bytes(edges, None, tmp_path, undirected=undirected, repeated=repeated)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("unknown", ["skip", "add"])
def test_with_a_node_table_in_the_same_bytes(tmp_path: Path, text: bool, unknown: Any) -> None:
    names = [f"n{i * 7}" if text else str(1000 + i * 1_000_000) for i in range(44)]
    edges = an_edge_list(tmp_path / "edges.csv", np.random.default_rng(1).integers(0, 44, (200, 2)), names)
    rows = "".join(f"{name},{i % 3},{i / 7:.3f},{'xyz'[i % 3]}\n" for i, name in enumerate(names[:40]))
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,label,size,kind\n" + rows)
    assert_same_bytes(edges, nodes, tmp_path, undirected=True, unknown=unknown)


def test_what_needs_memory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    far = an_edge_list(tmp_path / "far.csv", np.array([[0, 2_000_000]]))
    wide = an_edge_list(tmp_path / "wide.csv", np.array([[0, 2**40]]))
    text = an_edge_list(tmp_path / "text.csv", np.array([[0, 1]]), ["a", "b"])
    near = an_edge_list(tmp_path / "near.csv", np.array([[0, 1]]))
    weighted = tmp_path / "weighted.csv"
    weighted.write_text("source,target,weight\n0,1,2.5\n")
    for edges, memory, kind, message in (
        (far, "8GiB", DatasetError, "far.csv: ids from 0 to 2000000 have gaps, and are numbered in memory"),
        (wide, "8GiB", DatasetError, "wide.csv: ids from 0 to 1099511627776 have gaps"),
        (weighted, "8GiB", DatasetError, "are in memory: leave memory out"),
        (near, "1MiB", HandfulError, "sorting the edges needs 32.0 MiB beside"),
    ):
        with pytest.raises(kind, match=message):
            import_tables(edges, None, out=tmp_path / "g", memory=memory, **SPLIT)
        assert not (tmp_path / "g").exists()
        assert not list(tmp_path.glob(".g*"))
    assert_same_bytes(text, None, tmp_path)


def test_ids_that_turn_out_to_be_text_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 64)
    ends = np.arange(100).reshape(50, 2)
    names = [str(i) for i in range(99)] + ["x"]
    assert_same_bytes(an_edge_list(tmp_path / "edges.csv", ends, names), None, tmp_path)
    assert open_graph(tmp_path / "pieces").num_edges == 50


def test_identifiers_are_left_out_and_codes_are_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (i, 9 * 10**18 + i, 7 * i, int(rng.integers(30)), f"{1000 + i % 7:05d}", f"{i:06d}", "xy"[i % 2])
        for i in range(100)
    ]
    names = ["id", "account", "customer", "visits", "zip", "card", "label"]
    nodes = "\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n"
    edges = "source,target\n0,1\n"
    said: list[str] = []
    graph = import_tables(*pair(tmp_path, edges, nodes), say=said.append)
    found = schema.Schema.from_json(graph.schema)
    assert found.identifiers == ("account", "customer", "card")
    assert {column.name: column.kind for column in found.columns} == {"visits": "number", "zip": "category"}
    assert found.columns[1].categories[0] == "01000"
    assert any("account, customer, card" in words for words in said)
    kinds = {row[0].text: row[1].text for row in found.table().rows}
    assert kinds["account"] == kinds["card"] == "identifier"
    kept = import_tables(*pair(tmp_path, edges, nodes), numbers=("customer", "zip"), say=said.append)
    assert kept.schema is not None
    own = schema.Schema.from_json(kept.schema)
    assert [(column.name, column.kind) for column in own.columns] == [
        (name, "number") for name in ("customer", "visits", "zip")
    ]
    frame = pa.table({"id": range(100), "big": [2.0**60 + 4096 * (i % 9) for i in range(100)]})
    ends = pa.table({"source": [0], "target": [1]})
    large = import_tables(ends, frame, say=said.append)
    assert large.num_features == 0
    far = import_tables(ends, frame, numbers=("big",), say=said.append)
    assert far.x is not None
    assert float(far.x.abs().max()) < 10  # and not in units of the 4096


def german(folder: Path, dates: list[str], encoding: str = "latin-1") -> tuple[Path, Path]:
    lines = [f"{i};{date};{i},5;Köln;{'xy'[i % 2]}" for i, date in enumerate(dates)]
    (folder / "nodes.csv").write_bytes(("id;Geprüft;preis;ort;label\n" + "\n".join(lines) + "\n").encode(encoding))
    (folder / "edges.csv").write_text("source;target;weight\n0;1;2,5\n")
    return folder / "edges.csv", folder / "nodes.csv"


def test_dates_decimal_commas_and_encodings(tmp_path: Path) -> None:
    dates = ["23.05.2024", "", "01.06.2024"]
    how = {"scale": "none", "decimal": ",", "encoding": "latin-1"}
    graph = import_tables(*german(tmp_path, dates), **how)
    found = schema.Schema.from_json(graph.schema)
    assert [(c.name, c.kind, c.format) for c in found.columns] == [
        ("Geprüft", "date", "%d.%m.%Y"),
        ("preis", "number", ""),
        ("ort", "category", ""),
    ]
    assert graph.edge_weight.tolist() == [2.5]
    days = [(np.datetime64(day) - np.datetime64("1970-01-01")).astype(int) for day in ("2024-05-23", "2024-06-01")]
    assert graph.x[:, 0].tolist() == [days[0], np.mean(days), days[1]]
    assert graph.x[:, 2].tolist() == [0.5, 1.5, 2.5]
    later = import_tables(*german(tmp_path, ["31.12.2024"] * 3), schema=found)  # as the first was written
    assert later.x[:, 0].tolist() == [20088.0] * 3
    with pytest.raises(DatasetError, match="row 2: 'Geprüft' is 'nie'"):
        import_tables(*german(tmp_path, ["nie"] * 3), schema=found)
    with pytest.raises(DatasetError, match="encoding"):
        import_tables(*german(tmp_path, dates))
    with pytest.raises(DatasetError, match="latin-1"):
        TableOptions(encoding="klingon")


@pytest.mark.parametrize(
    ("values", "format"),
    [
        (["23/05/2024", "01/02/2024"], "%d/%m/%Y"),
        (["05/23/2024", "01/02/2024"], "%m/%d/%Y"),
        (["1.2.24"], "%d.%m.%y"),
        (["2024/05/23", "2024/5/1"], "%Y/%m/%d"),
        (["23.05.2024 13:05", "01.02.2024 00:00"], "%d.%m.%Y %H:%M"),
        (["23.05.2024 13:05:59"], "%d.%m.%Y %H:%M:%S"),
        (["23.05.2024", "soon"], ""),
        (["1.2.3.4"], ""),
        (["23.05.2024", "23/05/2024"], ""),
    ],
)
def test_how_dates_are_written(values: list[str], format: str) -> None:
    table = pa.table({"day": values})
    rows = tables.TableFile.open(table)
    assert schema.date_format(rows, "day") == format
    if format:
        assert np.isfinite(rows.numbers("day", format=format)).all()


def test_days_and_months_that_cannot_be_told_apart_are_asked_for(tmp_path: Path) -> None:
    nodes = "id,day,label\n0,01/02/2024,x\n1,03/04/2024,y\n"
    files = pair(tmp_path, "source,target\n0,1\n", nodes)
    with pytest.raises(DatasetError, match="dates='dmy'"):
        import_tables(*files)
    days = [import_tables(*files, dates=order, scale="none").x[0, 0].item() for order in ("dmy", "mdy")]
    assert days[0] - days[1] == 30  # the first of February, and the second of January


def test_text_dates_in_memory_are_read_like_those_of_a_file(tmp_path: Path) -> None:
    nodes = "id,day,moment,label\n0,2024-05-23,2024-05-23 10:00:00,x\n1,,2024-05-24 12:30:00,y\n2,2024-06-01,,x\n"
    made = import_tables(*pair(tmp_path, "source,target\n0,1\n", nodes), scale="none")
    edges = {"source": [0], "target": [1]}
    found, texts = schema.Schema.from_json(made.schema), {"id": [0, 1, 2], "day": ["2024-05-23", None, "2024-06-01"]}
    texts["moment"] = ["2024-05-23 10:00:00", "2024-05-24 12:30:00", None]
    later = import_tables(edges, texts, schema=found)
    assert later.x.tolist() == made.x.tolist()
    none = import_tables(edges, {**texts, "day": pa.nulls(3, pa.string())}, schema=found, say=lambda text: None)
    assert none.x[:, 1].tolist() == [1, 1, 1]
    for day in ("soon", 20240523):
        with pytest.raises(DatasetError, match="'day'"):
            import_tables(edges, {**texts, "day": [day] * 3}, schema=found)
    for order in ("dmy", "mdy", "auto"):
        again = import_tables(edges, {**texts, "label": list("xyx")}, dates=order, scale="none", split=None)
        assert again.x.tolist() == made.x.tolist()
        written = schema.Schema.from_json(again.schema)
        with pytest.raises(DatasetError, match="'day'"):  # numbers are no dates, though text was
            import_tables(edges, {**texts, "day": [20240523] * 3}, schema=written)


def test_options_that_a_schema_replaces_are_refused(tmp_path: Path) -> None:
    edges, nodes = pair(tmp_path)
    found = Schema.from_json(import_tables(edges, nodes, say=silent).schema)
    for options in ({"decimal": ","}, {"undirected": True}, {"label": ["label"], "unknown": "skip"}):
        with pytest.raises(DatasetError, match=f"leave out {next(iter(options))}, or the schema"):
            import_tables(edges, nodes, schema=found, **options)  # type: ignore[arg-type]


def test_later_dates_may_have_another_format_of_the_same_order(tmp_path: Path) -> None:
    edges, label = {"source": [0], "target": [1]}, {"label": ["x", "y"]}
    first = {"id": [0, 1], "day": ["01/02/2024", "03/04/2024"]} | label
    made = import_tables(edges, first, dates="dmy", scale="none", split=None)
    found = schema.Schema.from_json(made.schema)
    for days in (["1.2.2024", "3.4.2024"], ["2024-02-01", "2024-04-03"], ["01/02/24", "03/04/24"]):
        later = import_tables(edges, first | {"day": days}, schema=found)
        assert later.x.tolist() == made.x.tolist()
    with pytest.raises(DatasetError, match="'day'"):
        import_tables(edges, first | {"day": ["02/23/2024", "01/02/2024"]}, schema=found)


def test_a_kept_column_of_numbers_splits_by_time(tmp_path: Path) -> None:
    rows = "".join(f"{i},{year},{i % 2}\n" for i, year in enumerate((2020, 2019, 2023, 2021, 900, 2022, 2024, 2018)))
    tables = pair(tmp_path, "source,target\n0,1\n", f"id,year,label\n{rows}")
    graph = import_tables(*tables, keep="year", split="time:year", say=lambda text: None)
    assert [getattr(graph, mask).nonzero().squeeze(1).tolist() for mask in MASKS] == [[0, 1, 4, 7], [3, 5], [2, 6]]
    assert (graph.num_features, graph.kept[:2, 0].tolist()) == (0, ["2020", "2019"])


# -- new rows of later tables -----------------------------------------------------------------------------------------


def shop(rng: np.random.Generator, names: list[str], known: list[str], count: int, **more: Any) -> tuple[Any, Any]:
    """Rows of nodes ``names``, and edges between ``known`` ids."""
    size = len(names)
    nodes = {"id": names, "age": rng.normal(40, 9, size).tolist(), "city": rng.choice(["Oslo", "Rome"], size).tolist()}
    nodes["age"][0] = None
    nodes |= {"name": [f"Ann {name}" for name in names], "label": rng.choice(["bad", "good"], size).tolist()} | more
    edges = {end: rng.choice(known, count).tolist() for end in ("source", "target")}
    return edges, nodes


def joined(*tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: [value for table in tables for value in table[name]] for name in tables[0]}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("how", [{}, {"weight": "w"}, {"repeated": "count"}, {"weight": "w", "repeated": "first"}])
def test_an_update_is_the_import_of_all_rows(tmp_path: Path, how: dict[str, Any], undirected: bool) -> None:
    rng = np.random.default_rng(0)
    old, new = [f"n{i}" for i in range(70)], [f"m{i}" for i in range(20)]
    edges, nodes = shop(rng, old, old, 300)
    more, later = shop(rng, new, old + new, 200)
    for table in (edges, more):
        order = [sorted(pair) for pair in zip(table["source"], table["target"], strict=True)]
        table["source"], table["target"] = (list(ends) for ends in zip(*order, strict=True))  # one direction of a pair
        if "weight" in how:
            table["w"] = rng.integers(1, 9, len(order)).astype(float).tolist()  # their sums are exact
    how = {**how, "undirected": undirected, "keep": "name"}
    graph = import_tables(edges, nodes, **how, out=tmp_path / "old")
    said: list[str] = []
    made = update_graph(tmp_path / "old", more, later, out=tmp_path / "new", say=said.append)
    whole = import_tables(joined(edges, more), joined(nodes, later), schema=Schema.from_json(graph.schema))
    for name in ("indptr", "indices", "edge_weight", "x", "y"):
        one, other = getattr(made, name), getattr(whole, name)
        assert (one is None and other is None) or one.tolist() == other.tolist(), name
    assert made.ids.tolist() == whole.ids.tolist()
    assert made.kept.tolist() == whole.kept.tolist()
    assert made.undirected == undirected
    assert made.x[:70].numpy().tobytes() == graph.x.numpy().tobytes()
    assert [getattr(made, m)[:70].tolist() for m in MASKS] == [getattr(graph, m).tolist() for m in MASKS]
    assert not any(getattr(made, m)[70:].any() for m in MASKS)
    (told,) = [text for text in said if "in no part of the split" in text]
    assert "20 new nodes, 20 of them with a label" in told
    assert made.schema == graph.schema
    saved = open_graph(tmp_path / "new", verify=True)
    assert (saved.name, saved.identity()) == ("new", made.identity())
    assert open_graph(tmp_path / "old", verify=True).identity() == graph.identity()


def test_an_update_takes_labels_and_splits_of_the_new_rows(tmp_path: Path) -> None:
    graph = import_tables(*pair(tmp_path))
    nodes = "colour,id,age,split,label\nred,d,,train,y\ngreen,e,9,,\n"
    said: list[str] = []
    made = update_graph(graph, *pair(tmp_path, "source,target\nd,a\ne,d\n", nodes), say=said.append)
    assert made.y.tolist() == [0, 1, 0, 1, -1]
    assert made.train_nodes.tolist() == [0, 3]
    assert any("1 new nodes, 0 of them" in text for text in said)
    assert any("'green'" in text for text in said)
    only = update_graph(graph, {"source": ["a"], "target": ["b"]})
    assert (only.num_nodes, only.num_edges, only.ids.tolist()) == (3, 4, graph.ids.tolist())
    drawn = import_tables(*pair(tmp_path, nodes="id,age,label\na,1,x\nb,2,y\nc,3,x\n"), split="random:34/33/33")
    later = {"id": ["d", "e"], "age": [1, 2], "label": ["x", "y"], "split": ["test", "val"]}
    made = update_graph(drawn, {"source": ["a"], "target": ["d"]}, later)
    assert [int(getattr(made, m)[3:].sum()) for m in MASKS] == [0, 1, 1]
    no_split = import_tables(*pair(tmp_path, nodes="id,age,label\na,1,x\nb,2,y\nc,3,x\n"), split=None)
    later["split"] = ["train", "val"]
    assert update_graph(no_split, {"source": ["a"], "target": ["d"]}, later).train_nodes.tolist() == [3]


def test_an_update_treats_unknown_ids_like_the_import(tmp_path: Path) -> None:
    edges = {"source": ["a", "b", "q"], "target": ["zoe", "c", "a"]}
    nodes = {"id": ["zoe"], "age": [5], "colour": ["red"], "label": ["x"]}
    with pytest.raises(DatasetError, match="row 3: source 'q' is not"):
        update_graph(import_tables(*pair(tmp_path)), edges, nodes)
    skips = import_tables(*pair(tmp_path), unknown="skip")
    assert update_graph(skips, edges, nodes, say=lambda text: None).num_edges == 5
    adds = import_tables(*pair(tmp_path), unknown="add")
    made = update_graph(adds, edges, nodes, say=lambda text: None)
    assert made.ids.tolist() == ["a", "b", "c", "zoe", "q"]
    assert made.y.tolist() == [0, 1, 0, 0, -1]
    assert made.x[4].tolist() == Schema.from_json(adds.schema).missing_row().tolist()
    assert update_graph(adds, edges, nodes, unknown="skip", say=lambda text: None).num_nodes == 4
    assert update_graph(adds, {"source": ["q"], "target": ["a"]}, say=lambda text: None).y.tolist() == [0, 1, 0, -1]
    later = Schema.from_json(skips.schema)
    edges = {"source": ["a", "q"], "target": ["b", "a"]}
    assert import_tables(edges, pair(tmp_path)[1], schema=later, say=lambda text: None).num_edges == 1
    with pytest.raises(DatasetError, match="source 'q' is not"):
        import_tables(edges, pair(tmp_path)[1], schema=later, unknown="error")


def test_ids_of_an_update_that_are_not_all_numbers() -> None:
    graph = import_tables({"source": [1], "target": [2]}, {"id": [1, 2], "age": [3, 4], "label": [0, 1]}, split=None)
    made = update_graph(graph, {"source": ["x", "2"], "target": ["1", "x"]}, {"id": ["x"], "age": [1], "label": [0]})
    assert made.ids.tolist() == ["1", "2", "x"]
    assert sorted(made.edge_index.T.tolist()) == [[0, 1], [1, 2], [2, 0]]
    for again in ([2], ["2", "x"]):
        with pytest.raises(DatasetError, match="row 1: node '2' is in the graph already: leave out"):
            update_graph(graph, {"source": [1], "target": [2]}, {"id": again, "age": [1] * len(again)})


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        (EDGES, NODES, r"nodes.csv, row 2: node 'a' is in .*; row 3: node 'b' .*; row 4: .*: leave out"),
        (EDGES, "id,age,colour,label\nd,1,red,x\nd,2,red,x\n", "row 3: node 'd' is there a second time"),
        ("source,target\nd,zz\n", "id,age,colour,label\nd,1,red,x\n", "target 'zz' is not in the node table"),
        (
            EDGES,
            "id,age,colour,label\nd,1,red,z\n",
            "1 labels are no class of the schema, such as 'z': leave them empty",
        ),
        (EDGES, "id,age,label\nd,1,x\n", "has no column colour, which the schema needs"),
        (EDGES, "id,age,colour,label\nd,old,red,x\n", "'age' holds string such as 'old'"),
        (EDGES, "id,age,colour,label\n", "nodes.csv has no rows"),
        ("source,target\n", "id,age,colour,label\nd,1,red,x\n", "edges.csv has no rows"),
        ("from,to\na,b\n", "id,age,colour,label\nd,1,red,x\n", "edges.csv has no column 'source'"),
    ],
)
def test_an_update_refuses_in_one_line(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    import_tables(*pair(tmp_path), out=tmp_path / "old")
    before = {file.name: file.read_bytes() for file in (tmp_path / "old").iterdir()}
    with pytest.raises(DatasetError, match=message) as caught:
        update_graph(tmp_path / "old", *pair(tmp_path, edges, nodes), out=tmp_path / "old")
    assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in (tmp_path / "old").iterdir()} == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["edges.csv", "nodes.csv", "old"]


def test_graphs_that_cannot_be_updated(tmp_path: Path) -> None:
    edges, nodes = pair(tmp_path, "source,target,amount\nb,a,1\nc,b,2\na,c,3\n")
    means = import_tables(edges, nodes, edge_columns=("amount",))
    averaged = import_tables(edges, nodes, weight="amount", repeated="mean", say=lambda text: None)
    bare = import_tables(edges, say=lambda text: None)
    table = {"id": ["a", "b", "c"], "age": [1, 2, 3], "label": [10, 20, 10]}
    numbers = import_tables({"source": ["a"], "target": ["b"]}, table, split=None).replace(task="regression")
    whole = "means over edges"
    for graph, message in ((means, whole), (averaged, whole), (bare, "no schema"), (numbers, "the y of graph")):
        with pytest.raises(DatasetError, match=message):
            update_graph(graph, {"source": ["a"], "target": ["d"]}, {"id": ["d"], "age": [1], "label": [10]})


def test_an_update_that_makes_a_graph_directed_says_so() -> None:
    old = import_tables({"source": ["a", "b"], "target": ["b", "a"]}, {"id": ["a", "b"], "age": [31, 45]}, say=list)
    for source, target in (["a"], ["b"]), (["a", "c"], ["c", "a"]), (["c"], ["a"]):
        said: list[str] = []
        new = update_graph(old, {"source": source, "target": target}, {"id": ["c"], "age": [52]}, say=said.append)
        assert any("directed" in text for text in said) == (old.undirected and not new.undirected)
    assert not new.undirected


def test_an_update_in_place(tmp_path: Path) -> None:
    import_tables(*pair(tmp_path), out=tmp_path / "g")
    new = pair(tmp_path, "source,target\nd,a\n", "id,age,colour,label\nd,1,red,x\n")
    update_graph(tmp_path / "g", *new, out=tmp_path / "g", say=lambda text: None)
    assert open_graph(tmp_path / "g", verify=True).ids.tolist() == ["a", "b", "c", "d"]


def test_an_update_of_a_large_graph_with_few_edges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = import_tables(*pair(tmp_path))
    monkeypatch.setattr("handful.graph.MOST_ISOLATED", 0)
    large = np.arange(200).astype(str)
    nodes = {"id": large.tolist(), "age": [1.0] * 200, "colour": ["red"] * 200}
    made = update_graph(graph, {"source": ["0"], "target": ["a"]}, nodes, say=lambda text: None)
    assert (made.num_nodes, made.num_edges) == (203, 4)


def noted(first: int, count: int, **more: Any) -> dict[str, Any]:
    """A node table with a long text, a number, a category and a label."""
    rng = np.random.default_rng(first)
    words = [" ".join(f"w{k}" for k in rng.integers(0, 3000, rng.integers(0, 9))) for _ in range(count)]
    table = {
        "id": [f"n{i}" for i in range(first, first + count)],
        "note": words,
        "age": rng.normal(size=count).tolist(),
    }
    table |= {"city": [["Oslo", "Rome"][i % 2] for i in range(count)]}
    return table | {"label": [["a", "b"][int(k)] for k in rng.integers(0, 2, count)]} | more


def ring(first: int, count: int) -> dict[str, Any]:
    ends = range(first, first + count)
    return {"source": [f"n{i}" for i in ends], "target": [f"n{max(0, i - 1)}" for i in ends]}


def silent(_: str) -> None:
    """Notes are not the point of a test."""


@pytest.mark.parametrize("unknown", ["error", "add"])
def test_hashed_words_stay_sparse(unknown: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges, nodes = ring(0, 90), noted(0, 90)
    if unknown == "add":
        edges = {name: [*values, "new"] for name, values in edges.items()}
    how: dict[str, Any] = {"hashed": "note=2048", "unknown": unknown, "say": silent, "split": None}
    graph = import_tables(edges, nodes, **how, out=tmp_path / "g")
    assert graph.x is not None
    assert is_sparse(graph.x)
    assert graph.x.values().numel() < 12 * graph.num_nodes
    monkeypatch.setattr(schema, "NARROW", 10**6)
    wanted = import_tables(edges, nodes, **how)
    assert wanted.x is not None
    assert not is_sparse(wanted.x)
    assert torch.equal(dense(graph.x), wanted.x)
    assert open_graph(tmp_path / "g").identity() == graph.identity()


def test_features_are_sparse_only_if_nearly_all_are_zero() -> None:
    edges, nodes = ring(0, 90), noted(0, 90)
    for how in ({"hashed": "note=64"}, {"hashed": "note=500"}, {"hashed": "note=600", "ignore": "age"}):
        graph = import_tables(edges, nodes, **how, say=silent)
        assert graph.x is not None
        # About four words, a number and a category in 600 columns are within a hundredth; 512 columns are narrow.
        assert is_sparse(graph.x) == (graph.num_features > 512)
    full = {**nodes, "note": [" ".join(f"w{k}" for k in range(50))] * 90}
    graph = import_tables(edges, full, hashed="note=600", say=silent)
    assert graph.x is not None
    assert not is_sparse(graph.x)


def test_an_update_of_sparse_features_is_the_import_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"hashed": "note=2048", "say": silent, "split": None}
    old = import_tables(ring(0, 60), noted(0, 60), **how)
    new = ring(60, 30), noted(60, 30)
    made = update_graph(old, *new, say=silent)
    assert made.x is not None
    assert is_sparse(made.x)
    wanted = import_tables(
        joined(ring(0, 60), new[0]), joined(noted(0, 60), new[1]), schema=Schema.from_json(old.schema), say=silent
    )
    assert wanted.x is not None
    assert torch.equal(dense(made.x), dense(wanted.x))
    monkeypatch.setattr(schema, "NARROW", 10**6)
    again = update_graph(old.replace(x=dense(old.x)), *new, say=silent)
    assert again.x is not None
    assert torch.equal(again.x, dense(made.x))
    assert again.replace(x=made.x).identity() == made.identity()
