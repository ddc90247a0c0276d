"""``handful plan``: estimates of memory, disk, traffic and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from handful.budget import show_size as size
from handful.cli import params as p
from handful.cli.app import Answer
from handful.finding import Table, text_table

if TYPE_CHECKING:
    from handful.plan import Plan


@p.command("split", "root", *p.OF_MODEL, "parts", "set", "memory", "threads")
def plan(
    given: p.Given,
    graph: p.Graph,
    processes: Annotated[int, typer.Option(help="Number of processes that share the work, such as 2.", min=1)] = 1,
    timed: Annotated[bool, typer.Option(help="Measure times on this machine, which takes a few seconds.")] = True,
) -> Answer:
    """Estimate memory, disk, traffic and time of training, from the size of the graph and a short calibration.

    The graph is not loaded. It need not exist. For example, with the size of ogbn-papers100M:
    `synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011`
    """
    from handful import plan as planning

    asked = p.make_experiment(graph, given, p.train_defaults(given))
    if asked.sampler.options().get("parts") == 1:
        asked = asked.with_(sampler="full")
    result = planning.plan(asked, given.get("memory"), processes, timed)
    lines = [describe_fit(result)]
    if result.shape.edges >= planning.ARITHMETIC:
        lines.append("No graph of this size was run here: these figures are extrapolated from a small one.")
    return Answer(result.to_json(), make_tables(result), lines)


def make_tables(plan: Plan) -> list[Table]:
    """The graph, the cost of the requested m, and memory by m."""
    shape, chosen = plan.shape, plan.chosen
    rows = {
        "graph": f"{shape.nodes:,} nodes, {shape.edges:,} edges, {shape.features:,} features of {shape.element} bytes, "
        f"{shape.train:,} training nodes ({size(shape.total_bytes)}; known from {shape.known})",
        "model": f"{plan.parameters:,} parameters",
        f"memory, m = {plan.m}": f"{size(plan.ram(chosen))} with the graph in memory, "
        f"{size(chosen.budget(shape, plan.base))} out of core (--memory)",
        "a step": f"{size(chosen.step_bytes)}; {size(chosen.step_bytes + shape.total_bytes)} on a GPU, with the graph",
    }
    if plan.epoch_seconds is not None and plan.evaluation_seconds is not None:
        rows["an epoch"] = f"about {format_duration(plan.epoch_seconds)}"
        if plan.reading_seconds:
            rows["an epoch"] += f", {format_duration(plan.reading_seconds)} of it waiting for the disk"
        rows["an exact evaluation"] = f"about {format_duration(plan.evaluation_seconds)}"
    if plan.memory is not None or shape.folder is not None:
        rate = "" if plan.disk_rate is None else f" (the disk gives {size(plan.disk_rate)} per second)"
        rows["read per epoch"] = size(chosen.read(shape)) + rate
    if plan.memory is not None:
        rows["scratch files"] = size(chosen.scratch(shape, plan.memory, plan.base))
    if plan.processes > 1:
        rows["sent per epoch"] = f"{size(plan.sent_replicated)} by each rank if every rank has the graph, "
        rows["sent per epoch"] += f"{size(plan.sent_sharded)} by all if each has a share"
    by_m = []
    for part in plan.parts:
        sizes = (plan.ram(part), part.budget(shape, plan.base), part.step_bytes)
        by_m.append((str(part.m), *map(size, sizes), plan.fits(part)))
    head = ("m", "graph in memory", "least --memory", "a step", "fits")
    return [text_table(f"Plan for {shape.name}", ["", ""], rows.items()), text_table("Memory by m", head, by_m)]


def describe_fit(plan: Plan) -> str:
    """Whether the requested m fits, and the smallest m that fits."""
    where = f"a budget of {size(plan.memory)}" if plan.memory else f"the {size(plan.available)} that are free"
    words = {"no": "does not fit into", "with --memory": "fits, out of core with --memory, into"}
    smallest = "none of those below" if plan.smallest is None else plan.smallest
    verdict = words.get(plan.fits(plan.chosen), "fits into")
    return f"m = {plan.m} {verdict} {where}; the smallest m that does is {smallest}."


def format_duration(seconds: float) -> str:
    """A duration as text.

    >>> format_duration(0.0312), format_duration(75), format_duration(9000)
    ('0.031 s', '75 s', '2.5 h')
    """
    if seconds < 600:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
