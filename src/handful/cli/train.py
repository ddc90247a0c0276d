"""``handful train``: one experiment over its seeds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, get_args

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit, given, integer
from handful.settings import GraphOn


@app.command()
def train(
    ctx: typer.Context,
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    model: p.Model = None,
    hidden: p.Hidden = None,
    layers: p.Layers = None,
    norm: p.Norm = None,
    residual: p.Residual = None,
    input_projection: Annotated[bool | None, typer.Option(help="A Linear before the first layer (else none).")] = None,
    output_projection: Annotated[bool | None, typer.Option(help="A Linear after the last layer (else none).")] = None,
    dropout: p.Dropout = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads (gat, sgformer).")] = None,
    model_option: Annotated[
        list[str] | None, typer.Option("--model-option", help="Any option of the model, as name=value.")
    ] = None,
    sampler: p.Sampler = "rns",
    parts: Annotated[
        str | None,
        typer.Option(
            help="m, the number of parts of rns; auto tries some first, as `handful parts` does, or takes the smallest "
            "that fits into --memory, by `handful plan`."
        ),
    ] = None,
    hubs: Annotated[
        str | None,
        typer.Option(
            help="Nodes of large in-degree that every part of rns holds as helpers. The largest: a share (0.05), a "
            "number (6), degree>=100. Drawn by degree for every epoch: drawn=0.25, or auto."
        ),
    ] = None,
    sampler_option: Annotated[
        list[str] | None, typer.Option("--sampler-option", "-s", help="Any option of the sampler, as name=value.")
    ] = None,
    epochs: p.Epochs = None,
    lr: p.Lr = None,
    weight_decay: p.WeightDecay = None,
    optimizer: p.Optimizer = None,
    momentum: Annotated[
        float | None, typer.Option(help=f"Momentum of sgdm (else {p.DEFAULT.momentum}).", callback=p.setting)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help=f"The learning rate from epoch to epoch: {p.choices('scheduler')}.", callback=p.setting),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="The largest norm of a step's gradient (else no limit).", callback=p.setting)
    ] = None,
    class_weight: p.ClassWeight = None,
    task: p.Task = None,
    metric: p.Metric = None,
    positive: p.Positive = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="f1: take a node for the positive class from the probability with the best validation F1 on.",
            callback=p.setting,
        ),
    ] = None,
    update: Annotated[
        str | None, typer.Option(help="One optimiser step per batch (step) or epoch (epoch).", callback=p.setting)
    ] = None,
    parts_per_step: Annotated[
        int | None,
        typer.Option(
            help="How many parts a step takes: along the mean of their gradients (else 1). Processes share them.",
            callback=p.setting,
        ),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help=f"{p.choices('precision')} (else {p.DEFAULT.precision}).", callback=p.setting)
    ] = None,
    evaluate_every: Annotated[
        int, typer.Option(help="Epochs between evaluations.", callback=p.setting)
    ] = p.DEFAULT.evaluate_every,
    evaluation: Annotated[
        str | None, typer.Option(help="exact (full graph) or sampled (drawn neighbourhoods).", callback=p.setting)
    ] = None,
    evaluation_fanout: Annotated[
        str | None,
        typer.Option(
            help="Edges that a node keeps in sampled evaluation, hop by hop, such as 15,10,5; -1 for all.",
            callback=p.setting,
        ),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after this many evaluations without progress.", callback=p.setting)
    ] = None,
    trim: Annotated[
        bool | None, typer.Option(help="Compute only the nodes that a batch's loss can see (not with bn).")
    ] = None,
    seeds: p.Seeds = None,
    device: p.Device = None,
    devices: Annotated[
        str | None, typer.Option(help="Spread the layers over these devices, such as cuda:0,cuda:1, instead.")
    ] = None,
    graph_on: Annotated[
        str | None,
        typer.Option(
            help="Where the graph is: device, host (batches are made by the CPU and sent over) or auto, by what fits "
            "(else auto).",
            callback=p.known("place for the graph", get_args(GraphOn)),
        ),
    ] = None,
    checkpoint_activations: Annotated[
        bool, typer.Option("--checkpoint-activations", help="Less memory: run layers again in the backward pass.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(help="Train in so many processes on this machine; torchrun starts them on several.", min=1),
    ] = None,
    threads: p.Threads = None,
    memory: p.Memory = None,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for the records (else a new one under runs/).")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the runs in --out.")] = False,
    tracker: Annotated[
        list[str] | None,
        typer.Option(help="Also tell tensorboard, wandb (offline) or mlflow, into --out; repeatable."),
    ] = None,
    checksums: Annotated[
        bool, typer.Option("--checksums", help="Also tell a checksum of all batches, to compare runs by.")
    ] = False,
    as_json: p.Json = False,
) -> None:
    """Train on the labels of nodes; mean ± 95% CI over the seeds, at the best validation epoch of each."""
    from handful import ranks
    from handful.budget import as_bytes
    from handful.cli.options import experiment, parse_options, parse_value, publish, run_folder, with_split
    from handful.cli.progress import Bar, EpochProgress
    from handful.errors import HandfulError
    from handful.plan import fitting_parts
    from handful.samplers import make_sampler
    from handful.studies.assessed import summary_finding, told_of_labels
    from handful.studies.parts import auto_parts
    from handful.training.callbacks import Callback, Checksums
    from handful.training.loop import Loop
    from handful.training.record import refuse_run
    from handful.training.trackers import make_tracker

    class Told(Callback):
        """Say once what the labels were taken for."""

        said = False

        def on_start(self, loop: Loop) -> None:
            words = told_of_labels(loop.graph)
            if words and not self.said:
                console.print(words, soft_wrap=True)
            self.said = True

    if device is not None and devices is not None:
        raise HandfulError("--device and --devices are two ways to say one thing: give one of them")
    if resume and out_dir is None:
        raise HandfulError("--resume needs --out, the folder of the runs to go on with")
    options = parse_options(sampler_option or [])
    if parts not in (None, "auto"):
        options["parts"] = integer(parts, "--parts")
    if hubs is not None:
        options["hubs"] = parse_value(hubs)
    asked = experiment(
        ctx.params,
        options=parse_options(model_option or []),
        sampler=make_sampler(sampler, **options),
        device=devices or device,
    )
    several = ranks.launched() > 1 or (processes or 1) > 1
    if several and parts == "auto":
        raise HandfulError("--parts auto tries some m, each in a process of its own: run `handful parts` first")
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0" and out_dir is None:
        raise HandfulError("torchrun --max-restarts needs --out: a restart goes on with the runs there")
    ctx.with_resource(ranks.joined(asked.device, threads))
    leading, resume = ranks.rank() == 0, resume or ranks.restarted()
    console.quiet = not leading
    with ranks.agreed():
        asked = with_split(asked)
        folder = run_folder(out_dir, f"{graph}-{asked.model}-{sampler}")
        if leading and not resume:
            refuse_run(folder)
        trackers = [make_tracker(name, folder / name) for name in tracker or [] if leading]
    if (processes or 1) > ranks.size():
        console.quiet = True  # from here on the ranks say what there is to say
        ranks.start(int(processes or 1), ["-m", "handful", *own_words(sys.argv[1:], folder)])
        return
    if parts == "auto" and memory is not None:
        asked = fitting_parts(asked, as_bytes(memory))
        console.print(
            f"taking m = {asked.sampler.options()['parts']}, the smallest that fits into {memory} by the plan"
        )
    elif parts == "auto":
        with Bar("epochs") as trying:
            asked, tried = auto_parts(asked, folder / "parts", trying.job)
        console.print(f"taking m = {asked.sampler.options()['parts']}, of {', '.join(map(str, tried))}")
    sums = Checksums()
    with EpochProgress(asked.settings.epochs, asked.seeds) as progress:
        told = [Told(), progress, *trackers, *([sums] if checksums else [])]
        summary = asked.run(folder, resume=resume, callbacks=told, memory=memory, **given(graph_on=graph_on))
    if not leading:
        return
    found = summary_finding(summary, folder, memory)
    if checksums:
        found.payload["batches"] = sums.found
    page = publish(found, folder)
    short = [table for i, table in enumerate(found.tables) if i == 0 or len(table.rows) <= 10]
    what = (
        "the numbers of the nodes"
        if found.payload.get("assessment", {}).get("kind") == "regression"
        else "classes and probabilities of the nodes"
    )
    again = f"handful compare {quote(graph)}" + (f" --split {quote(split)}" if split else "")
    emit(
        found.payload,
        as_json,
        short,
        found.words,
        *(f"batches of seed {seed}: {text}" for seed, text in sums.found.items()),
        f"records: {folder}",
        f"report: {page.path}",
        "next:",
        f"  handful predict {quote(str(folder))} --out predictions.csv   {what}",
        f"  {again}   the same by every other sampler",
        f"  handful report {quote(str(folder.parent))}   one page for all runs beside this one",
    )


def own_words(words: list[str], folder: Path) -> list[str]:
    """The command line of one of several processes: without ``--processes``, and with the folder of all.

    >>> own_words(["train", "debian", "--processes", "2", "--epochs=3"], Path("runs/a"))
    ['train', 'debian', '--epochs=3', '--out', 'runs/a']
    """
    own, rest = [], iter(words)
    for word in rest:
        if word == "--processes":
            next(rest)
        elif not word.startswith("--processes="):
            own.append(word)
    return own if any(word.partition("=")[0] == "--out" for word in own) else [*own, "--out", str(folder)]
