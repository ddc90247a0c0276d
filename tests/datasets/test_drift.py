"""Whether a later table is like the first: what moved is found and named, and chance is not taken for a move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cli.run import handful
from handful.datasets.drift import moved_columns, stability_index, with_profile
from handful.datasets.importer import import_tables, update_graph
from handful.datasets.schema import Edges, Schema, fit_columns
from handful.datasets.tables import Problems, TableFile
from handful.errors import DatasetError
from handful.settings import TableOptions

Table = dict[str, list[Any]]


def people(seed: int, count: int = 1000, **others: Any) -> TableFile:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "balance": rng.lognormal(7, 1, count),
        "children": rng.poisson(0.7, count),
        "age": [None if rng.random() < 0.1 else float(a) for a in rng.normal(44, 10, count)],
        "vip": (rng.random(count) < 0.02).tolist(),
        "city": rng.choice(["Lyon", "Oslo", "Rome"], count, p=[0.6, 0.3, 0.1]).tolist(),
        "vector": rng.normal(size=(count, 3)).tolist(),
        "note": ["red shoes"] * count,
        "same": [7] * count,
    }
    table = pa.table({**columns, **others})
    return TableFile.open(table)


def fitted(rows: TableFile) -> Schema:
    every, problems = np.ones(len(rows), bool), Problems()
    found = fit_columns(rows, rows.names, TableOptions(hashed=["note"]), every, problems)
    problems.tell()
    return with_profile(Schema("id", Edges("s", "t"), found, rows=len(rows)), rows, every)


@pytest.mark.parametrize("count", [1, 5, 40, 300, 3000])
def test_chance_is_no_move(count: int) -> None:
    schema = fitted(people(0))
    for seed in range(1, 9):
        assert moved_columns((schema, people(seed, count))) == {}


def test_what_moved_is_named_the_worst_first() -> None:
    schema, rng = fitted(people(0)), np.random.default_rng(3)
    cents = 100 * rng.lognormal(7, 1, 1000)
    later = people(1, balance=cents, city=["Rome"] * 400 + ["Bonn"] * 600, age=[None] * 400 + [44.0] * 600)
    moved = moved_columns((schema, later))
    assert list(moved) in (["balance", "city", "age"], ["city", "balance", "age"])
    assert "60%" in moved["city"]
    assert "missing 1" in moved["age"]
    above = float((cents > np.max(people(0).column("balance").to_numpy())).mean())
    assert f"{above:.0%} above" in moved["balance"]


def test_a_constant_that_changes_and_values_below_all() -> None:
    schema = fitted(people(0))
    assert moved_columns((schema, people(1, same=[8] * 1000))) == {"same": "median 7 → 8, 100% above all of training"}
    (words,) = moved_columns((schema, people(1, children=[-1] * 1000))).values()
    assert "100% below" in words


def test_the_index_by_hand() -> None:
    was, now = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    assert np.isclose(stability_index(was, now), 0.3 * np.log(2.5) - 0.3 * np.log(0.625))


def test_a_schema_keeps_its_profile_and_an_older_one_has_none() -> None:
    schema = fitted(people(0))
    assert Schema.from_json(schema.to_json()) == schema
    record = schema.to_json()
    for column in record["columns"]:
        column.pop("marks", None)
        column.pop("shares")
    assert moved_columns((Schema.from_json(record), people(1, same=[8] * 1000))) == {}
    assert schema.differences(Schema.from_json(record)) == []


def test_cents_in_place_of_euros_are_said_and_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    edges = "source,target\n" + "".join(f"{u},{v}\n" for u, v in rng.integers(0, 300, (900, 2)))
    (tmp_path / "edges.csv").write_text(edges)
    for name, unit in (("euros", 1), ("cents", 100)):
        rows = "".join(f"{i},{'ab'[i % 2]},{unit * b:.2f}\n" for i, b in enumerate(rng.lognormal(7, 1, 300)))
        (tmp_path / f"{name}.csv").write_text("id,label,balance\n" + rows)
    edges = tmp_path / "edges.csv"
    assert handful("import", edges, tmp_path / "euros.csv", "--out", tmp_path / "g").code == 0
    small = ("--hidden", 8, "--layers", 2, "--epochs", 1, "--seeds", "1", "--parts", 2)
    assert handful("train", tmp_path / "g", *small, "--out", tmp_path / "run").code == 0
    same = handful("predict", tmp_path / "run", edges, tmp_path / "euros.csv", "--strict")
    assert same.code == 0, same.stderr
    assert "balance" not in same.stderr
    later = handful("predict", tmp_path / "run", edges, tmp_path / "cents.csv")
    assert later.code == 0, later.stderr
    assert "'balance' (median" in later.stderr
    refused = handful("predict", tmp_path / "run", edges, tmp_path / "cents.csv", "--strict")
    assert refused.code == 2
    assert "'balance'" in refused.stderr


def payments(seed: int, count: int = 3000, amount: float = 1.0, kinds: tuple[float, float] = (0.7, 0.3)) -> Table:
    rng = np.random.default_rng(seed)
    return {
        "source": rng.integers(0, 500, count).tolist(),
        "target": rng.integers(0, 500, count).tolist(),
        "weight": (amount * rng.lognormal(1, 1, count)).tolist(),
        "kind": rng.choice(["card", "cash"], count, p=kinds).tolist(),
        "when": [None if rng.random() < 0.1 else float(t) for t in rng.normal(12, 3, count)],
    }


def buyers(count: int = 500) -> Table:
    return {"id": list(range(count)), "age": np.random.default_rng(1).normal(40, 9, count).tolist()}


LATER = {
    "same kind of edges": (payments(1), set()),
    "cents": (payments(2, amount=100), {"weight"}),
    "another mix": (payments(3, kinds=(0.1, 0.9)), {"kind"}),
    "no times": (payments(4) | {"when": [None] * 3000}, {"when"}),
    "a third of the edges": (payments(5, 1000), {"degrees"}),
}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("name", LATER)
def test_edges_that_differ_from_those_in_training_are_named(name: str, undirected: bool) -> None:
    options = {"label": [], "undirected": undirected, "edge_columns": ["kind", "when"]}
    schema = Schema.from_json(import_tables(payments(0), buyers(), say=lambda text: None, **options).schema)
    (edges, wanted), notes = LATER[name], list[str]()
    import_tables(edges, buyers(), schema=schema, say=notes.append)
    found = [note for note in notes if "distributions of edges" in note]
    degrees = ["edges per node"] if undirected else ["edges out per node", "edges in per node"]
    moved = {one for one in ("weight", "kind", "when") if any(f"'{one}' (" in note for note in found)}
    moved |= {"degrees"} if any(f"'{one}' (" in note for note in found for one in degrees) else set()
    assert moved == wanted
    assert len(found) == bool(wanted)
    if wanted:
        with pytest.raises(DatasetError, match="differ from those in training"):
            import_tables(edges, buyers(), schema=schema, strict=True, say=notes.append)


def test_a_weight_that_is_an_edge_column_too_is_compared_once() -> None:
    options: dict[str, Any] = {"label": [], "edge_columns": ["weight"], "say": lambda text: None}
    schema = Schema.from_json(import_tables(payments(0), buyers(), **options).schema)
    assert [column.name for column in schema.edges.values.columns] == ["weight"]
    notes: list[str] = []
    import_tables(payments(2, amount=100), buyers(), schema=schema, say=notes.append)
    assert sum("of 3 distributions of edges differ" in note for note in notes) == 1


def test_an_update_compares_the_weights_and_not_the_degrees() -> None:
    old = import_tables(payments(0), buyers(), label=[], say=lambda text: None)
    few = {name: values[:50] for name, values in payments(2, amount=100).items()}
    notes: list[str] = []
    update_graph(old, few, say=notes.append)
    assert not [note for note in notes if "per node" in note]
    assert sum("'weight' (median" in note for note in notes) == 1


@pytest.mark.parametrize("split", [None, "rh", "time:joined"])
def test_the_edges_of_the_same_tables_do_not_differ(split: str | None) -> None:
    """Older nodes have more edges, and a split by time trains on them."""
    rng, count = np.random.default_rng(0), 600
    later = rng.integers(0, np.arange(1, count + 1).repeat(3)).tolist()
    edges = {"source": np.arange(count).repeat(3).tolist(), "target": later}
    nodes = {"id": list(range(count)), "joined": list(range(count)), "age": rng.normal(40, 9, count).tolist()}
    nodes |= {"label": rng.choice(["a", "b"], count).tolist()}
    made = import_tables(edges, nodes, split=split, say=lambda text: None)
    notes: list[str] = []
    import_tables(edges, nodes, schema=Schema.from_json(made.schema), strict=True, say=notes.append)
    assert not [note for note in notes if "differ" in note]
