"""``handful datasets``: what can be loaded by name, and how it compares with the paper's table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli.app import JsonOption, RootOption, app, console, emit_json, out

if TYPE_CHECKING:
    from handful.datasets import Source

CheckOption = Annotated[
    bool, typer.Option("--check", help="Measure what is on disk, and compare it and the paper's table with each other.")
]
METRICS = {"accuracy": "accuracy", "average_precision": "AP", "roc_auc": "ROC AUC"}


@app.command()
def datasets(root: RootOption = None, check: CheckOption = False, as_json: JsonOption = False) -> None:
    """What can be loaded by name: size, task, metric, and whether it is on disk."""
    from handful.datasets import home, sources

    place = home(root)
    result: dict[str, Any] = {"home": str(place), "datasets": [row(source, place) for source in sources().values()]}
    if check:
        result["check"] = checked(place)
    if as_json:
        emit_json(result)
    else:
        show(result)


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
    from handful.theory.dataset_statistics import statistics

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


def show(result: dict[str, Any]) -> None:
    """The result for people."""
    from rich.table import Table

    table = Table(title=f"data sets, kept in {result['home']}", title_justify="left", box=None, header_style="bold")
    heads = {"name": "", "nodes": "nodes", "edges": "edges", "features": "features", "classes": "classes"}
    for key, head in heads.items():
        table.add_column(head, justify="left" if key == "name" else "right", no_wrap=True)
    for head in ("metric", "splits", "on disk"):
        table.add_column(head)
    here = {True: "yes", False: "no", None: ""}
    for data in result["datasets"]:
        size = (_short(data[key]) for key in ("nodes", "edges", "features", "classes"))
        metric = "" if data["on_disk"] is None else METRICS[data["metric"]]
        table.add_row(data["name"], *size, metric, ", ".join(data["splits"]), here[data["on_disk"]])
    out.print(table)
    out.print(
        "Edges count each direction. A path works as well as a name: a .npz, a folder of CSV, a saved graph.",
        soft_wrap=True,
    )
    if "check" in result:
        show_check(result["check"])


def show_check(check: dict[str, Any]) -> None:
    """Differences from the paper, and within it."""
    out.print("\n[bold]Against the paper's table of datasets[/]")
    for data in check["rows"]:
        how = "measured" if data["measured"] else "not on disk: by its published size"
        same = [item["column"].replace("_", " ") for item in data["columns"] if item["agrees"]]
        out.print(f"{data['name']} ({how}): {', '.join(same) + ' agree' if same else 'nothing agrees'}", soft_wrap=True)
        for item in data["columns"]:
            if not item["agrees"]:
                value = item["measured"]
                text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
                note = f" ({item['note']})" if item["note"] else ""
                what = f"{item['column'].replace('_', ' ')} {text}, in the paper {item['paper']}{note}"
                out.print(f"  {what}", soft_wrap=True)
    out.print("\n[bold]Within the paper's table[/]")
    for item in check["paper"]:
        out.print(f"{item['dataset']}: {item['what']}", soft_wrap=True)


def _short(count: int | None) -> str:
    """``1.63M`` for 1,632,803; small numbers as they are."""
    if not count:
        return ""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= 10 * unit or (count >= unit and unit > 1e3):
            return f"{count / unit:.3g}{letter}"
    return str(count)
