"""``handful bench``: measured against peers, in one process, as ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import bench, console, emit, integers

RoundsOption = Annotated[int, typer.Option(help="How often each is measured; the median counts.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Of graph, weights, parts and dropout.", min=0)]


@bench.command("epoch")
def epoch(
    ctx: typer.Context,
    graph: Annotated[str, typer.Option(help=p.GRAPH_HELP)] = "debian",
    split: p.Split = None,
    root: p.Root = None,
    parts: Annotated[int, typer.Option(help="m, the number of parts; 1 is the full graph.", min=1)] = 4,
    hidden: p.Hidden = None,
    layers: p.Layers = None,
    rounds: RoundsOption = 5,
    seed: SeedOption = 42,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """A training epoch against PyG's and against its matrix products alone: seconds, ratios, where the time goes."""
    from handful.bench.epoch import bench_epoch, epoch_table
    from handful.cli.options import experiment
    from handful.samplers import RandomNodes

    asked = experiment(ctx.params, sampler=RandomNodes(parts), seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update)
    emit(result, as_json, [epoch_table(result)])


@bench.command("gpu")
def gpu(
    ctx: typer.Context,
    graph: Annotated[
        str | None, typer.Option(help=f"{p.GRAPH_HELP} A made-up one with 12M edges if not given; a toy without a GPU.")
    ] = None,
    split: p.Split = None,
    root: p.Root = None,
    parts: Annotated[int, typer.Option(help="m, the number of parts; 1 is the full graph.", min=1)] = 4,
    hidden: p.Hidden = None,
    layers: p.Layers = None,
    rounds: RoundsOption = 5,
    seed: SeedOption = 42,
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, … (else cuda; cpu where there is none).")] = None,
    as_json: p.Json = False,
) -> None:
    """A training epoch on a GPU against PyG's and its matrix products alone, with memory: a table for an issue."""
    from handful.bench.gpu import GRAPH, TOY, TOY_OPTIONS, bench_gpu, device_for_bench, gpu_table, notes
    from handful.cli.options import experiment
    from handful.report.tables import markdown
    from handful.samplers import RandomNodes

    place = device_for_bench(device)
    toy = place == "cpu"
    chosen = {**ctx.params, "graph": graph or (TOY if toy else GRAPH), "device": place}
    asked = experiment(chosen, TOY_OPTIONS if toy else None, sampler=RandomNodes(parts), seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_gpu(asked, rounds, status.update)
    table = gpu_table(result)
    emit(result, as_json, [], f"{table.title}\n", markdown(table), *notes(result))


@bench.command("loader")
def loader(
    nodes: Annotated[int, typer.Option(help="Nodes of the graph.", min=2)] = 2_450_000,
    edges: Annotated[int, typer.Option(help="Directed edges of the graph, about.", min=2)] = 123_000_000,
    parts: Annotated[str, typer.Option(help="Numbers of parts, separated by commas.")] = "10,50",
    rounds: RoundsOption = 3,
    seed: SeedOption = 42,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """Random node batches against PyG's RandomNodeLoader: seconds, ratios, peak memory; and neighbour loading."""
    from handful.bench.loader import bench_loader, in_words, loader_table, neighbors_table

    with console.status("starting…") as status:
        result = bench_loader(nodes, edges, integers(parts, "--parts"), rounds, seed, status.update)
    emit(result, as_json, [loader_table(result), neighbors_table(result)], in_words(result))


@bench.command("memory")
def memory(
    ctx: typer.Context,
    graph: Annotated[
        str | None, typer.Option(help=f"{p.GRAPH_HELP} A made-up one with 12M edges if not given.")
    ] = None,
    parts: Annotated[int, typer.Option(help="m, the number of parts.", min=1)] = 10,
    model: Annotated[str, typer.Option(help="sage or gat.")] = "sage",
    hidden: p.Hidden = None,
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 5,
    norm: Annotated[str, typer.Option(help="bn or ln.")] = "ln",
    dropout: Annotated[float, typer.Option(help="Share of activations dropped.")] = 0.3,
    ways: Annotated[str | None, typer.Option(help="Some of the ways to train, separated by commas (else all).")] = None,
    pyg_steps: Annotated[
        int, typer.Option(help="How many parts PyG trains on; the rest is taken to last as long. 0 for all.", min=0)
    ] = 0,
    seed: SeedOption = 42,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """Peak memory of full-graph and random-part epochs, PyG's and ours, each in its own process."""
    from handful.bench.memory import GRAPH, WAYS, bench_memory, memory_table
    from handful.cli.options import experiment
    from handful.samplers import RandomNodes

    asked = experiment({**ctx.params, "graph": graph or GRAPH}, sampler=RandomNodes(parts), seeds=(seed,))
    chosen = [way.strip() for way in ways.split(",") if way.strip()] if ways else list(WAYS)
    with console.status("starting…") as status:
        result = bench_memory(asked, chosen, pyg_steps, status.update)
    emit(result, as_json, [memory_table(result)])


@bench.command("samplers")
def samplers(
    nodes: Annotated[int, typer.Option(help="Nodes of the synthetic graph.", min=1000)] = 2_450_000,
    edges: Annotated[int, typer.Option(help="Its directed edges, about.", min=1000)] = 123_000_000,
    seeds: Annotated[int, typer.Option(help="Its training nodes.", min=1)] = 200_000,
    limit: Annotated[float, typer.Option(help="Seconds after which a sampler's epoch is cut short.")] = 20.0,
    train: Annotated[bool, typer.Option(help="Time training steps of GraphSAGE on the batches too.")] = True,
    hidden: Annotated[int, typer.Option(help="Width of the layers.", min=1)] = 256,
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 3,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """Edges per second of every sampler, the memory bandwidth of this machine, and the share of a training epoch."""
    from handful.bench.samplers import bench_samplers, notes, samplers_table

    with console.status("starting…") as status:
        training = (hidden, layers) if train else None
        result = bench_samplers(nodes, edges, seeds, limit, training, layers, status.update)
    emit(result, as_json, [samplers_table(result)], *notes(result))


@bench.command("ranks")
def ranks(
    ctx: typer.Context,
    graph: Annotated[str, typer.Option(help=p.GRAPH_HELP)] = "debian",
    split: p.Split = None,
    root: p.Root = None,
    parts: Annotated[int, typer.Option(help="m, the number of parts.", min=1)] = 4,
    hidden: p.Hidden = None,
    layers: p.Layers = None,
    norm: p.Norm = None,
    processes: Annotated[int, typer.Option(help="How many ranks, each with one thread.", min=2)] = 2,
    rounds: RoundsOption = 5,
    seed: SeedOption = 42,
    as_json: p.Json = False,
) -> None:
    """Several ranks against one, a thread each: an epoch and an evaluation, in seconds and in processor time."""
    from handful.bench.ranks import bench_ranks, ranks_table
    from handful.cli.options import experiment
    from handful.samplers import RandomNodes

    asked = experiment(ctx.params, sampler=RandomNodes(parts), seeds=(seed,), parts_per_step=processes)
    result = bench_ranks(asked, processes, rounds)
    emit(result, as_json, [ranks_table(result)])


@bench.command("scale")
def scale(
    nodes: Annotated[str, typer.Option(help="Nodes of the graphs, separated by commas.")] = "500000,4000000,20000000",
    degree: Annotated[float, typer.Option(help="Their mean degree, about.")] = 20.0,
    features: Annotated[int, typer.Option(help="Features of a node, in float16.", min=1)] = 64,
    train: Annotated[float, typer.Option(help="The share of training nodes.")] = 0.01,
    parts: Annotated[int, typer.Option(help="m, the number of parts.", min=1)] = 32,
    hidden: Annotated[int, typer.Option(help="Width of the layers.", min=1)] = 256,
    layers: Annotated[int, typer.Option(help="Number of layers.", min=1)] = 3,
    memory: Annotated[str, typer.Option(help="The budget, such as 2GiB.")] = "2GiB",
    rounds: RoundsOption = 3,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where the graphs are put for the while (else for temporary files).")
    ] = None,
    seed: SeedOption = 42,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """Epochs within a budget of memory against the same in memory, on graphs of several sizes made on disk."""
    from handful.bench.scale import bench_scale, phases_table, scale_table, shapes_of

    shape = {"degree": degree, "features": features, "train": train, "parts": parts, "hidden": hidden}
    shapes = shapes_of(integers(nodes, "--nodes"), memory, **shape, layers=layers, rounds=rounds, seed=seed)
    with console.status("starting…") as status:
        result = bench_scale(shapes, folder, status.update)
    emit(result, as_json, [scale_table(result), phases_table(result)])
