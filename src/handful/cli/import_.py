"""``handful import``: anybody's own graph as a folder that opens at once."""

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
    """Columns that were separated by commas; a backslash makes a comma part of a name.

    >>> split_names("a, b\\,c")
    ('a', 'b,c')
    """
    return tuple(re.sub(r"\\,", ",", name).strip() for name in re.split(r"(?<!\\),", text))


COLUMNS = {
    "source": "The column of sources, if its name is not a usual one.",
    "target": "That of targets.",
    "weight": "That of weights.",
    "id": "That of the nodes' ids.",
    "split_column": "That of the split.",
    "label": "That of labels; several, separated by commas, for --task multilabel.",
    "features": "The columns that are features, separated by commas (else all that are nothing else).",
    "categorical": "Columns of numbers that are codes; they are features too.",
    "hashed": "Columns of text whose words are hashed into 64 features.",
    "numbers": "Columns of whole numbers to keep although they look like identifiers: no value is there twice.",
    "ignore": "Columns to leave out.",
}
SEVERAL = ("label", "features", "categorical", "hashed", "numbers", "ignore")
HANDLING = {
    "task": "classification, regression or multilabel.",
    "impute": "What stands for a missing number: median; error refuses it.",
    "scale": "Of numbers: standard, quantile or none.",
    "unknown": "Edges to ids that are in no row of the node table: error, skip or add.",
    "decimal": "The decimal point of CSV files: . or ,.",
    "encoding": "The encoding of CSV files, such as latin-1.",
    "dates": "The order in dates that are text: dmy, mdy or ymd (else it is seen, or asked for).",
    "repeated": "Repeated edges as one: sum, mean, first or count (else weights are summed).",
}
OWN = {n: p.option(str, "Columns", help, check=split_names if n in SEVERAL else None) for n, help in COLUMNS.items()}
OWN |= {name: p.option(str, "Handling", help) for name, help in HANDLING.items()}
OWN["schema"] = p.option(Path, "Handling", "A run or a graph whose schema to encode by, instead of fitting one.")
OWN["metric"] = p.option(str, "Handling", "accuracy, average_precision or roc_auc.")


@p.command("memory", name="import", more=OWN)
def import_graph(
    given: p.Given,
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edge list (.csv, .tsv, .txt, .parquet), or a graph.")],
    nodes: Annotated[Path | None, typer.Argument(metavar="NODES", help="A table: id, label, features, split.")] = None,
    to: Annotated[Path, typer.Option("--out", help="The folder to write.")] = Path("graph"),
    undirected: Annotated[bool, typer.Option("--undirected", help="Add the reverse of every edge.")] = False,
    split: Annotated[str, typer.Option(help="The split to draw if there is none: rh, rl, random:60/20/20 …")] = "rh",
    seed: p.Seed = 0,
) -> Answer:
    """Read an edge list and a node table, and keep the graph as a folder that `handful train` opens at once."""
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
