"""``handful datasets``: what can be loaded by name, and how it compares with the paper's table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit
from handful.vocabulary import spaced

if TYPE_CHECKING:
    from handful.datasets import Source
    from handful.finding import Table

CheckOption = Annotated[
    bool, typer.Option("--check", help="Measure what is on disk, and compare it and the paper's table with each other.")
]
METRICS = {"accuracy": "accuracy", "average_precision": "AP", "roc_auc": "ROC AUC", "r2": "R²"}


@app.command()
def datasets(root: p.Root = None, check: CheckOption = False, as_json: p.Json = False) -> None:
    """What can be loaded by name: size, task, metric, and whether it is on disk."""
    from handful.datasets import home, sources

    place = home(root)
    result: dict[str, Any] = {"home": str(place), "datasets": [row(source, place) for source in sources().values()]}
    if check:
        result["check"] = checked(place)
    note = "Edges count each direction. A path works as well as a name: a .npz, a folder of CSV, a saved graph."
    emit(result, as_json, [listing(result)], note, *(check_lines(result["check"]) if check else []))


def row(source: Source, place: Path) -> dict[str, Any]:
    """What is known of a source without loading it."""
    from dataclasses import fields

    return {
        "name": f"{source.name}:…" if source.scheme else source.name,
        "description": source.description,
        "nodes": source.nodes,
        "edges": source.edges,
        "features": source.features,
        "classes": source.classes,
        "task": source.task,
        "metric": source.metric,
        "splits": list(source.splits),
        "options": [f.name for f in fields(source.options)] if source.options else [],
        "on_disk": None if source.scheme else source.on_disk is None or source.on_disk(place),
    }


def checked(place: Path) -> dict[str, Any]:
    """The paper's rows against what is known or, where the data are on disk, measured; and against each other."""
    from handful.datasets import load, sources
    from handful.studies.paper_table import PAPER, compared, inconsistencies
    from handful.theory.structure import statistics

    rows = []
    for name in PAPER:
        source = sources()[name]
        here = source.on_disk is None or source.on_disk(place)
        if here:
            console.print(f"measuring {name}…")
            measured = statistics(load(name, root=place)).as_dict()
        else:
            measured = {"nodes": source.nodes, "edges": source.edges}
            if source.nodes and source.edges:
                measured["average_degree"] = source.edges / source.nodes
                measured["density"] = source.edges / (source.nodes * (source.nodes - 1))
        rows.append({"name": name, "measured": here, "columns": compared(name, measured)})
    return {"rows": rows, "paper": inconsistencies()}


def listing(result: dict[str, Any]) -> Table:
    """The result for people."""
    from handful.finding import Cell, Table

    head = ["", "nodes", "edges", "features", "classes", "metric", "splits", "on disk"]
    here = {True: "yes", False: "no", None: ""}
    rows = []
    for data in result["datasets"]:
        size = (_short(data[key]) for key in ("nodes", "edges", "features", "classes"))
        metric = "" if data["on_disk"] is None else METRICS[data["metric"]]
        texts = (data["name"], *size, metric, ", ".join(data["splits"]), here[data["on_disk"]])
        rows.append([Cell(text) for text in texts])
    return Table(f"data sets, kept in {result['home']}", head, rows)


def check_lines(check: dict[str, Any]) -> list[str]:
    """Differences from the paper, and within it, in lines."""
    lines = ["", "Against the paper's table of datasets"]
    for data in check["rows"]:
        how = "measured" if data["measured"] else "not on disk: by its published size"
        same = [spaced(item["column"]) for item in data["columns"] if item["agrees"]]
        lines.append(f"{data['name']} ({how}): {', '.join(same) + ' agree' if same else 'nothing agrees'}")
        for item in data["columns"]:
            if not item["agrees"]:
                value = item["measured"]
                text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
                note = f" ({item['note']})" if item["note"] else ""
                lines.append(f"  {spaced(item['column'])} {text}, in the paper {item['paper']}{note}")
    lines += ["", "Within the paper's table"]
    return lines + [f"{item['dataset']}: {item['what']}" for item in check["paper"]]


def _short(count: int | None) -> str:
    """``1.63M`` for 1,632,803; small numbers as they are."""
    if not count:
        return ""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= 10 * unit or (count >= unit and unit > 1e3):
            return f"{count / unit:.3g}{letter}"
    return str(count)
