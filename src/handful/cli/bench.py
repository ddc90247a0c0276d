"""``handful bench``: measured against peers, in one process, as ratios."""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import Answer, bench, console
from handful.errors import HandfulError

Rounds = Annotated[int, typer.Option(help="How often each is measured; the median counts.", min=1)]
GraphOption = Annotated[str | None, typer.Option("--graph", help=f"{p.GRAPH_HELP} Else the bench has its own.")]
ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}
SHAPE = ("split", "root", *p.OF_MODEL, "parts", "set")


@p.command(*SHAPE, "threads", of=bench)
def epoch(given: p.Given, graph: GraphOption = None, rounds: Rounds = 5, seed: p.Seed = 42) -> Answer:
    """A training epoch against PyG's and against its matrix products alone: seconds, ratios, where the time goes."""
    from handful.bench.epoch import bench_epoch, epoch_table

    asked = p.make_experiment(graph or "debian", given, seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update)
    return Answer(result, [epoch_table(result)])


@p.command(*SHAPE, "device", of=bench)
def gpu(given: p.Given, graph: GraphOption = None, rounds: Rounds = 5, seed: p.Seed = 42) -> Answer:
    """A training epoch on a GPU against PyG's and its matrix products alone, with memory: a table for an issue.

    Without --graph, on a made-up one with 12M edges; on a toy where there is no GPU.
    """
    from handful.bench.epoch import GRAPH, TOY, TOY_OPTIONS, bench_epoch, device_for_bench, epoch_table, gpu_notes
    from handful.report.tables import markdown

    place = device_for_bench(given.get("device"))
    usual, made_up = (TOY_OPTIONS, TOY) if place == "cpu" else ({}, GRAPH)
    asked = p.make_experiment(graph or made_up, given, usual, device=place, seeds=(seed,))
    with console.status("loading the graph…") as status:
        result = bench_epoch(asked, rounds, status.update, gpu=True)
    table = epoch_table(result)
    return Answer(result, lines=[f"{table.title}\n", markdown(table), *gpu_notes(result)])


@bench.command("loader", hidden=True, context_settings=ANYTHING)
@bench.command("memory", hidden=True, context_settings=ANYTHING)
@bench.command("ranks", hidden=True, context_settings=ANYTHING)
@bench.command("samplers", hidden=True, context_settings=ANYTHING)
@bench.command("scale", hidden=True, context_settings=ANYTHING)
def name_script(here: typer.Context) -> None:
    """A bench that is a script of the repository keeps its name, and says how it is run."""
    name = here.info_name
    raise HandfulError(f"bench {name} is a script of the repository: run python -m benchmarks.{name} in a checkout")
