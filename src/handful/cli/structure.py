"""``handful structure``: what sampling does to the graph as m grows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, emit, integers

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
    graph: p.Graph,
    root: p.Root = None,
    parts: Annotated[str, typer.Option(help="The values of m, separated by commas.")] = "1,2,4,8,16",
    epochs: Annotated[int, typer.Option(help="Random partitions for each m.", min=1)] = 5,
    sources: Annotated[int, typer.Option(help="Searches from random nodes of each part.", min=1)] = 16,
    sweeps: Annotated[int, typer.Option(help="Searches, each from a node farthest from the last.", min=0)] = 4,
    seed: Annotated[int, typer.Option(help="Of partitions and sources.")] = 42,
    threads: p.Threads = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Folder for the record and the picture.")] = None,
    as_json: p.Json = False,
) -> None:
    """What sampling does to the graph as m grows: edges, components, distances, homophily; mean ± sd over epochs."""
    from handful.cli.options import publish
    from handful.cli.progress import Bar
    from handful.datasets import load
    from handful.studies.structure import sampled_structure

    values = integers(parts, "--parts")
    data = load(graph, root=root, seed=seed)
    with Bar("parts", epochs * sum(values)) as bar:
        found = sampled_structure(data, values, epochs, seed, sources, sweeps, lambda m: bar.step(f"m = {m}"))
    rows = [{"m": row["m"], **{name: row[name] for name in TOLD}} for row in found.payload["parts"]]
    where = [] if out_dir is None else [f"report: {publish(found, Path(out_dir)).path}"]
    emit({"graph": data.name, "parts": rows}, as_json, found.tables, found.words, *where)
