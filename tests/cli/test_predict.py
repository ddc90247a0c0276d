"""``handful predict``: the whole way from tables to predictions, against one by hand."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import handful as hf
from cli.run import handful

ROLES = ("--source", "payer", "--target", "payee", "--weight", "amount", "--id", "customer", "--label", "status")
SMALL = ("--hidden", "8", "--layers", "2", "--epochs", "3", "--seeds", "1,2", "--parts", "2", "--lr", "0.01")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "customers.py"


def process(*args: object) -> str:
    done = subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def by_hand(folder: Path, first: Path) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Ids, features and edges of the customers' tables, with plain Python, by what the ``first`` tables tell."""
    before, rows = read(first / "customers.csv"), read(folder / "customers.csv")

    def days(text: str) -> float:
        return float(np.datetime64(text).astype(int))

    ages = [float(row["age"]) for row in before if row["age"]]
    joined = [days(row["joined"]) for row in before]
    balances = [float(row["balance"]) for row in before]
    cities, plans = (sorted({row[name] for row in before}) for name in ("city", "plan"))
    x = []
    for row in rows:
        age = float(row["age"]) if row["age"] else median(ages)
        place = cities.index(row["city"]) if row["city"] in cities else len(cities)
        x.append(
            [
                (age - np.mean(ages)) / np.std(ages),
                float(not row["age"]),
                (days(row["joined"]) - np.mean(joined)) / np.std(joined),
                *np.eye(len(cities) + 1)[place],
                *np.eye(len(plans) + 1)[plans.index(row["plan"])],
                float(row["business"] == "true"),
                (float(row["balance"]) - np.mean(balances)) / np.std(balances),
            ]
        )
    ids = [row["customer"] for row in rows]
    place_of = {one: i for i, one in enumerate(ids)}
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for row in read(folder / "transfers.csv"):
        sums[place_of[row["payer"]], place_of[row["payee"]]] += float(row["amount"])
    both = {edge: [w for w in (sums.get(edge), sums.get(edge[::-1])) if w is not None] for edge in sums}
    both |= {edge[::-1]: weights for edge, weights in both.items()}
    edges = np.array(list(both)).T
    return ids, np.array(x, np.float32), edges, np.array([np.mean(w) for w in both.values()], np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    for month in (1, 2):
        process(EXAMPLE, folder / f"month{month}", "--count", 100, "--month", month)
    tables = (folder / "month1" / "transfers.csv", folder / "month1" / "customers.csv")
    told = handful("import", *tables, *ROLES, "--undirected", "--out", folder / "graph")
    assert told.code == 0
    assert "one-hot" in told.stdout
    # ``by_hand`` has no labels.
    assert handful("train", folder / "graph", *SMALL, "--label-features", "no", "--out", folder / "run").code == 0
    return folder


def test_the_whole_way_from_tables_to_predictions(trained: Path, tmp_path: Path) -> None:
    shop, later = trained / "month1", trained / "month2"
    assert list(read(later / "customers.csv")[0]) == list(read(shop / "customers.csv")[0])[::-1]
    assert "Malmö" in {row["city"] for row in read(later / "customers.csv")}
    tables = (later / "transfers.csv", later / "customers.csv")
    for graph, name in (((), "first"), (tables, "second")):
        out = tmp_path / f"{name}.csv"
        assert handful("predict", trained / "run", *graph, "--nodes", "all", "--out", out).code == 0
    for folder, name in ((shop, "first"), (later, "second")):
        ids, x, edges, weight = by_hand(folder, shop)
        graph = hf.Graph.from_edge_index(edges, len(ids), x=x, edge_weight=weight)
        assert graph.undirected
        logits = [hf.infer(model, graph)[:, 0].double() for model in hf.open_run(trained / "run").models()]
        rule = json.loads((trained / "run" / "decision.json").read_text())
        shift = rule["bias"][1] - rule["bias"][0]
        ok = np.mean([(rule["scale"] * logit + shift).sigmoid().numpy() for logit in logits], axis=0)
        found = read(tmp_path / f"{name}.csv")
        assert [row["id"] for row in found] == ids
        assert np.allclose([float(row["p(ok)"]) for row in found], ok, atol=2e-5)
        assert np.allclose([float(row["p(fraud)"]) for row in found], 1 - ok, atol=2e-5)
        # The rarer class, fraud, is the positive one: it is predicted from a half on.
        clear = [(row["predicted"], p > 0.5) for row, p in zip(found, ok, strict=True) if abs(p - 0.5) > 1e-4]
        assert all((name == "ok") == likely for name, likely in clear)
        status = {row["customer"]: row["status"] for row in read(folder / "customers.csv")}
        assert [row["label"] for row in found] == [status[one] for one in ids]


def test_what_is_printed(trained: Path) -> None:
    result = handful("predict", trained / "run", "--nodes", "test")
    assert result.code == 0, result.stderr
    for words in ("C000", "test", "1, 2", "--out"):
        assert words in result.stdout
    told = handful("predict", trained / "run", "--json").json
    assert told["chosen"] == "unlabelled"
    assert told["nodes"] == sum(told["classes"].values()) > 0
    assert set(told["preview"][0]) >= {"id", "predicted", "probability", "p(fraud)", "p(ok)", "split", "agree"}


def test_a_graph_of_the_other_direction_is_refused(trained: Path, tmp_path: Path) -> None:
    shop = trained / "month1"
    tables = (shop / "transfers.csv", shop / "customers.csv")
    assert handful("import", *tables, *ROLES, "--out", tmp_path / "directed").code == 0
    refused = handful("predict", trained / "run", tmp_path / "directed")
    assert refused.code == 2
    assert "undirected" in refused.stderr


def test_an_unfinished_run_and_known_nodes_have_notes(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    tables = (trained / "month1" / "transfers.csv", trained / "month1" / "customers.csv")
    whole = handful("predict", tmp_path / "run", *tables, "--nodes", "all")
    assert "may have been trained" in whole.stderr
    assert "not finished" not in whole.stderr
    shutil.rmtree(tmp_path / "run" / "seed-2")
    assert "1 of 2 seeds" in handful("predict", tmp_path / "run").stderr


def test_predictions_that_are_worse_than_one_class_are_said(trained: Path, tmp_path: Path) -> None:
    shop, other = trained / "month1", {"ok": "fraud", "fraud": "ok"}
    rows = [row | {"status": other.get(row["status"], "")} for row in read(shop / "customers.csv")]
    with (tmp_path / "customers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for table, worse in ((shop / "customers.csv", False), (tmp_path / "customers.csv", True)):
        asked = ("predict", trained / "run", shop / "transfers.csv", table, "--nodes", "all")
        (judged,) = handful(*asked, "--json").json["judged"].values()
        assert (judged["accuracy"] < judged["majority"] - judged["nodes"] ** -0.5) == worse
        assert ("do not use" in handful(*asked).stdout) == worse


def test_a_decision_threshold_is_said_with_its_class(trained: Path) -> None:
    for limit in (("--cost", "fn=9,fp=1"), ("--threshold", "0.1")):
        told = handful("predict", trained / "run", *limit)
        (line,) = [line for line in told.stdout.splitlines() if "threshold" in line]
        assert ("fraud" in line, "0.1" in line) == (True, True)
    found = handful("predict", trained / "run", "--threshold", "0.1", "--json").json
    assert (found["threshold"], found["positive"]) == (0.1, "fraud")
    for wrong in (("--threshold", "30"), ("--threshold", "0.3", "--cost", "fn=9,fp=1")):
        told = handful("predict", trained / "run", *wrong)
        assert (told.code, "threshold" in told.stderr) == (2, True)


def test_only_what_it_would_change(trained: Path) -> None:
    out = trained / "changed.csv"
    told = handful("predict", trained / "run", "--nodes", "all", "--changed", "--out", out, "--json").json
    rows = read(out)
    assert told["nodes"] == told["changed"] == len(rows) > 0
    assert all(row["label"] and row["label"] != row["predicted"] for row in rows)
    sure = [float(row["probability"]) for row in rows]
    assert sure == sorted(sure, reverse=True)


def test_a_graph_of_its_own_is_checked_column_by_column(trained: Path) -> None:
    tables = (trained / "month2" / "transfers.csv", trained / "month2" / "customers.csv")
    handful("import", *tables, *ROLES, "--undirected", "--out", trained / "other")
    result = handful("predict", trained / "run", trained / "other")
    assert result.code == 2
    for column in ("age", "city", "Malmö"):
        assert column in result.stderr
    told = handful("import", *tables, "--schema", trained / "run", "--out", trained / "same", "--json")
    assert "'Malmö'" in told.stderr
    assert told.json["split"] == {}
    for graph, name in (((trained / "same",), "a"), (tables, "b")):
        assert handful("predict", trained / "run", *graph, "--out", trained / f"{name}.csv").code == 0
    assert (trained / "a.csv").read_text() == (trained / "b.csv").read_text()


def test_renamed_columns_and_categories_never_shift(trained: Path, tmp_path: Path) -> None:
    text = (trained / "month1" / "customers.csv").read_text()
    (tmp_path / "edges.csv").write_text((trained / "month1" / "transfers.csv").read_text())
    for old, new, words in (
        ("age,", "years,", "age"),
        ("Lyon", "Aachen", "'Aachen'"),
    ):
        (tmp_path / "nodes.csv").write_text(text.replace(old, new))
        result = handful("predict", trained / "run", tmp_path, "--out", tmp_path / "p.csv", "--nodes", "all")
        assert words in result.stderr
        assert (result.code == 0) == (old == "Lyon")
    graph = hf.open_run(trained / "run").load(tmp_path, say=lambda text: None)
    columns = hf.datasets.schema.Schema.from_json(graph.schema).columns
    at = [column.name for column in columns].index("city")
    place = sum(column.width for column in columns[:at]) + columns[at].categories.index("Porto")
    lives = np.array([row["city"] == "Porto" for row in read(tmp_path / "nodes.csv")])
    assert graph.x is not None
    assert np.array_equal(graph.x[:, place].numpy(), lives)


def test_a_graph_without_columns(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    hf.Experiment("synthetic?nodes=100&degree=4&features=8", hidden=8, layers=2, epochs=1, seeds=(1,)).run(run)
    told = handful("predict", run, "--embeddings", "--out", tmp_path / "p.npz", "--json").json
    assert (told["chosen"], told["nodes"]) == ("all", 100)
    with np.load(tmp_path / "p.npz") as arrays:
        assert arrays["embeddings"].shape == (100, 8)
    for args, words in (
        ((run, "synthetic?nodes=100&degree=4&features=9"), "9 features"),
        ((trained / "run", "synthetic?nodes=100&degree=4&features=15"), "15 features"),
        ((run, "--nodes", "unlabelled"), "unlabelled"),
        ((run, "--nodes", "nobody.txt"), "nobody.txt"),
        ((run, "--out", "p.txt"), ".parquet"),
        ((tmp_path,), str(tmp_path)),
    ):
        result = handful("predict", *args)
        assert result.code == 2
        assert words in result.stderr


def test_within_a_budget_it_is_the_same_and_leaves_no_scratch_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    hf.Experiment("synthetic?nodes=300&degree=4&features=8", hidden=8, layers=2, epochs=1, seeds=(1, 2)).run(run)
    for name, memory in (
        ("a", ()),
        ("b", ("--memory", "8GiB")),
        ("c", ("--memory", "8GiB", "--scratch", tmp_path / "s")),
    ):
        done = handful("predict", run, "--out", tmp_path / f"{name}.npz", *memory)
        assert done.code == 0, done.stderr
    for name in "bc":
        with np.load(tmp_path / "a.npz") as one, np.load(tmp_path / f"{name}.npz") as other:
            np.testing.assert_allclose(one["values"], other["values"], atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz", "c.npz", "run"]
    for args, words in (
        (("--memory", "1MiB"), "1.0 MiB"),
        (("--memory", "8GiB", "--embeddings"), "--embeddings"),
        (("--scratch", tmp_path / "s"), "--memory"),
    ):
        result = handful("predict", run, *args)
        assert result.code == 2
        assert words in result.stderr


def test_a_broken_encoding_is_one_line(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    for broken, words in (
        ({"class_names": [1]}, "class names"),
        ({"kind": "binary", "schema": {"id": 1}}, "schema"),
        ([], "encoding.json"),
    ):
        (tmp_path / "run" / "seed-1" / "encoding.json").write_text(json.dumps(broken))
        result = handful("predict", tmp_path / "run", trained / "graph")
        assert (result.code, words in result.stderr) == (2, True), result.stderr


def test_a_graph_that_has_changed_is_said(tmp_path: Path) -> None:
    rows = [f"n{i},{'ab'[i % 2]},{i / 7:.2f}" for i in range(40)]
    tables = tmp_path / "[tables]"  # brackets are no markup
    tables.mkdir()
    (tables / "nodes.csv").write_text("\n".join(["id,label,age", *rows]) + "\n")
    (tables / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i * 7 + 1) % 40}\n" for i in range(40)))
    run = tmp_path / "run"
    handful("train", str(tables), *SMALL, "--split", "rh", "--out", str(run))
    told = handful("predict", str(run), "--nodes", "all").stderr
    assert "[tables]" not in told
    assert "split" in told
    rows[3] = "n3,b,99"
    (tables / "nodes.csv").write_text("\n".join(["id,label,age", *rows]) + "\n")
    told = handful("predict", str(run), "--nodes", "all").stderr
    assert "'[tables]'" in told
    assert "features" in told


@pytest.mark.parametrize("device", ["meta", "nothing", "cpu,cpu"])
def test_a_device_that_cannot_be_used_is_one_line(trained: Path, device: str) -> None:
    done = handful("predict", str(trained / "run"), "--nodes", "all", "--device", device)
    assert done.code == 2
    assert f"device '{device}' cannot be used here" in done.stderr
