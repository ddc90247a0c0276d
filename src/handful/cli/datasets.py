"""``handful datasets``: the data sets that have a name."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.cli.app import Answer
from handful.cli.params import Given, command
from handful.finding import Table, text_table
from handful.vocabulary import spaced

if TYPE_CHECKING:
    from handful.datasets import Source


@command("root")
def datasets(given: Given) -> Answer:
    """List the data sets: size, task, metric, splits, and whether they are on disk."""
    from handful.datasets import home, sources

    place = home(given.get("root"))
    listed = [describe_source(source, place) for source in sources().values()]
    line = "Edges count each direction. A path works as well as a name: a .npz, a folder of CSV, a saved graph."
    return Answer({"home": str(place), "datasets": listed}, [make_listing(listed, place)], [line])


def describe_source(source: Source, place: Path) -> dict[str, Any]:
    """The properties of a source, without loading its data."""
    known = ("description", "nodes", "edges", "features", "classes", "task", "metric")
    return {
        "name": f"{source.name}:…" if source.scheme else source.name,
        **{name: getattr(source, name) for name in known},
        "splits": list(source.splits),
        "options": [field.name for field in fields(source.options)] if source.options else [],
        "on_disk": None if source.scheme else source.on_disk is None or source.on_disk(place),
    }


def make_listing(listed: list[dict[str, Any]], place: Path) -> Table:
    """The data sets as a table."""
    head = ["", "nodes", "edges", "features", "classes", "metric", "splits", "on disk"]
    here = {True: "yes", False: "no", None: ""}
    rows = []
    for data in listed:
        size = (_short(data[key]) for key in ("nodes", "edges", "features", "classes"))
        metric = "" if data["on_disk"] is None else spaced(data["metric"])
        rows.append((data["name"], *size, metric, ", ".join(data["splits"]), here[data["on_disk"]]))
    return text_table(f"data sets, kept in {place}", head, rows)


def _short(count: int | None) -> str:
    """``1.63M`` for 1,632,803; small numbers as they are."""
    if not count:
        return ""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= 10 * unit or (count >= unit and unit > 1e3):
            return f"{count / unit:.3g}{letter}"
    return str(count)
