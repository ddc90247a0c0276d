"""Jobs as a grid: tables, ranks, series, and ours beside the paper's, by outcomes that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handful.studies.grid import MEMORY, SECONDS, TEST, Entry, Grid, Measure, paper_number
from studies.smoke import MADE, check, made_outcome


def grid(cells: dict[tuple[str, str], Any], folder: Path = Path("nowhere"), **fields: Any) -> Grid:
    """Jobs by row and column, each with its tests; ``None`` for one that failed."""
    entries = {f"{r}-{c}": Entry(MADE, r, c, facts={"place": f"{r}/{c}"}) for r, c in cells}
    outcomes = {f"{r}-{c}": made_outcome(f"{r}-{c}", t, folder=folder, **fields) for (r, c), t in cells.items()}
    return Grid(entries, outcomes)


def texts(rows: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in rows]


FOUR = {
    ("full", "sgd"): [0.5, 0.6],
    ("full", "adam"): [0.7, 0.7],
    ("rns", "sgd"): [0.6, 0.6],
    ("rns", "adam"): [0.6, 0.6],
}


def test_rows_by_columns_with_the_best_of_each() -> None:
    table = grid(FOUR).cross_table("T", "Regime", best_in="column")
    assert table.head == ["Regime", "SGD", "Adam"]
    assert [row[0].text for row in table.rows] == ["Full graph", "RNS"]
    assert table.rows[1][1].text == "60.00 ± 0.00"
    assert [[cell.rank for cell in row[1:]] for row in table.rows] == [[2, 1], [1, 2]]
    across = grid(FOUR).cross_table("T", "", best_in="row", apart=True)
    assert [[cell.rank for cell in row[1:3]] for row in across.rows] == [[2, 1], [1, 1]]
    assert [row[-1].text for row in across.rows] == ["+15.00", "+0.00"]


def test_the_least_error_is_the_best() -> None:
    table = grid(FOUR, metric="mae").cross_table("T", "", best_in="column")
    assert [[cell.rank for cell in row[1:]] for row in table.rows] == [[1, 2], [2, 1]]
    assert table.rows[1][1].text == "0.6 ± 0"
    broken = grid({("full", ""): [0.5], ("rns", ""): [0.6], ("saint", ""): None}, metric="mae")
    assert broken.ranks(broken.entries) == {"full-": 1, "rns-": 2, "saint-": 0}


def test_what_failed() -> None:
    some = grid({("full", "sgd"): None, ("rns", "sgd"): [0.6]})
    assert texts(some.cross_table("T", "", best_in="row").rows) == [["Full graph", "failed"], ["RNS", "60.00"]]
    assert some.failed == {"full-sgd": "out of memory"}
    assert (some.mean("full", "sgd"), some.mean("rns", "sgd")) == (None, 0.6)
    assert some.gap(("full", "sgd"), ("rns", "sgd")) is None
    listed = some.list_table("T", "", [TEST, SECONDS])
    assert texts(listed.rows)[0] == ["Full graph", "failed: out of memory", ""]
    nothing = grid({("full", ""): None})
    assert (nothing.metric.name, nothing.graph) == ("accuracy", MADE.graph)


def test_a_list_of_measures() -> None:
    both = grid({("full", ""): [0.7], ("rns", ""): [0.6]}, peak_gpu_bytes=2**31)
    table = both.list_table("T", "Method", [TEST, SECONDS, MEMORY, Measure("place", "Where", ranked=False)][:3])
    assert table.head[0] == "Method"
    assert "accuracy" in table.head[1]
    assert texts(table.rows) == [["Full graph", "70.00", "1.0", "2.00"], ["RNS", "60.00", "1.0", "2.00"]]
    assert [row[1].rank for row in table.rows] == [1, 2]
    assert [row[2].rank for row in table.rows] == [0, 0]
    assert both.ranks(both.entries, Measure("seconds", "", ranked=True)) == {"full-": 1, "rns-": 1}


def test_series_by_rows_and_by_columns() -> None:
    by_row = grid(FOUR).series("row")
    assert [(one.name, one.x, one.color) for one in by_row] == [
        ("Full graph", ["SGD", "Adam"], 1),
        ("RNS", ["SGD", "Adam"], 0),
    ]
    assert by_row[0].y == pytest.approx([55, 70])
    by_column = grid(FOUR).series("column", SECONDS)
    assert [(one.name, one.x, one.y) for one in by_column] == [
        ("SGD", ["Full graph", "RNS"], [1, 1]),
        ("Adam", ["Full graph", "RNS"], [1, 1]),
    ]


def test_numbers_of_the_paper_or_none() -> None:
    found = paper_number("tab:main-results", "ogbn-arxiv", "rns")
    assert found == {"test": {"mean": 0.7251, "ci95": 0.0019}, "seconds": 100, "gpu_gb": 2.38, "ram_gb": 1.51}
    assert paper_number("tab:implicit_reg_results", "rns", "adam")["test"]["mean"] > 0.5  # it stands alone
    assert paper_number("tab:testacc_full_rns_pct_compact", "pokec", "gat", "rns") == {"test": None}  # out of memory
    assert paper_number("tab:main-results", "debian", "rns") is None
    assert paper_number("tab:no-such-table") is None


def test_ours_beside_the_paper_s() -> None:
    paper = paper_number("tab:main-results", "ogbn-arxiv", "rns")
    entries = {
        "rns": Entry(MADE, "rns", paper=paper),
        "gat": Entry(MADE, "gat", paper={"test": None}),
        "mine": Entry(MADE, "mine"),
    }
    outcomes = {name: made_outcome(name, [0.71], seconds=250.0, peak_ram_bytes=2_500_000_000) for name in entries}
    both = Grid(entries, outcomes)
    (table,) = both.beside()
    assert texts(table.rows) == [
        ["RNS", "71.00", "72.51 ± 0.19", "250.00", "100.00", "–", "2.38", "2.50", "1.51"],
        ["GAT", "71.00", "OOM", "250.00", "", "–", "", "2.50", ""],
    ]
    ours, theirs, *_ = both.series("row")
    assert (ours.paper, theirs.paper, theirs.y) == (False, True, [pytest.approx(72.51)])
    assert Grid({"mine": entries["mine"]}, outcomes).beside() == []


def test_a_finding_has_the_cells_the_curves_and_the_configurations(folder: Path) -> None:
    some = grid(FOUR, folder)
    found = some.finding("mine", "W", [some.cross_table("T", "", best_in="row")], payload={"more": 1}, records="rows")
    check(found)
    assert (found.name, found.title, found.words, found.payload["more"]) == ("mine", "T", "W", 1)
    assert (found.payload["graph"], found.payload["metric"]) == ("made up", "accuracy")
    assert [row["place"] for row in found.payload["rows"]] == ["full/sgd", "full/adam", "rns/sgd", "rns/adam"]
    assert found.payload["rows"][0]["test"]["mean"] == pytest.approx(0.55)
    assert found.facts["model"] == "sage"
    assert [chart.name for chart in found.charts] == ["curves"]
    assert [one.name for one in found.charts[0].views[0].series] == [entry.name for entry in some.entries.values()]
    assert some.finding("mine", "W", found.tables, curves=False).charts == []
    broken = grid({("full", "sgd"): None})
    assert broken.finding("mine", "W", found.tables).failed == ("full-sgd",)
    assert broken.finding("mine", "W", found.tables).payload["cells"][0]["error"] == "out of memory"
