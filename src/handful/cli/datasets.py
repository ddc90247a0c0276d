"""``handful datasets``: what can be loaded by name, and how it compares with the paper's table."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli.app import Answer, note
from handful.cli.params import Given, command
from handful.finding import Table, text_table
from handful.vocabulary import spaced

if TYPE_CHECKING:
    from handful.datasets import Source


@command("root")
def datasets(
    given: Given,
    check: Annotated[bool, typer.Option("--check", help="Hold data and the paper's table to each other.")] = False,
) -> Answer:
    """What can be loaded by name: size, task, metric, and whether it is on disk."""
    from handful.datasets import home, sources

    place = home(given.get("root"))
    result: dict[str, Any] = {
        "home": str(place),
        "datasets": [describe_source(source, place) for source in sources().values()],
    }
    lines = ["Edges count each direction. A path works as well as a name: a .npz, a folder of CSV, a saved graph."]
    if check:
        result["check"] = check_paper(place)
        lines += [f"In the paper's table, {one['dataset']}: {one['what']}" for one in result["check"]["paper"]]
    return Answer(result, [make_listing(result), *([make_check_table(result["check"])] if check else [])], lines)


def describe_source(source: Source, place: Path) -> dict[str, Any]:
    """What is known of a source without loading it."""
    known = ("description", "nodes", "edges", "features", "classes", "task", "metric")
    return {
        "name": f"{source.name}:…" if source.scheme else source.name,
        **{name: getattr(source, name) for name in known},
        "splits": list(source.splits),
        "options": [field.name for field in fields(source.options)] if source.options else [],
        "on_disk": None if source.scheme else source.on_disk is None or source.on_disk(place),
    }


def check_paper(place: Path) -> dict[str, Any]:
    """The paper's rows against what is known or, where the data are on disk, measured; and against each other."""
    from handful.datasets import load, sources
    from handful.studies.paper_table import PAPER, compare_with_paper, find_inconsistencies
    from handful.theory.structure import statistics

    rows = []
    for name in PAPER:
        source = sources()[name]
        here = source.on_disk is None or source.on_disk(place)
        if here:
            note(f"measuring {name}…")
            measured = asdict(statistics(load(name, root=place)))
        else:
            size, edges = source.nodes, source.edges
            measured = {"nodes": size, "edges": edges}
            if size and edges:
                measured |= {"average_degree": edges / size, "density": edges / (size * (size - 1))}
        rows.append({"name": name, "measured": here, "columns": compare_with_paper(name, measured)})
    return {"rows": rows, "paper": find_inconsistencies()}


def make_listing(result: dict[str, Any]) -> Table:
    """The data sets for people."""
    head = ["", "nodes", "edges", "features", "classes", "metric", "splits", "on disk"]
    here = {True: "yes", False: "no", None: ""}
    rows = []
    for data in result["datasets"]:
        size = (_short(data[key]) for key in ("nodes", "edges", "features", "classes"))
        metric = "" if data["on_disk"] is None else spaced(data["metric"])
        rows.append((data["name"], *size, metric, ", ".join(data["splits"]), here[data["on_disk"]]))
    return text_table(f"data sets, kept in {result['home']}", head, rows)


def make_check_table(check: dict[str, Any]) -> Table:
    """Where a data set differs from the paper's table."""
    rows = []
    for data in check["rows"]:
        how = "measured" if data["measured"] else "published"
        for item in data["columns"]:
            if not item["agrees"]:
                value = item["measured"]
                text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
                rows.append((data["name"], spaced(item["column"]), f"{text} ({how})", item["paper"], item["note"]))
    return text_table("Not as in the paper's table of datasets", ["", "column", "here", "in the paper", "note"], rows)


def _short(count: int | None) -> str:
    """``1.63M`` for 1,632,803; small numbers as they are."""
    if not count:
        return ""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= 10 * unit or (count >= unit and unit > 1e3):
            return f"{count / unit:.3g}{letter}"
    return str(count)
