"""``handful bench``: run handful and PyG in one process, and print the ratios of their times."""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer, bench, console

Rounds = Annotated[int, typer.Option(help="Number of repeated measurements; the result is their median.", min=1)]
GraphOption = Annotated[str | None, typer.Option("--graph", help=f"{p.GRAPH_HELP} Default: debian.")]


@p.command("split", "root", *p.OF_MODEL, "parts", "set", "device", "threads", of=bench)
def epoch(given: p.Given, graph: GraphOption = None, rounds: Rounds = 5, seed: p.Seed = 42) -> Answer:
    """Time a training epoch in handful and in PyG, and the matrix products alone: seconds, ratios, fractions of time.

    If the device is cuda, also print the GPU memory; the default graph is then a synthetic graph with 12M edges.
    """
    from handful.bench.epoch import GRAPH, bench_epoch, epoch_table

    on_gpu = given.get("device", "cpu") != "cpu"
    asked = p.make_experiment(graph or (GRAPH if on_gpu else "debian"), given, seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update)
    made = ", ".join(f"{name} {value}" for name, value in result["environment"].items())
    return Answer(result, [epoch_table(result)], [f"Kernels: {result['kernels']}. {made}"] if on_gpu else [])


@p.command("threads", of=bench)
def loader(
    given: p.Given,
    nodes: Annotated[int, typer.Option(help="Number of nodes of the synthetic graph.", min=2)] = 2_450_000,
    edges: Annotated[int, typer.Option(help="Approximate number of directed edges.", min=2)] = 123_000_000,
    parts: Annotated[str, typer.Option(help="Numbers of parts, separated by commas.")] = "10,50",
    rounds: Rounds = 3,
    seed: p.Seed = 42,
) -> Answer:
    """Time an epoch of random node batches in handful and in PyG's RandomNodeLoader: seconds, ratios, peak memory."""
    from handful.bench.loader import bench_loader, loader_table

    with console.status("starting…") as status:
        result = bench_loader(nodes, edges, [*p.parse_integers(parts, "--parts")], rounds, seed, status.update)
    return Answer(result, [loader_table(result)])
