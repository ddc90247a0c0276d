"""``handful import``: anybody's own graph as a folder that opens at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit_json, out

ColumnOption = Annotated[str | None, typer.Option(help="Which column it is, if its name is not a usual one.")]
ColumnsOption = Annotated[str | None, typer.Option(help="Columns, separated by commas.")]


@app.command("import")
def import_graph(
    edges: Annotated[
        Path, typer.Argument(help="An edge list (.csv, .tsv, .txt, .parquet), or any graph file or folder.")
    ],
    nodes: Annotated[Path | None, typer.Argument(help="A node table: id, label, features, perhaps a split.")] = None,
    to: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("graph"),
    undirected: Annotated[bool, typer.Option("--undirected", help="Add the reverse of every edge.")] = False,
    source: ColumnOption = None,
    target: ColumnOption = None,
    weight: ColumnOption = None,
    id: ColumnOption = None,
    label: ColumnOption = None,
    split_column: ColumnOption = None,
    features: ColumnsOption = None,
    categorical: ColumnsOption = None,
    split: Annotated[
        str, typer.Option(help="The split to draw if the table has none: rh, rl, random:60/20/20 …")
    ] = "rh",
    seed: Annotated[int, typer.Option(help="The seed of that split.")] = 0,
    metric: Annotated[str, typer.Option(help="accuracy, average_precision or roc_auc.")] = "accuracy",
    json: p.Json = False,
) -> None:
    """Read an edge list and a node table, and keep the graph as a folder that `handful train` opens at once."""
    from handful.datasets.files import read_graph
    from handful.datasets.importer import Columns, read_tables
    from handful.datasets.splits import drawn_split
    from handful.graph import MASKS
    from handful.storage import save

    started = time.perf_counter()
    names, codes = (None if text is None else tuple(text.split(",")) for text in (features, categorical))
    columns = Columns(source, target, weight, id, label, split_column, names, codes or ())
    fields: dict[str, Any] = {"name": to.name, "metric": metric}
    with console.status("reading") as status:
        rows = 0

        def progress(count: int) -> None:
            nonlocal rows
            rows += count
            status.update(f"reading: {rows:,} edges")

        if nodes is None:
            graph = read_graph(edges, columns=columns, **fields)
        else:
            graph = read_tables(edges, nodes, columns, progress, **fields)
        if undirected:
            status.update("adding the reverse of every edge")
            graph = graph.to_undirected()
        if graph.y is not None and graph.train_mask is None:
            graph = graph.replace(**drawn_split(graph, split, seed))
        status.update("writing")
        save(graph, to)
    sizes = {m.removesuffix("_mask"): int(t.sum()) for m in MASKS if (t := getattr(graph, m)) is not None}
    seconds = time.perf_counter() - started
    if json:
        size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
        more = {"classes": graph.num_classes, "undirected": graph.undirected, "split": sizes, "seconds": seconds}
        emit_json({"graph": str(to), **size, **more})
        return
    out.print(f"{graph}\nsplit: {', '.join(f'{n} {c:,}' for n, c in sizes.items()) or 'none'}\nwritten to {to}")
    if not graph.undirected:
        console.print("The graph is directed: messages follow the edges. --undirected adds the reverse of every edge.")
