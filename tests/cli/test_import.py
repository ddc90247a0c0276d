"""``handful import`` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.run import handful
from handful.storage import open_graph


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in range(60)]
    edges = "".join(f"{names[u]},{names[v]}\n" for u, v in rng.integers(0, 60, (200, 2)))
    rows = "".join(f"{name},{i % 3},{rng.normal():.3f},{'xyz'[i % 3]}\n" for i, name in enumerate(names))
    (tmp_path / "edges.csv").write_text("source,target\n" + edges)
    (tmp_path / "nodes.csv").write_text("id,label,size,kind\n" + rows)
    return tmp_path / "edges.csv", tmp_path / "nodes.csv"


def test_import_then_train(tables: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "my-graph"
    result = handful("import", *tables, "--undirected", "--out", folder, "--json")
    assert result.code == 0, result.stderr
    assert (result.json["nodes"], result.json["features"], result.json["classes"]) == (60, 5, 3)
    assert result.json["split"] == {"train": 30, "val": 15, "test": 15}
    assert result.json["undirected"] is True
    graph = open_graph(folder)
    assert graph.num_edges == result.json["edges"]
    small = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--seeds", "1", "--parts", 2)
    trained = handful("train", folder, *small, "--out", tmp_path / "run", "--json")
    assert trained.code == 0, trained.stderr
    assert trained.json["graph"] == "my-graph"


def test_a_directed_graph_is_said_to_be_one(tables: tuple[Path, Path], tmp_path: Path) -> None:
    result = handful("import", *tables, "--features", "size", "--split", "rl", "--out", tmp_path / "g")
    assert result.code == 0, result.stderr
    for said in ("60 nodes", "200 edges", "train 6", "test 48"):
        assert said in result.stdout
    assert "--undirected" in result.stderr


def test_any_other_graph_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=np.array([[0, 1], [1, 2]]))
    result = handful("import", tmp_path / "g.npz", "--out", tmp_path / "g")
    assert result.code == 0, result.stderr
    assert open_graph(tmp_path / "g").num_edges == 2


def test_mistakes_are_one_line(tables: tuple[Path, Path], tmp_path: Path) -> None:
    edges, nodes = tables
    edges.write_text(edges.read_text() + "n1,n99\n")
    for args, message in (
        ((edges, nodes), "row 202"),
        ((edges, nodes, "--label", "club"), "'club'"),
        ((edges, tmp_path / "none.csv"), "none.csv"),
    ):
        result = handful("import", *args, "--out", tmp_path / "g")
        assert result.code == 2
        assert message in result.stderr.replace("\n", "")
        assert not (tmp_path / "g").exists()


def test_a_data_set_by_name_in_memory_and_within_a_budget(tmp_path: Path) -> None:
    name = "synthetic?nodes=300&degree=4&features=4&half=1"
    for folder, memory in (("a", ()), ("b", ("--memory", "8GiB"))):
        result = handful("import", name, "--out", tmp_path / folder, *memory)
        assert result.code == 0, result.stderr
        assert "300 nodes" in result.stdout
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    for args, message in (
        ((name, "--memory", "much"), "much"),
        ((name, "--memory", "1MiB"), "1.0 MiB"),
        (("debian", "--memory", "8GiB"), "debian"),
    ):
        result = handful("import", *args, "--out", tmp_path / "c")
        assert result.code == 2
        assert message in result.stderr.replace("\n", " ")
        assert not (tmp_path / "c").exists()


def test_ages_that_were_imported_as_classes_are_predicted_as_ages(tables: tuple[Path, Path], tmp_path: Path) -> None:
    edges, nodes = tables
    rows = [line.split(",") for line in nodes.read_text().splitlines()[1:]]
    ages = {row[0]: 20 + 3 * (i % 17) for i, row in enumerate(rows)}
    nodes.write_text("id,age,size\n" + "".join(f"{row[0]},{ages[row[0]]},{row[2]}\n" for row in rows))
    small = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--seeds", "1", "--parts", 2)
    imported = handful("import", edges, nodes, "--label", "age", "--out", tmp_path / "g", "--json")
    assert imported.json["classes"] == 17
    trained = handful("train", tmp_path / "g", *small, "--task", "regression", "--out", tmp_path / "run", "--json")
    assert trained.code == 0, trained.stderr
    for graph in ((), (edges, nodes)):
        found = handful("predict", tmp_path / "run", *graph, "--nodes", "all", "--json").json
        assert [row["label"] for row in found["preview"]] == [ages[row["id"]] for row in found["preview"]]


def test_an_option_of_tables_is_refused_for_a_graph(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", edge_index=[[0, 1], [1, 0]], x=[[1.0], [2.0]], y=[3, 4])
    failed = handful("import", tmp_path / "mine.npz", "--out", tmp_path / "g", "--task", "regression")
    assert failed.code == 2
    assert "task" in failed.stderr
    assert not (tmp_path / "g").exists()


def test_an_update_keeps_the_run_applicable(tables: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    assert handful("import", *tables, "--undirected", "--keep", "kind", "--out", old).code == 0
    small = ("--hidden", 8, "--layers", 2, "--epochs", 1, "--seeds", "1", "--parts", 2, "--no-baselines")
    assert handful("train", old, *small, "--out", tmp_path / "run").code == 0
    (tmp_path / "later.csv").write_text("kind,id,size,label\nw,m1,0.5,\nw,m2,0.1,2\n")
    (tmp_path / "links.csv").write_text("target,source\nn1,m1\nm2,m1\nn3,n1\n")
    asked = ("update", old, tmp_path / "links.csv", tmp_path / "later.csv", "--out", new)
    result = handful(*asked, "--json")
    assert result.code == 0, result.stderr
    assert (result.json["nodes"], result.json["added"]["nodes"]) == (62, 2)
    assert "2 new nodes, 1 of them with a label, are in no part of the split" in result.stderr
    assert open_graph(new).ids[-2:].tolist() == ["m1", "m2"]
    found = handful("predict", tmp_path / "run", new, "--nodes", "all", "--json")
    assert found.code == 0, found.stderr
    assert found.json["nodes"] == 62
    again = handful(*asked[:1], new, *asked[2:])
    assert again.code == 2
    assert "row 2: node 'm1' is in the graph already; row 3: node 'm2'" in again.stderr
    assert again.stderr.count("\n") == 1
    assert "--out" in handful(*asked[:-2]).stderr
    directed = handful("update", old, tmp_path / "links.csv", "--unknown", "skip", "--out", tmp_path / "g")
    assert (directed.code, "added: 0 nodes" in directed.stdout) == (0, True)


def test_edges_up_to_the_time_of_training_and_all_edges_to_predict(tables: tuple[Path, Path], tmp_path: Path) -> None:
    rows = [line.split(",") for line in tables[1].read_text().splitlines()]
    more = [[*row, "joined" if not i else f"2024-01-{1 + i // 2:02d}"] for i, row in enumerate(rows)]
    tables[1].write_text("".join(",".join(row) + "\n" for row in more))
    ends = tables[0].read_text().splitlines()[1:]
    days = [1 + 3 * i % 31 for i in range(len(ends))]
    lines = [f"{pair},2024-01-{day:02d}\n" for pair, day in zip(ends, days, strict=True)]
    tables[0].write_text("source,target,day\n" + "".join(lines))
    split, time = ("--split", "time:joined"), ("--edge-time", "day")
    result = handful("import", *tables, *split, *time, "--out", tmp_path / "g", "--json")
    assert result.code == 0, result.stderr
    assert result.json["split"] == {"train": 29, "val": 16, "test": 15}  # two nodes per day, and one on the first
    early = sum(day < 16 for day in days)
    assert result.json["edges"] == early
    assert f"{200 - early} of 200 edges are left out: 'day' is 2024-01-16 or later" in " ".join(result.stderr.split())
    small = ("--hidden", 8, "--layers", 2, "--epochs", 2, "--seeds", "1", "--parts", 2)
    trained = handful("train", tmp_path / "g", *small, "--out", tmp_path / "run", "--json")
    assert trained.code == 0, trained.stderr
    predicted = handful("predict", tmp_path / "run", *tables, "--nodes", "all", "--json")
    assert predicted.code == 0, predicted.stderr
    assert predicted.json["nodes"] == 60
    assert "not used" not in predicted.stderr
    refused = handful("import", *tables, *time, "--out", tmp_path / "other")
    assert refused.code != 0
    assert "time:COLUMN" in refused.stderr


def test_a_repeated_option_adds_to_its_list(tables: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(
        "id,a,b,c,d,u,v\n" + "".join(f"n{i},{i % 7},1,2,3,{i % 2},0\n" for i in range(60))
    )
    labels = ("--task", "multilabel", "--label", "u", "--label", "v")
    for given in (("--ignore", "b,c", "--ignore", "d"), ("--ignore", "b", "--ignore", "c", "--ignore", "d")):
        made = handful("import", tables[0], tmp_path / "more.csv", *labels, *given, "--out", tmp_path / "g", "--json")
        assert made.code == 0, made.stderr
        schema = made.json["schema"]
        assert ([column["name"] for column in schema["columns"]], schema["labels"]) == (["a"], ["u", "v"])
    both = ("--ignore", "a,d", "--keep", "b", "--keep", "c")
    made = handful("import", tables[0], tmp_path / "more.csv", *labels, *both, "--out", tmp_path / "g", "--json")
    assert (made.json["features"], made.json["schema"]["kept"]) == (0, ["b", "c"])


def test_messages_of_tables_name_flags(tables: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("id,label\n" + "".join(f"n{i},{20 + i % 40}\n" for i in range(200)))
    result = handful("import", tables[0], tmp_path / "ages.csv", "--out", tmp_path / "g")
    assert (result.code, "--task regression" in result.stderr) == (0, True)
    tables[0].write_text(tables[0].read_text() + "n1,n99\n")
    assert "--unknown skip" in handful("import", *tables, "--out", tmp_path / "g").stderr
    other = handful("train", tmp_path, "--unknown", "skip")
    assert (other.code, "handful import" in other.stderr) == (2, True)
