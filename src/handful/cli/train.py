"""``handful train`` and ``plan``: train with each seed, and estimate memory, disk space, network traffic and time."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, get_args

import typer

import handful as hf
from handful.budget import show_size as size
from handful.cli import params as p
from handful.cli.app import Answer, console, note
from handful.errors import HandfulError
from handful.finding import Table, text_table
from handful.settings import GraphOn

if TYPE_CHECKING:
    from handful.plan import Plan

OWN = p.read_options("train", graph_on=p.choice("place", get_args(GraphOn)))


@p.command(*p.OF_EXPERIMENT, "sampler", "parts", "memory", "out", more=OWN)
def train(given: p.Given, graph: p.Graph) -> Answer | None:
    """Train a model that predicts the labels of nodes. Print mean ± 95% CI over the seeds, each at its best validation
    epoch.

    By default, RNS uses a mean-field neighbour and the labels of neighbours, if possible. `--sampler rns` is RNS as in
    the paper. `--parts auto` chooses m as `handful parts` does, or the smallest m that fits into `--memory`.
    """
    from handful import ranks
    from handful.datasets.registry import is_name
    from handful.training.record import refuse_run
    from handful.training.trackers import make_tracker

    out, resume, processes = given.get("out"), given.get("resume", False), given.get("processes", 1)
    choose = given.get("parts") == "auto"
    if resume and out is None:
        raise HandfulError("--resume needs --out, the folder of the runs to continue")
    if choose:
        given = {name: value for name, value in given.items() if name != "parts"}
    # The record has the absolute path: a run may be opened from another folder.
    name = graph if is_name(graph) else str(Path(graph).expanduser().resolve())
    asked = p.make_experiment(name, given, p.train_defaults(given))
    if choose and (ranks.launched() > 1 or processes > 1):
        raise HandfulError("--parts auto runs in one process: run `handful parts` first")
    if "refit" in given and (ranks.launched() > 1 or processes > 1):
        raise HandfulError("--refit trains in one process: leave out --processes and torchrun, or --refit")
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0" and out is None:
        raise HandfulError("torchrun --max-restarts needs --out: a restart continues the runs there")
    with ranks.join(asked.device, given.get("threads")):
        leading, resume = ranks.rank() == 0, resume or ranks.restarted()
        console.quiet = not leading
        with ranks.agreed():
            asked = p.with_split(asked)
            folder = p.choose_folder(out, f"{graph}-{asked.model}-{asked.sampler.name}")
            if leading and not resume:
                refuse_run(folder)
            trackers = [make_tracker(name, folder / name) for name in given.get("tracker", []) if leading]
        if processes > ranks.size():
            console.quiet = True  # from here on, the ranks print
            ranks.start(processes, ["-m", "handful", *sys.argv[1:], "--processes", "1", "--out", str(folder)])
            return None
        if choose:
            asked = choose_parts(asked, folder, given.get("memory"))
        return run(asked, folder, given, resume, trackers)


def choose_parts(asked: hf.Experiment, folder: Path, memory: int | None) -> hf.Experiment:
    """Choose m for the experiment ``asked``. If ``memory`` is given, choose the smallest m that fits into ``memory``.
    If it is ``None``, choose the m with the best validation metric.
    """
    from handful.cli.progress import Bar
    from handful.plan import fitting_parts
    from handful.studies.parts import auto_parts

    if memory is not None:
        asked, why = fitting_parts(asked, memory), f"the smallest that fits into {size(memory)} by the plan"
    else:
        with Bar("epochs") as trying:
            asked, tried = auto_parts(asked, folder / "parts", trying.job)
        why = f"of {', '.join(map(str, tried))}"
    note(f"taking m = {asked.sampler.options()['parts']}, {why}")
    return asked


def run(
    asked: hf.Experiment, folder: Path, given: p.Given, resume: bool, trackers: Sequence[hf.Callback]
) -> Answer | None:
    """Train, and write the finding to ``folder``. Only rank 0 returns an answer."""
    from handful import ranks
    from handful.cli.progress import EpochProgress
    from handful.report.tables import markdown
    from handful.runs import refit
    from handful.studies.assessed import summary_finding
    from handful.training.callbacks import Checksums
    from handful.training.card import write_card

    sums, how = Checksums(), {name: given[name] for name in ("memory", "graph_on") if name in given}
    with EpochProgress(asked.settings.epochs, asked.seeds) as progress:
        callbacks = [progress, *trackers, *([sums] if given.get("checksums") else [])]
        summary = asked.run(folder, resume=resume, callbacks=callbacks, **how)
    if ranks.rank() > 0:
        return None
    if asked.settings.class_weight == "balanced" and asked.settings.metric is None:
        note("classes have equal weights, but epochs are chosen by the metric of the graph: see --metric macro_f1")
    with console.status("baselines and assessment"):
        result = summary_finding(summary, folder, given.get("memory"), "no_baselines" not in given)
    if "refit" in given:
        with console.status("training on all labels"):
            done = refit(hf.open_run(folder), resume, **how)
        result = replace(result, words=f"{result.words} {done}", facts={**result.facts, "refit": done})
    if given.get("checksums"):
        result.payload["batches"] = sums.found
    batches = [f"batches of seed {seed}: {text}" for seed, text in sums.found.items()]
    shown = p.make_answer(result, folder, *batches, f"records: {folder}")
    tables = [markdown(table) for table in result.tables if table.title.startswith(("Metrics", "By class"))]
    write_card(folder, result.words, tables)  # without the table of mistakes, which has ids of nodes
    again = f"handful compare {quote(asked.graph)}" + (f" --split {quote(given['split'])}" if "split" in given else "")
    then = [
        "next:",
        f"  handful predict {quote(str(folder))} --out predictions.csv   predictions for the nodes",
        f"  {again}   compare all samplers",
        f"  handful report {quote(str(folder.parent))}   make one page for all runs in a folder",
    ]
    short = [table for table in (*result.tables, *result.below) if len(table.rows) <= 10]
    return shown._replace(tables=short, lines=[*shown.lines, *then])


# -- plans --------------------------------------------------------------------------------------------------------


@p.command("split", "root", *p.OF_MODEL, "parts", "set", "memory", "threads")
def plan(
    given: p.Given,
    graph: p.Graph,
    processes: Annotated[int, typer.Option(help="Number of processes that train together, such as 2.", min=1)] = 1,
    timed: Annotated[bool, typer.Option(help="Measure speeds on this machine, which takes a few seconds.")] = True,
) -> Answer:
    """Estimate memory, disk, network traffic and time of training, from the size of the graph and a short calibration.

    The command does not load the graph, and the graph need not exist. For example, this graph has the size of
    ogbn-papers100M: `synthetic?nodes=111000000&degree=14.4&features=128&half=true&train=0.011`
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
    """Make the tables of a plan: the graph, the costs with the requested m, and the memory for each m."""
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
        rows["sent per epoch"] = f"{size(plan.sent_replicated)} by each rank if every rank has the whole graph, "
        rows["sent per epoch"] += f"{size(plan.sent_sharded)} if each has a shard"
    by_m = []
    for part in plan.parts:
        sizes = (plan.ram(part), part.budget(shape, plan.base), part.step_bytes)
        by_m.append((str(part.m), *map(size, sizes), plan.fits(part)))
    head = ("m", "graph in memory", "least --memory", "a step", "fits")
    return [text_table(f"Plan for {shape.name}", ["", ""], rows.items()), text_table("Memory by m", head, by_m)]


def describe_fit(plan: Plan) -> str:
    """A sentence that says whether the requested m fits, and names the smallest m that fits."""
    where = f"a budget of {size(plan.memory)}" if plan.memory else f"the {size(plan.available)} that are free"
    words = {"no": "does not fit into", "with --memory": "fits, out of core with --memory, into"}
    smallest = "none of those below" if plan.smallest is None else plan.smallest
    verdict = words.get(plan.fits(plan.chosen), "fits into")
    return f"m = {plan.m} {verdict} {where}; the smallest m that fits is {smallest}."


def format_duration(seconds: float) -> str:
    """Format a duration as text.

    >>> format_duration(0.0312), format_duration(75), format_duration(9000)
    ('0.031 s', '75 s', '2.5 h')
    """
    if seconds < 600:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
