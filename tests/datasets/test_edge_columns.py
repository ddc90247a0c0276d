"""Columns of an edge list as features of nodes, against means edge by edge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handful import import_tables
from handful.datasets.edge_columns import edge_means
from handful.datasets.schema import Column, Edges, Schema
from handful.errors import DatasetError

SOURCE, TARGET = [0, 0, 1, 2, 2, 2], [1, 2, 2, 0, 0, 1]
AMOUNT = [1.0, 3.0, None, 5.0, 7.0, 2.0]
KIND = ["card", "cash", "card", "card", "wire", "card"]
DAY = ["2024-01-01", "2024-01-03", "2024-01-05", "2024-01-02", "2024-01-02", "2024-01-07"]


def edges(**more: Any) -> dict[str, list[Any]]:
    ends = {name: [f"u{i}" for i in places] for name, places in (("source", SOURCE), ("target", TARGET))}
    return {**ends, "amount": AMOUNT, "kind": KIND, "day": DAY, **more}


def nodes(count: int = 4) -> dict[str, list[Any]]:
    return {
        "id": [f"u{i}" for i in range(count)],
        "age": [20, 30, 40, 50][:count],
        "label": ["a", "b", "a", "b"][:count],
    }


def import_with(*columns: str, **how: Any) -> Any:
    return import_tables(edges(), nodes(), edge_columns=columns, split=None, scale="none", **how)


@pytest.mark.parametrize("undirected", [False, True])
def test_numbers_are_their_means_over_the_edges_of_each_side(undirected: bool) -> None:
    graph = import_with("amount", undirected=undirected)
    schema = Schema.from_json(graph.schema)
    filled = [3.0 if value is None else value for value in AMOUNT]  # the median of the others
    sides = {"edges": [*zip(SOURCE, filled, strict=True), *zip(TARGET, filled, strict=True)]}
    if not undirected:
        sides = {"edges out": [*zip(SOURCE, filled, strict=True)], "edges in": [*zip(TARGET, filled, strict=True)]}
    at = 1
    for pairs in sides.values():
        for node in range(3):
            assert graph.x[node, at] == pytest.approx(np.mean([value for end, value in pairs if end == node]))
            absent = [AMOUNT[k % len(AMOUNT)] is None for k, (end, _) in enumerate(pairs) if end == node]
            assert graph.x[node, at + 2] == pytest.approx(np.mean(absent))
        assert graph.x[:, at + 1].tolist() == graph.x[:, at + 3].tolist() == [0, 0, 0, 1]  # u3 has no edges
        at += 4
    names = [name for side in sides for name in (f"amount ({side})", f"amount ({side}, missing)")]
    assert [column.name for column in schema.columns] == ["age", *names]


def test_a_loop_of_an_undirected_graph_counts_once() -> None:
    column, ends = Column("amount", "number"), np.array([[0, 0], [0, 1]])
    for undirected, mean in ((True, [5.5, 1.0, None]), (False, [5.5, None, None])):
        schema = Schema("id", Edges("source", "target", undirected=undirected), columns=(column,))
        assert next(iter(edge_means(schema, np.array([[10.0], [1.0]]), ends, 3).values())).to_pylist() == mean


def test_categories_are_shares_and_dates_are_days() -> None:
    graph = import_with("kind", "day")
    schema = Schema.from_json(graph.schema)
    assert [column.name for column in schema.columns][1:3] == ["kind (edges out)", "day (edges out)"]
    (kind, day) = schema.edges.columns
    assert kind.categories == ("card", "cash", "wire")
    assert day.kind == "date"
    assert graph.x[2, 1:4].tolist() == pytest.approx([2 / 3, 0, 1 / 3])
    assert graph.x[0, 6].item() - graph.x[1, 6].item() == pytest.approx(2 - 5, abs=0.01)  # float32 days since 1970


def test_other_tables_are_encoded_alike_and_saved(tmp_path: Path) -> None:
    graph = import_tables(edges(), nodes(), edge_columns=("amount", "kind"), out=tmp_path / "graph")
    schema = Schema.from_json(graph.schema)
    assert np.array_equal(import_tables(edges(), nodes(), schema=schema).x, graph.x)
    with pytest.warns(UserWarning, match="giro"):
        import_tables(edges(kind=["giro", *KIND[1:]]), nodes(), schema=schema)
    with pytest.raises(DatasetError, match="no column 'amount'"):
        import_tables({key: values for key, values in edges().items() if key != "amount"}, nodes(), schema=schema)


@pytest.mark.parametrize("unknown", ["skip", "add"])
def test_edges_of_unknown_nodes(unknown: str) -> None:
    whole = import_tables(edges(), nodes(), edge_columns=("amount",), scale="none", unknown=unknown)
    said: list[str] = []
    some = import_tables(edges(), nodes(2), edge_columns=("amount",), scale="none", unknown=unknown, say=said.append)
    assert any("left out" in line for line in said) == (unknown == "skip")
    assert whole.num_nodes == 4
    assert some.num_nodes == (2 if unknown == "skip" else 3)
    assert some.x[0, 1] == pytest.approx(1 if unknown == "skip" else 2)


def test_codes_are_categories_if_named() -> None:
    graph = import_tables(edges(code=[1, 2, 1, 1, 2, 2]), nodes(), edge_columns=("code",), categorical=("code",))
    assert Schema.from_json(graph.schema).edges.columns[0].categories == ("1", "2")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no column 'price'"):
        import_with("price")
    with pytest.raises(DatasetError, match="give a node table"):
        import_tables(edges(), edge_columns=("amount",))
    with pytest.raises(DatasetError, match="leave memory out"):
        import_with("amount", memory="1GiB", out=tmp_path / "graph")
    named = nodes() | {"amount (edges out)": [1, 2, 3, 4]}
    with pytest.raises(DatasetError, match="rename"):
        import_tables(edges(), named, edge_columns=("amount",))
    with pytest.warns(UserWarning, match="edge_columns"):
        import_tables(edges(), nodes())


def test_an_empty_column_gives_no_features() -> None:
    graph = import_tables(edges(amount=[None] * len(SOURCE)), nodes(), edge_columns=("amount",), split=None)
    assert [column.name for column in Schema.from_json(graph.schema).columns] == ["age"]
    assert Schema.from_json(graph.schema).edges.columns == ()
