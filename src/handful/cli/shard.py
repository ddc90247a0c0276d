"""``handful shard``: a graph in as many pieces as there will be ranks."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit


@app.command()
def shard(
    graph: p.Graph,
    shards: Annotated[int, typer.Option(help="How many ranks will train on it.", min=1)],
    to: Annotated[Path, typer.Option("--out", help="The folder to write: shard-0, shard-1, …")],
    split: p.Split = None,
    root: p.Root = None,
    seed: Annotated[int, typer.Option(help="Of a split that is drawn.", min=0)] = 0,
    as_json: p.Json = False,
) -> None:
    """Cut a graph into shards: each has the edges, features, labels and masks of its share of the nodes."""
    from handful.datasets import load
    from handful.shuffle.shards import even_cuts
    from handful.shuffle.shards import shard as cut

    data = load(graph, split=split, root=root, seed=seed)
    with console.status("writing"):
        cut(data, to, shards)
    result = {"graph": data.name, "shards": shards, "cuts": even_cuts(data, shards), "out": str(to)}
    train = f"handful train {quote(str(to))} --processes {shards} --parts-per-step {shards}"
    emit(result, as_json, [], f"{data} in {shards} shards", f"written to {to}; next: {train}")
