"""``handful import``: tables of edges and nodes as a saved graph."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console, note


def split_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list. A backslash before a comma makes it part of a name.

    >>> split_names("a, b\\,c")
    ('a', 'b,c')
    """
    return tuple(re.sub(r"\\,", ",", name).strip() for name in re.split(r"(?<!\\),", text))


COLUMNS = {
    "source": "Column of source ids. Default: found by its name.",
    "target": "Column of target ids. Default: found by its name.",
    "weight": "Column of edge weights. Default: found by its name.",
    "id": "Column of node ids. Default: found by its name.",
    "split_column": "Column of the split. Default: found by its name.",
    "label": "Column of labels; several, separated by commas, for --task multilabel.",
    "features": "Columns of features, separated by commas. Default: all other columns.",
    "categorical": "Columns of numbers that are categories, such as postal codes.",
    "hashed": "Columns of text whose words are hashed into 64 features.",
    "numbers": "Columns of distinct whole numbers that are features, not identifiers.",
    "ignore": "Columns to leave out.",
}
SEVERAL = ("label", "features", "categorical", "hashed", "numbers", "ignore")
HANDLING = {
    "task": "Task: classification, regression or multilabel.",
    "impute": "Missing numbers: median replaces them, error refuses them. Default: median.",
    "scale": "Scaling of numbers: standard, quantile or none. Default: standard.",
    "unknown": "Edges to ids without a row in the node table: error, skip or add. Default: error.",
    "decimal": "Decimal mark of CSV files: a point or a comma.",
    "encoding": "Encoding of CSV files, such as latin-1.",
    "dates": "Order of dates in text: dmy, mdy or ymd. Default: found from the data.",
    "repeated": "Weight of repeated edges: sum, mean, first or count. Default: sum.",
}
OWN = {n: p.option(str, "Columns", help, check=split_names if n in SEVERAL else None) for n, help in COLUMNS.items()}
OWN |= {name: p.option(str, "Handling", help) for name, help in HANDLING.items()}
OWN["schema"] = p.option(Path, "Handling", "Run or graph with the schema for the tables. Default: a new schema.")
OWN["metric"] = p.option(str, "Handling", "Metric: accuracy, average_precision or roc_auc.")


@p.command("memory", name="import", more=OWN)
def import_graph(
    given: p.Given,
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edge list (.csv, .tsv, .txt, .parquet), or a graph.")],
    nodes: Annotated[
        Path | None, typer.Argument(metavar="NODES", help="Table of ids, labels, features, split.")
    ] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for the graph.")] = Path("graph"),
    undirected: Annotated[bool, typer.Option("--undirected", help="Add the reverse of every edge.")] = False,
    split: Annotated[str, typer.Option(help="Split to draw if the table has none: rh, rl, random:60/20/20 …")] = "rh",
    seed: p.Seed = 0,
) -> Answer:
    """Read an edge list and a node table, and save the graph as a folder for `handful train`."""
    from handful.datasets import write
    from handful.datasets.files import is_tables, read_graph
    from handful.datasets.importer import Columns, Handling, write_tables
    from handful.datasets.registry import is_name
    from handful.datasets.schema import Schema
    from handful.datasets.splits import draw_split
    from handful.graph import MASKS
    from handful.runs import find_schema
    from handful.studies.assessed import describe_labels

    started = time.perf_counter()
    named: dict[str, Any] = {name.removesuffix("_column"): given[name] for name in COLUMNS if name in given}
    how = Handling(undirected=undirected, **{name: given[name] for name in HANDLING if name in given})
    fields: dict[str, Any] = {"name": to.name, **({"metric": given["metric"]} if "metric" in given else {})}
    memory, found = given.get("memory"), find_schema(given["schema"]) if "schema" in given else None
    with console.status("reading") as status:
        rows = 0

        def progress(count: int) -> None:
            nonlocal rows
            rows += count
            status.update(f"reading: {rows:,} edges")

        tabled = {"columns": Columns(**named), "how": how, "schema": found, "progress": progress, "say": note, **fields}
        if memory is not None and is_tables(Path(edges)):
            write_tables(edges, nodes, to, memory, split=split, seed=seed, **tabled)
        elif memory is not None:
            status.update("writing")
            write(edges, to, memory)
        else:
            graph = hf.load(edges) if is_name(edges) else read_graph(edges, nodes, **tabled)
            if undirected:
                status.update("adding the reverse of every edge")
                graph = graph.to_undirected()
            if graph.y is not None and graph.train_mask is None and found is None:
                graph = graph.replace(**draw_split(graph, split, seed))
            status.update("writing")
            hf.save(graph, to)
        graph = hf.open_graph(to) if memory is not None else graph
    if not graph.undirected:
        note("The graph is directed: messages follow the edges. --undirected adds the reverse of every edge.")
    if graph.train_mask is not None and (told := describe_labels(graph)):
        note(told)
    sizes = {m.removesuffix("_mask"): int(t.sum()) for m in MASKS if (t := getattr(graph, m)) is not None}
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    more = {"classes": graph.num_classes, "undirected": graph.undirected, "split": sizes, "schema": graph.schema}
    result = {"graph": str(to), **size, **more, "seconds": time.perf_counter() - started}
    tables = [] if graph.schema is None else [Schema.from_json(graph.schema).table()]
    then = f"handful train {to}" if graph.y is not None else f"handful predict RUN {to}, RUN trained on a like graph"
    shares = ", ".join(f"{name} {count:,}" for name, count in sizes.items()) or "none"
    return Answer(result, tables, [str(graph), f"split: {shares}", f"written to {to}; next: {then}"])
