"""``handful structure``: what sampling does to the graph as m grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.app import (
    GraphArgument,
    JsonOption,
    RootOption,
    ThreadsOption,
    app,
    emit_json,
    integers,
    out,
)

TOLD = (
    "edges",
    "average_degree",
    "isolated",
    "components",
    "largest_component",
    "diameter_lower_bound",
    "average_distance",
)


@app.command()
def structure(
    graph: GraphArgument,
    root: RootOption = None,
    parts: Annotated[str, typer.Option(help="The values of m, separated by commas.")] = "1,2,4,8,16",
    epochs: Annotated[int, typer.Option(help="Random partitions for each m.", min=1)] = 5,
    sources: Annotated[int, typer.Option(help="Searches from random nodes of each part.", min=1)] = 16,
    sweeps: Annotated[int, typer.Option(help="Searches, each from a node farthest from the last.", min=0)] = 4,
    seed: Annotated[int, typer.Option(help="Of partitions and sources.")] = 42,
    threads: ThreadsOption = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Folder for the record and the picture.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What sampling does to the graph as m grows: edges, components, distances, homophily; mean ± sd over epochs."""
    from handful.cli.progress import progress_bar
    from handful.datasets import load
    from handful.errors import HandfulError
    from handful.files import write_json
    from handful.theory import pictures
    from handful.theory import structure as theory

    counts = integers(parts, "--parts")
    data = load(graph, root=root, seed=seed)
    bad = [m for m in counts if not 1 <= m <= max(1, data.num_nodes)]
    if bad:
        raise HandfulError(f"--parts {bad[0]}: m lies between 1 and the number of nodes, {data.num_nodes}")
    with progress_bar("parts") as bar:
        task = bar.add_task(f"m = {counts[0]}", total=epochs * sum(counts))
        rows = theory.structure(
            data, counts, epochs, seed, sources, sweeps, lambda m: bar.update(task, advance=1, description=f"m = {m}")
        )
    result = {"graph": data.name, "parts": [{"m": row["m"], **{name: row[name] for name in TOLD}} for row in rows]}
    if out_dir is not None:
        folder = Path(out_dir)
        settings = {"epochs": epochs, "sources": sources, "sweeps": sweeps, "seed": seed}
        write_json(folder / "structure.json", {"graph": data.name, "settings": settings, "parts": rows})
        pictures.save(pictures.structure_curves(rows, data.name), folder / "structure.svg")
    if as_json:
        emit_json(result)
        return
    show(data.name, rows)
    if out_dir is not None:
        out.print(f"in {out_dir}: structure.json, structure.svg")


def show(graph: str, rows: list[dict[str, Any]]) -> None:
    """The result for people."""
    from handful.report.tables import Cell, rich_table

    labelled = rows[0]["homophily"]["mean"] == rows[0]["homophily"]["mean"]
    shown = [*TOLD, *(["homophily"] if labelled else [])]
    cells = [[Cell(name.replace("_", " ")), *(Cell(_text(row[name])) for row in rows)] for name in shown]
    title = f"{graph} · a part of m, mean ± sd over epochs"
    out.print(rich_table(title, ["", *(f"m = {row['m']}" for row in rows)], cells))
    out.print(in_words(rows))


def _text(value: dict[str, float]) -> str:
    mean, sd = (f"{number:,.0f}" if number >= 99.5 else f"{number:.2g}" for number in (value["mean"], value["sd"]))
    return f"{mean} ± {sd}" if value["sd"] > 1e-9 * abs(value["mean"]) else mean


def in_words(rows: list[dict[str, Any]]) -> str:
    """What the numbers mean: how far the graph falls apart between the smallest and the largest m."""
    first, last = min(rows, key=lambda row: row["m"]), max(rows, key=lambda row: row["m"])
    share = [100 * row["largest_component"]["mean"] / row["nodes"]["mean"] for row in (first, last)]
    if first is last:
        return f"The largest component holds {share[0]:.0f}% of the nodes of a part of m = {first['m']}."
    return (
        f"From m = {first['m']} to {last['m']} a node keeps {last['average_degree']['mean']:.2g} of "
        f"{first['average_degree']['mean']:.2g} neighbours, the largest component goes from {share[0]:.0f}% to "
        f"{share[1]:.0f}% of a part's nodes, and nodes of the same component from "
        f"{first['average_distance']['mean']:.1f} to {last['average_distance']['mean']:.1f} hops apart."
    )
