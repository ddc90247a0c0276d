"""``handful import``: tables of edges and nodes as a saved graph."""

from __future__ import annotations

import re
import time
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console, note
from handful.errors import HandfulError
from handful.settings import TableOptions


def split_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list. A backslash before a comma makes it part of a name.

    >>> split_names("a, b\\,c")
    ('a', 'b,c')
    """
    return tuple(re.sub(r"\\,", ",", name).strip() for name in re.split(r"(?<!\\),", text))


def _of_field(field: Field[Any]) -> p.Option:
    """The option for a field of ``TableOptions``."""
    help, several = p.describe(TableOptions)[field.name], "tuple" in str(field.type)
    text = f"{help[0].upper()}{help[1:]}{'; several are separated by commas.' if several else '.'}"
    panel = "Columns" if "str" in str(field.type) and field.name != "encoding" else "Handling"
    return p.option(bool if field.type == "bool" else str, panel, text, check=split_names if several else None)


OWN = {field.name: _of_field(field) for field in fields(TableOptions) if field.name != "strict"}
NAMES = (*OWN, "metric")
OWN["schema"] = p.option(Path, "Handling", "A run or a graph whose schema to encode by, instead of fitting one.")
OWN["metric"] = p.option(str, "Handling", "accuracy, average_precision or roc_auc.")


@p.command("memory", name="import", more=OWN)
def import_graph(
    given: p.Given,
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edge list (.csv, .tsv, .txt, .parquet), or a graph.")],
    nodes: Annotated[Path | None, typer.Argument(metavar="NODES", help="Table of ids, labels and features.")] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for the graph.")] = Path("graph"),
    split: Annotated[
        str, typer.Option(help="Split to draw if the table has none: rh, rl, random:60/20/20 …; or time:COLUMN.")
    ] = "rh",
    seed: p.Seed = 0,
) -> Answer:
    """Read an edge list and a node table, and save the graph as a folder for `handful train`."""
    from handful.datasets import write
    from handful.datasets.files import is_tables, read_graph
    from handful.datasets.registry import is_name
    from handful.datasets.schema import Schema
    from handful.datasets.splits import draw_split
    from handful.graph import MASKS
    from handful.runs import find_schema
    from handful.studies.assessed import describe_labels

    started = time.perf_counter()
    named = {name: given[name] for name in NAMES if name in given}
    memory, found = given.get("memory"), find_schema(given["schema"]) if "schema" in given else None
    with console.status("reading") as status:
        rows = 0

        def progress(count: int) -> None:
            nonlocal rows
            rows += count
            status.update(f"reading: {rows:,} edges")

        tabled: dict[str, Any] = {"schema": found, "progress": progress, "say": note, "name": to.name, **named}
        of_tables = not is_name(edges) and is_tables(Path(edges))
        used = set() if memory is not None else {"undirected"} if is_name(edges) else {"undirected", "metric"}
        if not of_tables and (unused := [name for name in named if name not in used]):
            raise HandfulError(f"{edges} is no table: leave out {', '.join(unused)}, and name it in `handful train`")
        if of_tables:
            graph = hf.import_tables(edges, nodes, out=to, memory=memory, split=split, seed=seed, **tabled)
        elif memory is not None:
            write(edges, to, memory)
            graph = hf.open_graph(to)
        else:
            graph = hf.load(edges) if is_name(edges) else read_graph(edges, nodes, **tabled)
            graph = graph.to_undirected() if given.get("undirected") else graph
            if graph.y is not None and graph.train_mask is None and found is None:
                graph = graph.replace(**draw_split(graph, split, seed))
            hf.save(graph, to)
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
