"""``handful train``: one configuration over the seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from handful.cli.app import (
    PAPER_SEEDS,
    DeviceOption,
    EpochsOption,
    GraphArgument,
    JsonOption,
    LrOption,
    ModelOption,
    OptimizerOption,
    RootOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    WeightDecayOption,
    app,
    emit_json,
    integers,
    out,
)

if TYPE_CHECKING:
    from handful.training.fit import Run


@app.command()
def train(
    graph: GraphArgument,
    split: SplitOption = None,
    root: RootOption = None,
    model: ModelOption = "sage",
    hidden: Annotated[int | None, typer.Option(help="Width of the layers (else the model's own default).")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers (else the model's own default).")] = None,
    norm: Annotated[str | None, typer.Option(help="bn, ln or none (else bn, where the model has a choice).")] = None,
    residual: Annotated[
        bool | None, typer.Option(help="Add each layer's input to its output (on, where the model has a choice).")
    ] = None,
    input_projection: Annotated[bool | None, typer.Option(help="A Linear before the first layer (else none).")] = None,
    output_projection: Annotated[bool | None, typer.Option(help="A Linear after the last layer (else none).")] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of activations dropped in training.")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads (gat, sgformer).")] = None,
    model_option: Annotated[
        list[str] | None, typer.Option("--model-option", help="Any option of the model, as name=value.")
    ] = None,
    sampler: Annotated[
        str, typer.Option(help="Where batches come from: rns, full, neighbor, cluster, saint, ladies.")
    ] = "rns",
    parts: Annotated[
        str | None, typer.Option(help="m, the number of parts of rns; auto tries some first, as `handful parts` does.")
    ] = None,
    sampler_option: Annotated[
        list[str] | None, typer.Option("--sampler-option", "-s", help="Any option of the sampler, as name=value.")
    ] = None,
    epochs: EpochsOption = 100,
    lr: LrOption = 1e-3,
    weight_decay: WeightDecayOption = 0.0,
    optimizer: OptimizerOption = "adam",
    momentum: Annotated[float, typer.Option(help="Momentum of sgdm.")] = 0.9,
    update: Annotated[str, typer.Option(help="One optimiser step a batch (step) or an epoch (epoch).")] = "step",
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    evaluate_every: Annotated[int, typer.Option(help="Epochs between evaluations.", min=1)] = 1,
    evaluation: Annotated[str, typer.Option(help="exact (full graph) or sampled (neighbor's own way).")] = "exact",
    patience: Annotated[int | None, typer.Option(help="Stop after this many evaluations without progress.")] = None,
    trim: Annotated[
        bool, typer.Option(help="Compute only the nodes that a batch's loss can see (not with bn).")
    ] = True,
    seeds: SeedsOption = PAPER_SEEDS,
    device: DeviceOption = "cpu",
    devices: Annotated[
        str | None, typer.Option(help="Spread the layers over these devices, such as cuda:0,cuda:1, instead.")
    ] = None,
    checkpoint_activations: Annotated[
        bool, typer.Option("--checkpoint-activations", help="Less memory: run layers again in the backward pass.")
    ] = False,
    threads: ThreadsOption = None,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for the records (else a new one under runs/).")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the runs in --out.")] = False,
    tracker: Annotated[
        list[str] | None,
        typer.Option(help="Also tell tensorboard, wandb (offline) or mlflow, into --out; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a node classifier; mean ± 95% CI over the seeds, at the best validation epoch of each."""
    from handful.cli.options import parse_options, run_folder
    from handful.cli.progress import EpochProgress
    from handful.errors import HandfulError
    from handful.nn import model_options
    from handful.samplers import make_sampler
    from handful.training.protocol import train_seeds
    from handful.training.trackers import make_tracker

    if resume and out_dir is None:
        raise HandfulError("--resume needs --out, the folder of the runs to go on with")
    options = parse_options(sampler_option or [])
    if parts not in (None, "auto"):
        options["parts"] = integers(parts, "--parts")[0]
    make_sampler(sampler, **options)
    given = {
        "hidden": hidden,
        "layers": layers,
        "norm": norm,
        "residual": residual,
        "input_projection": input_projection,
        "output_projection": output_projection,
        "dropout": dropout,
        "heads": heads,
        **parse_options(model_option or []),
    }
    architecture = {name: value for name, value in given.items() if value is not None}
    if "residual" in model_options(model):
        architecture.setdefault("residual", True)
    settings: dict[str, Any] = {
        "epochs": epochs,
        "lr": lr,
        "weight_decay": weight_decay,
        "optimizer": optimizer,
        "momentum": momentum,
        "update": update,
        "precision": precision,
        "evaluate_every": evaluate_every,
        "evaluation": evaluation,
        "patience": patience,
        "trim": trim,
        "devices": [] if devices is None else devices.split(","),
        "checkpoint_activations": checkpoint_activations,
    }
    seed_list = integers(seeds, "--seeds")
    folder = run_folder(out_dir, f"{graph}-{model}-{sampler}")
    trackers = [make_tracker(name, folder / name) for name in tracker or []]
    if parts == "auto":
        from handful.cli.parts import auto_parts
        from handful.studies.jobs import Job

        some = tuple(seed_list[:3])
        template = Job("rns", graph, sampler, options, model, architecture, settings, some, split, root, device)
        options["parts"] = auto_parts(template, folder / "parts")
    with EpochProgress(epochs, len(seed_list)) as progress:
        summary = train_seeds(
            graph,
            model,
            architecture,
            make_sampler(sampler, **options),
            settings,
            seeds=seed_list,
            split=split,
            root=root,
            device=device,
            out=folder,
            resume=resume,
            callbacks=[progress, *trackers],
        )
    if as_json:
        emit_json(summary.to_json())
    else:
        show(summary.runs, summary.to_json(), folder)


def show(runs: list[Run], summary: dict[str, Any], folder: Path) -> None:
    """The result for people."""
    table = Table(title=f"{summary['graph']} · {summary['model']} · {summary['sampler']}", title_justify="left")
    for column in ("seed", "val", "test", "best epoch", "epochs", "steps", "seconds", "peak RAM"):
        table.add_column(column, justify="right")
    for run in runs:
        table.add_row(
            str(run.seed),
            f"{100 * run.val:.2f}",
            f"{100 * run.test:.2f}",
            str(run.best_epoch),
            str(run.epochs),
            str(run.steps),
            f"{run.seconds:.1f}",
            f"{run.peak_ram_bytes / 2**30:.2f} GiB",
        )
    out.print(table)
    test, val = summary["test"], summary["val"]
    interval = f" ± {100 * test['ci95']:.2f}" if len(runs) > 1 else ""
    out.print(
        f"test {summary['metric']} [bold]{100 * test['mean']:.2f}{interval} %[/]  (val {100 * val['mean']:.2f} %)"
    )
    skipped = sum(run.skipped for run in runs)
    if skipped:
        out.print(f"{skipped} batches had no training node and made no step")
    out.print(f"records: {folder}")
