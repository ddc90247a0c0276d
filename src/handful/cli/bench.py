"""``handful bench``: measured against peers, in one process, as ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer, bench, console

Rounds = Annotated[int, typer.Option(help="How often each is measured; the median counts.", min=1)]
GraphOption = Annotated[str | None, typer.Option("--graph", help=f"{p.GRAPH_HELP} Else the bench has its own.")]
Nodes = Annotated[int, typer.Option(help="Nodes of the graph that is made.", min=2)]
Edges = Annotated[int, typer.Option(help="Its directed edges, about.", min=2)]
Width = Annotated[int, typer.Option("--hidden", help="Width of the layers.", min=1)]
Depth = Annotated[int, typer.Option("--layers", help="Number of layers.", min=1)]
SHAPE = ("split", "root", *p.OF_MODEL, "parts", "set")


@p.command(*SHAPE, "threads", of=bench)
def epoch(given: p.Given, graph: GraphOption = None, rounds: Rounds = 5, seed: p.Seed = 42) -> Answer:
    """A training epoch against PyG's and against its matrix products alone: seconds, ratios, where the time goes."""
    from handful.bench.epoch import bench_epoch, epoch_table
    from handful.cli.options import experiment

    asked = experiment(graph or "debian", given, seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update)
    return Answer(result, [epoch_table(result)])


@p.command(*SHAPE, "device", of=bench)
def gpu(given: p.Given, graph: GraphOption = None, rounds: Rounds = 5, seed: p.Seed = 42) -> Answer:
    """A training epoch on a GPU against PyG's and its matrix products alone, with memory: a table for an issue.

    Without --graph, on a made-up one with 12M edges; on a toy where there is no GPU.
    """
    from handful.bench.gpu import GRAPH, TOY, TOY_OPTIONS, bench_gpu, device_for_bench, gpu_table, notes
    from handful.cli.options import experiment
    from handful.report.tables import markdown

    place = device_for_bench(given.get("device"))
    usual, made_up = (TOY_OPTIONS, TOY) if place == "cpu" else ({}, GRAPH)
    asked = experiment(graph or made_up, given, usual, device=place, seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_gpu(asked, rounds, status.update)
    table = gpu_table(result)
    return Answer(result, lines=[f"{table.title}\n", markdown(table), *notes(result)])


@p.command("threads", of=bench)
def loader(
    given: p.Given,
    nodes: Nodes = 2_450_000,
    edges: Edges = 123_000_000,
    parts: Annotated[str, typer.Option(help="Numbers of parts, separated by commas.")] = "10,50",
    rounds: Rounds = 3,
    seed: p.Seed = 42,
) -> Answer:
    """Random node batches against PyG's RandomNodeLoader: seconds, ratios, peak memory; and neighbour loading."""
    from handful.bench.loader import bench_loader, in_words, loader_table, neighbors_table

    with console.status("starting…") as status:
        result = bench_loader(nodes, edges, p.integers(parts, "--parts"), rounds, seed, status.update)
    return Answer(result, [loader_table(result), neighbors_table(result)], [in_words(result)])


@p.command(*SHAPE, "threads", of=bench)
def memory(
    given: p.Given,
    graph: GraphOption = None,
    ways: Annotated[str | None, typer.Option(help="Some of the ways to train, separated by commas (else all).")] = None,
    pyg_steps: Annotated[
        int, typer.Option(help="How many parts PyG trains on; the rest is taken to last as long. 0 for all.", min=0)
    ] = 0,
    seed: p.Seed = 42,
) -> Answer:
    """Peak memory of full-graph and random-part epochs, PyG's and ours, each in its own process.

    Else of GraphSAGE with 5 layers, LayerNorm and dropout 0.3, with 10 parts of a made-up graph of 12M edges.
    """
    from handful.bench.memory import GRAPH, WAYS, bench_memory, memory_table
    from handful.cli.options import experiment

    usual = {"parts": 10, "layers": 5, "norm": "ln", "dropout": 0.3}
    asked = experiment(graph or GRAPH, given, usual, seeds=(seed,))
    chosen = [way.strip() for way in ways.split(",") if way.strip()] if ways else list(WAYS)
    with console.status("starting…") as status:
        result = bench_memory(asked, chosen, pyg_steps, status.update)
    return Answer(result, [memory_table(result)])


@p.command("threads", of=bench)
def samplers(
    given: p.Given,
    nodes: Nodes = 2_450_000,
    edges: Edges = 123_000_000,
    seeds: Annotated[int, typer.Option(help="Its training nodes.", min=1)] = 200_000,
    limit: Annotated[float, typer.Option(help="Seconds after which a sampler's epoch is cut short.")] = 20.0,
    train: Annotated[bool, typer.Option(help="Time training steps of GraphSAGE on the batches too.")] = True,
    hidden: Width = 256,
    layers: Depth = 3,
) -> Answer:
    """Edges per second of every sampler, the memory bandwidth of this machine, and the share of a training epoch."""
    from handful.bench.samplers import bench_samplers, notes, samplers_table

    with console.status("starting…") as status:
        training = (hidden, layers) if train else None
        result = bench_samplers(nodes, edges, seeds, limit, training, layers, status.update)
    return Answer(result, [samplers_table(result)], notes(result))


@p.command(*SHAPE, of=bench)
def ranks(
    given: p.Given,
    graph: GraphOption = None,
    processes: Annotated[int, typer.Option(help="How many ranks, each with one thread.", min=2)] = 2,
    rounds: Rounds = 5,
    seed: p.Seed = 42,
) -> Answer:
    """Several ranks against one, a thread each: an epoch and an evaluation, in seconds and in processor time."""
    from handful.bench.ranks import bench_ranks, ranks_table
    from handful.cli.options import experiment

    asked = experiment(graph or "debian", given, seeds=(seed,), parts_per_step=processes)
    result = bench_ranks(asked, processes, rounds)
    return Answer(result, [ranks_table(result)])


@p.command("memory", "threads", of=bench)
def scale(
    given: p.Given,
    nodes: Annotated[str, typer.Option(help="Nodes of the graphs, separated by commas.")] = "500000,4000000,20000000",
    degree: Annotated[float, typer.Option(help="Their mean degree, about.")] = 20.0,
    features: Annotated[int, typer.Option(help="Features of a node, in float16.", min=1)] = 64,
    train: Annotated[float, typer.Option(help="The share of training nodes.")] = 0.01,
    parts: Annotated[int, typer.Option(help="m, the number of parts.", min=1)] = 32,
    hidden: Width = 256,
    layers: Depth = 3,
    rounds: Rounds = 3,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where the graphs are put for the while (else for temporary files).")
    ] = None,
    seed: p.Seed = 42,
) -> Answer:
    """Epochs within a budget of memory (else 2GiB) against the same in memory, on graphs of several sizes."""
    from handful.bench.scale import bench_scale, phases_table, scale_table, shapes_of

    shape = {"degree": degree, "features": features, "train": train, "parts": parts, "hidden": hidden, "layers": layers}
    budget = given.get("memory", "2GiB")
    shapes = shapes_of(p.integers(nodes, "--nodes"), budget, **shape, rounds=rounds, seed=seed)
    with console.status("starting…") as status:
        result = bench_scale(shapes, folder, status.update)
    return Answer(result, [scale_table(result), phases_table(result)])
