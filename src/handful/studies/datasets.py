"""The table of data sets: what is measured of each that is on disk, beside what the paper prints."""

from __future__ import annotations

from typing import Any

from handful.datasets import home, load, sources
from handful.errors import DatasetError
from handful.finding import Cell, Finding, Table
from handful.studies.paper_table import PAPER, compared
from handful.studies.request import Request
from handful.theory.structure import COLUMNS, statistics
from handful.vocabulary import spaced

SHOWN = tuple(
    name
    for column in COLUMNS
    for name in ((column, f"adjusted_{column}", f"unbiased_{column}") if column == "homophily" else (column,))
)
"""The paper's columns, with all three kinds of homophily."""
SOURCES = {"smoke": 2, "laptop": 16, "paper": 64}
"""Searches from random nodes, for the distances."""


def here(name: str, root: str | None) -> bool:
    """Whether a data set can be loaded without fetching it; a path always can."""
    source = sources().get(name)
    return source is None or source.on_disk is None or source.on_disk(home(root))


def absent(name: str, root: str | None) -> str:
    """What to do about a data set that is not here."""
    return f"not in {home(root)}: `handful info {name}` fetches it"


def run(request: Request) -> Finding:
    """debian and all of the paper's, or the one asked for; those that are not on disk are said to be missing."""
    names = [request.graph] if request.graph else ["debian", *PAPER]
    rows: list[list[Cell]] = []
    payload: list[dict[str, Any]] = []
    for i, name in enumerate(names):
        request.report(i, len(names), name)
        if not here(name, request.root):
            if request.graph:
                raise DatasetError(f"data set '{name}' is {absent(name, request.root)}")
            rows.append([Cell(name), Cell("not on disk"), *[Cell("")] * (len(SHOWN) - 1)])
            payload.append({"name": name, "missing": absent(name, request.root), "paper": PAPER.get(name)})
            continue
        data = load(name, split=request.split, root=request.root, seed=request.seeds[0])
        found = statistics(data, SOURCES[request.budget]).as_dict()
        differ = {c["column"] for c in compared(name, found) if not c["agrees"]} if name in PAPER else set()
        rows.append([Cell(name), *(Cell(_text(found[column]) + "≠" * (column in differ)) for column in SHOWN)])
        payload.append({"name": name, **found, "paper": PAPER.get(name)})
    request.report(len(names), len(names), "done")
    missing = [row["name"] for row in payload if "missing" in row]
    heading = "Data sets, edges counted in both directions; ≠ where the paper prints another number"
    return Finding(
        "datasets",
        heading,
        f"Not on disk: {', '.join(missing)}; `handful info NAME` fetches one." if missing else "All are on disk.",
        [Table(heading, ["Data set", *map(spaced, SHOWN)], rows)],
        payload={"datasets": payload},
    )


def _text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
