"""``handful bench``: measured against peers, in one process, as ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    from handful.bench.epoch import GRAPH, TOY, TOY_OPTIONS, bench_epoch, device_for_bench, epoch_table, gpu_notes
    from handful.cli.options import experiment
    from handful.report.tables import markdown
    from handful.samplers import RandomNodes

    place = device_for_bench(device)
    toy = place == "cpu"
    chosen = {**ctx.params, "graph": graph or (TOY if toy else GRAPH), "device": place}
    asked = experiment(chosen, TOY_OPTIONS if toy else None, sampler=RandomNodes(parts), seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update, gpu=True)
    table = epoch_table(result)
    emit(result, as_json, [], f"{table.title}\n", markdown(table), *gpu_notes(result))


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
    """Random node batches against PyG's RandomNodeLoader: seconds, ratios, peak memory."""
    from handful.bench.loader import bench_loader, describe_growth, loader_table

    with console.status("starting…") as status:
        result = bench_loader(nodes, edges, integers(parts, "--parts"), rounds, seed, status.update)
    emit(result, as_json, [loader_table(result)], describe_growth(result))


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
    from handful.bench.epoch import GRAPH, MEMORY_WAYS, bench_memory, memory_table
    from handful.cli.options import experiment
    from handful.samplers import RandomNodes

    asked = experiment({**ctx.params, "graph": graph or GRAPH}, sampler=RandomNodes(parts), seeds=(seed,))
    chosen = [way.strip() for way in ways.split(",") if way.strip()] if ways else list(MEMORY_WAYS)
    with console.status("starting…") as status:
        result = bench_memory(asked, chosen, pyg_steps, status.update)
    emit(result, as_json, [memory_table(result)])


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
    from handful.bench.scale import bench_scale, scale_tables
    from handful.budget import as_bytes
    from handful.experiment import Experiment
    from handful.samplers import RandomNodes

    made = f"degree={degree}&classes=16&features={features}&half=true&train={train}&val={train / 10}&seed={seed}"
    model: dict[str, Any] = {"hidden": hidden, "layers": layers, "norm": "ln"}
    sizes = integers(nodes, "--nodes")
    asked = [
        Experiment(f"synthetic?nodes={n}&{made}", sampler=RandomNodes(parts), seeds=(seed,), **model) for n in sizes
    ]
    with console.status("starting…") as status:
        result = bench_scale(asked, as_bytes(memory), rounds, folder, status.update)
    emit(result, as_json, scale_tables(result))


def _say_where_it_is(name: str) -> None:
    """A bench that is a script of the repository keeps its name, and says how it is run."""

    @bench.command(name, hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def moved() -> None:
        from handful.errors import HandfulError

        raise HandfulError(f"bench {name} is a script of the repository: run python -m benchmarks.{name} in a checkout")


for _name in ("ranks", "samplers"):
    _say_where_it_is(_name)
