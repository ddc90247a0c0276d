"""``handful import``: anybody's own graph as a folder that opens at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit, given

ColumnOption = Annotated[str | None, typer.Option(help="Which column it is, if its name is not a usual one.")]
ColumnsOption = Annotated[str | None, typer.Option(help="Columns, separated by commas.")]


@app.command("import")
def import_graph(
    edges: Annotated[
        str,
        typer.Argument(
            help="An edge list (.csv, .tsv, .txt, .parquet), any graph file or folder, or the name of a data set."
        ),
    ],
    nodes: Annotated[Path | None, typer.Argument(help="A node table: id, label, features, perhaps a split.")] = None,
    to: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("graph"),
    undirected: Annotated[bool, typer.Option("--undirected", help="Add the reverse of every edge.")] = False,
    source: ColumnOption = None,
    target: ColumnOption = None,
    weight: ColumnOption = None,
    id: ColumnOption = None,
    label: Annotated[
        str | None, typer.Option(help="The column of labels; several, separated by commas, for --task multilabel.")
    ] = None,
    split_column: ColumnOption = None,
    features: Annotated[
        str | None, typer.Option(help="The columns that are features (else all that are nothing else).")
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Columns of numbers that are codes; they are features too.")
    ] = None,
    hashed: Annotated[str | None, typer.Option(help="Columns of text whose words are hashed into 64 features.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns to leave out.")] = None,
    task: Annotated[str | None, typer.Option(help="classification, regression or multilabel.")] = None,
    impute: Annotated[
        str | None, typer.Option(help="What stands for a missing number: median; error refuses it.")
    ] = None,
    scale: Annotated[str | None, typer.Option(help="Of numbers: standard, quantile or none.")] = None,
    unknown: Annotated[
        str | None, typer.Option(help="Edges to ids that are in no row of the node table: error, skip or add.")
    ] = None,
    repeated: Annotated[
        str | None, typer.Option(help="Repeated edges as one: sum, mean, first or count (else weights are summed).")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="A run or a graph whose schema to encode by, instead of fitting one.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="The split to draw if the table has none: rh, rl, random:60/20/20 …")
    ] = "rh",
    seed: Annotated[int, typer.Option(help="The seed of that split.")] = 0,
    metric: Annotated[str | None, typer.Option(help="accuracy, average_precision or roc_auc.")] = None,
    memory: p.Memory = None,
    json: p.Json = False,
) -> None:
    """Read an edge list and a node table, and keep the graph as a folder that `handful train` opens at once."""
    from handful.datasets import load, write
    from handful.datasets.files import is_tables, read_graph
    from handful.datasets.importer import Columns, Handling, write_tables
    from handful.datasets.registry import is_name
    from handful.datasets.splits import drawn_split
    from handful.graph import MASKS
    from handful.runs import find_schema
    from handful.storage import open_graph, save

    started = time.perf_counter()
    columns = Columns(
        source, target, weight, id, split=split_column, label=names(label), features=names(features),
        categorical=names(categorical) or (), hashed=names(hashed) or (), ignore=names(ignore) or (),
    )  # fmt: skip
    choices = given(task=task, impute=impute, scale=scale, unknown=unknown, repeated=repeated)
    how = Handling(undirected=undirected, **choices)
    fields: dict[str, Any] = {"name": to.name, **given(metric=metric)}
    found = None if schema is None else find_schema(schema)
    with console.status("reading") as status:
        rows = 0

        def progress(count: int) -> None:
            nonlocal rows
            rows += count
            status.update(f"reading: {rows:,} edges")

        options: dict[str, Any] = {"columns": columns, "how": how, "schema": found, "progress": progress, "say": note}
        if memory is not None and is_tables(Path(edges)):
            write_tables(edges, nodes, to, memory, split=split, seed=seed, **options, **fields)
            graph = open_graph(to)
        elif memory is not None:
            status.update("writing")
            write(edges, to, memory)
            graph = open_graph(to)
        else:
            if is_name(edges):
                graph = load(edges)
            else:
                graph = read_graph(edges, nodes, **options, **fields)
            if undirected:
                status.update("adding the reverse of every edge")
                graph = graph.to_undirected()
            if graph.y is not None and graph.train_mask is None and found is None:
                graph = graph.replace(**drawn_split(graph, split, seed))
            status.update("writing")
            save(graph, to)
    sizes = {m.removesuffix("_mask"): int(t.sum()) for m in MASKS if (t := getattr(graph, m)) is not None}
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    more = {"classes": graph.num_classes, "undirected": graph.undirected, "split": sizes, "schema": graph.schema}
    result = {"graph": str(to), **size, **more, "seconds": time.perf_counter() - started}
    tables, lines = [], [str(graph), f"split: {', '.join(f'{n} {c:,}' for n, c in sizes.items()) or 'none'}"]
    if graph.schema is not None:
        from handful.datasets.schema import Schema

        tables = [Schema.from_json(graph.schema).table()]
    then = f"handful train {to}" if graph.y is not None else f"handful predict RUN {to}, RUN trained on a like graph"
    emit(result, json, tables, *lines, f"written to {to}; next: {then}")
    if not graph.undirected:
        note("The graph is directed: messages follow the edges. --undirected adds the reverse of every edge.")


def names(text: str | None) -> tuple[str, ...] | None:
    """Columns that were separated by commas; a backslash makes a comma part of a name."""
    if text is None:
        return None
    import re

    return tuple(re.sub(r"\\,", ",", name).strip() for name in re.split(r"(?<!\\),", text))


def note(text: str) -> None:
    """What should be known and is no mistake."""
    console.print(text, soft_wrap=True)
