"""``handful info``, ``structure`` and ``shard``: statistics and shards of a graph."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console, former
from handful.finding import Table, text_table
from handful.vocabulary import shown, spaced

Sources = Annotated[int, typer.Option(help="Number of breadth-first searches from random nodes, for distances.", min=1)]
Sweeps = Annotated[int, typer.Option(help="Number of searches from the farthest node, for the diameter.", min=0)]


@p.command("split", "root", "threads")
def info(given: p.Given, graph: p.Graph, sources: Sources = 16, sweeps: Sweeps = 8, seed: p.Seed = 0) -> Answer:
    """Print the statistics of a graph: size, density, components, homophily, distances, classes, features and split."""
    from handful.theory.structure import statistics

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    found = asdict(statistics(data, sources, sweeps, seed))
    result = {"graph": data.name, **found, "metric": data.metric}
    return Answer(result, [make_info_table(result)])


def make_info_table(result: dict[str, Any]) -> Table:
    """The statistics as a table."""
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
    """Measure the parts as m grows: edges, components, distances, homophily; mean ± sd over epochs."""
    from handful.cli.progress import Bar
    from handful.studies.laws import measure_structure

    values = p.parse_integers(parts, "--parts")
    data = hf.load(graph, root=given.get("root"), seed=seed)
    with Bar("parts", epochs * sum(values)) as bar:
        result = measure_structure(data, values, epochs, seed, sources, sweeps, lambda m: bar.step(f"m = {m}"))
    return p.make_answer(result, given.get("out"))


former("picture", "python docs/draw_samplers.py in a checkout")


@p.command("split", "root")
def shard(
    given: p.Given,
    graph: p.Graph,
    shards: Annotated[int, typer.Option(help="Number of shards: one per rank.", min=1)],
    to: Annotated[Path, typer.Option("--out", help="Folder for shard-0, shard-1, …")],
    seed: p.Seed = 0,
) -> Answer:
    """Split a graph into shards. A shard has the edges, features, labels and masks of its nodes."""
    from handful.shuffle.shards import even_cuts
    from handful.shuffle.shards import shard as cut

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    with console.status("writing"):
        cut(data, to, shards)
    result = {"graph": data.name, "shards": shards, "cuts": even_cuts(data, shards), "out": str(to)}
    train = f"handful train {quote(str(to))} --processes {shards} --parts-per-step {shards}"
    return Answer(result, lines=[f"{data} in {shards} shards", f"written to {to}; next: {train}"])
