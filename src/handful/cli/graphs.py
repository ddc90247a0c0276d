"""``handful info``, ``structure``, ``shard``, ``import`` and ``update``: statistics, shards, and graphs from tables."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import Field, asdict, fields
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console, note
from handful.cli.predict import OWN as OF_PREDICT
from handful.errors import HandfulError
from handful.finding import Table, text_table
from handful.settings import TableOptions
from handful.vocabulary import shown, spaced

Sources = Annotated[int, typer.Option(help="Number of breadth-first searches from random nodes, for distances.", min=1)]
Sweeps = Annotated[int, typer.Option(help="Number of searches for the diameter, each from a farthest node.", min=0)]


@p.command("split", "root", "threads")
def info(given: p.Given, graph: p.Graph, sources: Sources = 16, sweeps: Sweeps = 8, seed: p.Seed = 0) -> Answer:
    """Print the statistics of a graph: size, density, components, homophily, distances, classes, features and split."""
    from handful.theory.structure import statistics

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    result = {"graph": data.name, **asdict(statistics(data, sources, sweeps, seed)), "metric": data.metric}
    return Answer(result, [make_info_table(result)])


def make_info_table(result: dict[str, Any]) -> Table:
    """Make a table of the statistics that `handful info` prints."""
    split = result["split"]
    homophily = [shown(result[name], "{:.3f}") for name in ("homophily", "adjusted_homophily", "unbiased_homophily")]
    rows = {
        "nodes": f"{result['nodes']:,}",
        "edges": f"{result['edges']:,} (each direction counts)",
        "density": f"{result['density']:.2e}",
        "average degree": f"{result['average_degree']:.2f}",
        "isolated nodes": f"{result['isolated']:,}",
        "connected components": f"{result['components']:,}",
        "homophily": "edge {}, adjusted {}, unbiased {}".format(*homophily),
        "diameter": f"at least {result['diameter']}",
        "average distance": f"about {result['average_distance']:.2f}" if result["edges"] else "–",
        "classes": str(result["classes"] or "–"),
        "features": f"{result['features']:,}" if result["features"] else "–",
        "train / val / test": " / ".join(f"{size:,}" for size in split.values()) if split else "no split",
        "metric": spaced(result["metric"]),
    }
    kind = "" if result["undirected"] else ", directed; measured with both directions of every edge"
    return text_table(f"{result['graph']}{kind}", ["", ""], rows.items())


@p.command("root", "threads", "out")
def structure(
    given: p.Given,
    graph: p.Graph,
    parts: Annotated[str, typer.Option(help="Values of m, separated by commas.")] = "1,2,4,8,16",
    epochs: Annotated[int, typer.Option(help="Number of random partitions per m.", min=1)] = 5,
    sources: Sources = 16,
    sweeps: Sweeps = 4,
    seed: p.Seed = 42,
) -> Answer:
    """Measure how the parts change with m: edges, components, distances and homophily, as mean ± sd over epochs."""
    from handful.cli.progress import Bar
    from handful.studies.laws import measure_structure

    values = p.parse_integers(parts, "--parts")
    data = hf.load(graph, root=given.get("root"), seed=seed)
    with Bar("parts", epochs * sum(values)) as bar:
        result = measure_structure(data, values, epochs, seed, sources, sweeps, lambda m: bar.step(f"m = {m}"))
    return p.make_answer(result, given.get("out"))


@p.command("split", "root")
def shard(
    given: p.Given,
    graph: p.Graph,
    shards: Annotated[int, typer.Option(help="Number of shards: one per rank.", min=1)],
    to: Annotated[Path, typer.Option("--out", help="Folder for `shard-0`, `shard-1`, …")],
    seed: p.Seed = 0,
) -> Answer:
    """Split a graph into shards. Each shard contains the edges, features, labels and masks of its own nodes."""
    from handful.shuffle import shards as sharding

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    with console.status("writing"):
        sharding.shard(data, to, shards)
    result = {"graph": data.name, "shards": shards, "cuts": sharding.even_cuts(data, shards), "out": str(to)}
    train = f"handful train {quote(str(to))} --processes {shards} --parts-per-step {shards}"
    return Answer(result, lines=[f"{data} in {shards} shards", f"written to {to}; next: {train}"])


# -- tables as a saved graph -------------------------------------------------------------------------------------------


def split_names(texts: Iterable[str]) -> list[str]:
    """Split comma-separated lists of names, and join them. A comma after a backslash is part of a name.

    >>> split_names(["a, b\\,c", "d"])
    ['a', 'b,c', 'd']
    """
    return [re.sub(r"\\,", ",", name).strip() for text in texts for name in re.split(r"(?<!\\),", text)]


def _of_field(field: Field[Any]) -> p.Option:
    """The command-line option for a field of ``TableOptions``."""
    help, several = p.describe(TableOptions)[field.name], "tuple" in str(field.type)
    text = f"{help[0].upper()}{help[1:]}{'; several are separated by commas; repeatable.' if several else '.'}"
    panel = "Columns" if "str" in str(field.type) and field.name != "encoding" else "Handling"
    kind: Any = list[str] if several else bool if field.type == "bool" else str
    more: dict[str, Any] = {"check": split_names, "metavar": "<names>"} if several else {}
    return p.option(kind, panel, text, **more)


OWN = {field.name: _of_field(field) for field in fields(TableOptions) if field.name != "strict"}
OWN |= p.read_options("import")
Split = Annotated[str, typer.Option(help="Split if the table has none: `rh`, `rl`, `random:60/20/20`, `time:COLUMN`.")]


@p.command("memory", name="import", more=OWN)
def import_graph(
    given: p.Given,
    edges: Annotated[str, typer.Argument(metavar="EDGES", help="Edge list (.csv, .tsv, .txt, .parquet), or a graph.")],
    nodes: Annotated[Path | None, typer.Argument(metavar="NODES", help="Table of ids, labels and features.")] = None,
    to: Annotated[Path, typer.Option("--out", help="Folder for the graph.")] = Path("graph"),
    split: Split = "rh",
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
    named = {name: value for name, value in given.items() if name not in ("memory", "schema")}
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
            raise HandfulError(f"{edges} is not a table: leave out {', '.join(unused)}, and name it in `handful train`")
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
    if not graph.undirected and found is None:
        note("The graph is directed: messages follow the edges. --undirected adds the reverse of every edge.")
    if graph.train_mask is not None and (told := describe_labels(graph)):
        note(told)
    sizes = {m.removesuffix("_mask"): int(t.sum()) for m in MASKS if (t := getattr(graph, m)) is not None}
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    more = {"classes": graph.num_classes, "undirected": graph.undirected, "split": sizes, "schema": graph.schema}
    result = {"graph": str(to), **size, **more, "seconds": time.perf_counter() - started}
    tables = [] if graph.schema is None else [Schema.from_json(graph.schema).table()]
    then = f"handful train {to}" if graph.y is not None else f"handful predict RUN {to}, with a RUN of the same columns"
    shares = ", ".join(f"{name} {count:,}" for name, count in sizes.items()) or "none"
    return Answer(result, tables, [str(graph), f"split: {shares}", f"written to {to}; next: {then}"])


@p.command(more={name: OF_PREDICT[name] for name in ("unknown", "strict")})
def update(
    given: p.Given,
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="Folder that `handful import` wrote.")],
    edges: Annotated[Path, typer.Argument(metavar="EDGES", help="Table of new edges, between old and new nodes.")],
    nodes: Annotated[Path | None, typer.Argument(metavar="NODES", help="Table of new nodes. Default: none.")] = None,
    *,
    to: Annotated[
        Path, typer.Option("--out", help="Folder for the new graph; it may be GRAPH, which is then replaced.")
    ],
) -> Answer:
    """Add new rows to a graph from tables, with the encoding of its import, so that its runs stay applicable."""
    old = hf.open_graph(graph)
    with console.status("reading"):
        made = hf.update_graph(old, edges, nodes, out=to, say=note, **given)
    size, before = ({"nodes": one.num_nodes, "edges": one.num_edges} for one in (made, old))
    added = {name: size[name] - before[name] for name in size}
    told = f"added: {added['nodes']:,} nodes, {added['edges']:,} edges (each direction counts)"
    then = f"written to {to}; next: handful predict RUN {to}, or handful train {to}"
    return Answer({"graph": str(to), **size, "added": added}, lines=[str(made), told, then])
