"""``handful info``, ``structure``, ``picture`` and ``shard``: what a graph is, and what becomes of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

import handful as hf
from handful.cli import params as p
from handful.cli.app import Answer, console
from handful.errors import HandfulError
from handful.finding import Table, text_table
from handful.vocabulary import shown, spaced

Sources = Annotated[int, typer.Option(help="Searches from random nodes, for the distances.", min=1)]
Sweeps = Annotated[int, typer.Option(help="Searches, each from a node farthest from the last.", min=0)]


@p.command("split", "root", "threads")
def info(given: p.Given, graph: p.Graph, sources: Sources = 16, sweeps: Sweeps = 8, seed: p.Seed = 0) -> Answer:
    """The graph's statistics: size, density, components, homophily, distances, classes, features and split."""
    from handful.theory.structure import statistics

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    found = asdict(statistics(data, sources, sweeps, seed))
    result = {"graph": data.name, **found, "metric": data.metric}
    return Answer(result, [make_info_table(result)])


def make_info_table(result: dict[str, Any]) -> Table:
    """The statistics for people."""
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
    parts: Annotated[str, typer.Option(help="The values of m, separated by commas.")] = "1,2,4,8,16",
    epochs: Annotated[int, typer.Option(help="Random partitions for each m.", min=1)] = 5,
    sources: Sources = 16,
    sweeps: Sweeps = 4,
    seed: p.Seed = 42,
) -> Answer:
    """What sampling does to the graph as m grows: edges, components, distances, homophily; mean ± sd over epochs."""
    from handful.cli.progress import Bar
    from handful.studies.laws import measure_structure
    from handful.vocabulary import STRUCTURE

    values = p.parse_integers(parts, "--parts")
    data = hf.load(graph, root=given.get("root"), seed=seed)
    with Bar("parts", epochs * sum(values)) as bar:
        result = measure_structure(data, values, epochs, seed, sources, sweeps, lambda m: bar.step(f"m = {m}"))
    names = [name for name in STRUCTURE if name != "homophily"]
    rows = [{"m": row["m"], **{name: row[name] for name in names}} for row in result.payload["parts"]]
    return p.make_answer(result, given.get("out"))._replace(payload={"graph": data.name, "parts": rows})


@p.command("split", "root")
def picture(
    given: p.Given,
    graph: p.Graph,
    path: Annotated[Path, typer.Option("--out", help="The picture to write: .svg, .png or .pdf.")] = Path(
        "samplers.svg"
    ),
    seed: p.Seed = 0,
) -> Answer:
    """What each sampler makes of a small graph, or of a part of a large one: the paper's Figure 1."""
    from handful.report.picture import draw_samplers
    from handful.report.vega import FORMATS
    from handful.studies.picture import sampler_picture

    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise HandfulError(f"--out must end in .{', .'.join(FORMATS)}; got '{path}'")
    whole = hf.load(graph, split=given.get("split"), root=given.get("root"))
    drawn = sampler_picture(whole, seed)
    draw_samplers(drawn, path)
    panels = []
    for panel in drawn.panels:
        sizes = {"nodes": len(panel.nodes), "targets": len(panel.targets), "edges": panel.edges.shape[1]}
        panels.append({"sampler": panel.method, "options": panel.options, **sizes})
    payload = {"graph": whole.name, "nodes": whole.num_nodes, "shown": len(drawn.place), "panels": panels}
    return Answer({**payload, "out": str(path)}, lines=[f"{path}: {drawn.note}"])


@p.command("split", "root")
def shard(
    given: p.Given,
    graph: p.Graph,
    shards: Annotated[int, typer.Option(help="How many ranks will train on it.", min=1)],
    to: Annotated[Path, typer.Option("--out", help="The folder to write: shard-0, shard-1, …")],
    seed: p.Seed = 0,
) -> Answer:
    """Cut a graph into shards: each has the edges, features, labels and masks of its share of the nodes."""
    from handful.shuffle.shards import even_cuts
    from handful.shuffle.shards import shard as cut

    data = hf.load(graph, split=given.get("split"), root=given.get("root"), seed=seed)
    with console.status("writing"):
        cut(data, to, shards)
    result = {"graph": data.name, "shards": shards, "cuts": even_cuts(data, shards), "out": str(to)}
    train = f"handful train {quote(str(to))} --processes {shards} --parts-per-step {shards}"
    return Answer(result, lines=[f"{data} in {shards} shards", f"written to {to}; next: {train}"])
