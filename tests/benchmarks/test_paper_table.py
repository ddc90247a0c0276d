from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from handful.datasets import sources
from handful.datasets.synthetic import BlockModel, generate
from handful.theory.structure import Statistics
from scripts import script

bench = script("paper_table")
COLUMNS, PAPER, Printed, printed_range = bench.COLUMNS, bench.PAPER, bench.Printed, bench.printed_range


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("1.17M", (1_166_243, 1_179_999), (1_164_999, 1_181_000)),
        ("46.5K", (46_563,), (46_400, 46_700)),
        ("4.10e-5", (4.10e-5, 4.109e-5), (4.09e-5, 4.12e-5)),
        ("0.65", (0.655,), (0.64, 0.67)),
        ("24", (24,), (23, 26)),
    ],
)
def test_what_a_printed_number_stands_for(text: str, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    assert all(value in printed_range(text) for value in inside)
    assert not any(value in printed_range(text) for value in outside)


def test_ranges() -> None:
    assert Printed(4, 6).over(Printed(2, 3)) == Printed(4 / 3, 3)
    assert Printed(1, 2).meets(Printed(2, 3))
    assert not Printed(1, 2).meets(Printed(2.1, 3))


def test_the_papers_rows_are_those_of_known_data_sets() -> None:
    assert set(PAPER) <= set(sources())
    assert all(set(row) == set(COLUMNS) for row in PAPER.values())
    assert set(COLUMNS) <= {field.name for field in fields(Statistics)}


def test_what_the_paper_contradicts_itself_in() -> None:
    found: dict[str, list[str]] = {}
    for item in bench.find_inconsistencies():
        found.setdefault(item["dataset"], []).append(item["what"])
    assert "artnet-exp" not in found  # the one row that keeps to the caption
    for name in ("ogbn-arxiv", "ogbn-products", "hm-categories", "web-topics", "city-reviews"):
        assert "count each edge once" in found[name][0]
    for name in ("pokec", "pokec-regions", "tolokers-2"):
        assert "neither counted once nor twice" in found[name][0]
    assert "12.4M in one row and 12.9M in the other" in found["web-topics, web-fraud"][0]


def test_comparison_with_the_paper() -> None:
    found = bench.compare_with_paper(
        "hm-categories", {"nodes": 46_563, "edges": 21_461_990, "homophily": float("nan"), "diameter": 9}
    )
    assert [(item["column"], item["agrees"], bool(item["note"])) for item in found] == [
        ("nodes", True, False),
        ("edges", False, True),
        ("diameter", False, False),
    ]


def rows_of(paper: str) -> dict[str, dict[str, str]]:
    """The table of data sets in the paper's LaTeX, by name and column."""
    at = paper.index("\\label{tab:datasets}")
    body = paper[paper.rindex("\\begin{table", 0, at) : paper.index("\\end{table", at)]
    found = {}
    for line in body.splitlines():
        name = re.match(r"\s*\\textsc\{([\w-]+)\}\s*&", line)
        if name:
            power = re.sub(r"\$([\d.]+)\{\\times\}10\^\{(-\d+)\}\$", r"\1e\2", line)
            cells = [cell.strip().removesuffix("\\\\").strip() for cell in power.split("&")[1:]]
            found[name[1].lower()] = dict(zip(COLUMNS, cells, strict=True))
    return found


def test_the_rows_are_as_the_paper_prints_them() -> None:
    file = Path(__file__).parents[2].parent / "shared" / "paper.tex"
    if not file.exists():
        pytest.skip("the paper is not beside the repository")
    assert rows_of(file.read_text(encoding="utf-8")) == PAPER


def test_what_is_on_disk_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of the size of tolokers-2 in its place: the counts agree with the paper, the homophily cannot."""
    model = BlockModel(nodes=11_758, degree=89, classes=2, homophily=0.5, features=0)
    here = replace(sources()["tolokers-2"], load=lambda request: generate(model), on_disk=lambda home: True)
    monkeypatch.setitem(sources(), "tolokers-2", here)
    rows = {row["name"]: row for row in bench.check_data(tmp_path)}
    assert [name for name, row in rows.items() if row["measured"]] == ["tolokers-2"]
    assert rows["ogbn-arxiv"]["columns"][0] == {
        "column": "nodes", "paper": "169K", "measured": 169_343, "agrees": True, "note": ""
    }  # fmt: skip
    agrees = {item["column"]: item["agrees"] for item in rows["tolokers-2"]["columns"]}
    assert len(agrees) == 9
    assert (agrees["nodes"], agrees["isolated"], agrees["components"]) == (True, True, True)
    assert (agrees["edges"], agrees["homophily"]) == (False, False)
    assert "tolokers-2" in {row[0].text for row in bench.difference_table(list(rows.values())).rows}
