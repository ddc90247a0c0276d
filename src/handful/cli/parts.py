"""``handful parts``: how many parts should this graph be dealt into?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli.app import (
    DeviceOption,
    DropoutOption,
    EpochsOption,
    GraphArgument,
    HiddenOption,
    JsonOption,
    LayersOption,
    LrOption,
    ModelOption,
    RootOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    TwentyEvaluationsOption,
    WeightDecayOption,
    app,
    console,
    emit_json,
    integers,
    out,
)

if TYPE_CHECKING:
    from handful.studies.jobs import Job
    from handful.studies.parts import Point


@app.command()
def parts(
    graph: GraphArgument,
    split: SplitOption = None,
    root: RootOption = None,
    model: ModelOption = "sage",
    hidden: HiddenOption = 128,
    layers: LayersOption = 3,
    dropout: DropoutOption = 0.5,
    epochs: EpochsOption = 60,
    lr: LrOption = 0.01,
    weight_decay: WeightDecayOption = 0.0,
    evaluate_every: TwentyEvaluationsOption = None,
    most: Annotated[int, typer.Option(help="Never more parts than this.", min=2)] = 64,
    memory: Annotated[
        float | None, typer.Option(help="GiB that training may take at its peak (of the GPU, if it runs there).")
    ] = None,
    seeds: SeedsOption = "42,123,456",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for the runs (else one under runs/); what is done is kept.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train with 2 parts, 1, 4, 8, … until validation is no longer better by more than noise; says which m to take."""
    from handful.nn import model_options
    from handful.studies import study_folder
    from handful.studies.jobs import Job

    wanted: dict[str, Any] = {"hidden": hidden, "layers": layers, "dropout": dropout}
    if "residual" in model_options(model):
        wanted["residual"] = True
    template = Job(
        name="rns",
        graph=graph,
        sampler="rns",
        model=model,
        architecture=wanted,
        settings={
            "epochs": epochs,
            "lr": lr,
            "weight_decay": weight_decay,
            "evaluate_every": evaluate_every or max(1, epochs // 20),
        },
        seeds=tuple(integers(seeds, "--seeds")),
        split=split,
        root=root,
        device=device,
    )
    folder = Path(out_dir) if out_dir else study_folder("parts", graph, "auto")
    chosen, curve = choose(template, folder, most, memory)
    if as_json:
        emit_json({"recommended": chosen, "curve": [point.to_json() for point in curve]})
    else:
        show(chosen, curve, template, folder)


def choose(template: Job, folder: Path, most: int = 64, memory: float | None = None) -> tuple[int | None, list[Point]]:
    """The m to take for the graph and model of ``template``, with a bar on stderr; see ``handful.studies.parts``."""
    from handful.cli.progress import progress_bar
    from handful.datasets import load
    from handful.nn import make_model
    from handful.studies.parts import measured, recommend

    data = load(template.graph, split=template.split, root=template.root).require_training()
    make_model(template.model, data.num_features, data.num_outputs, **template.architecture)
    most = min(most, data.num_nodes)
    del data
    with progress_bar("epochs") as bar:
        task = bar.add_task("m = 2", total=template.epochs)

        def progress(name: str, epochs: int, word: str) -> None:
            bar.update(task, completed=epochs, description=f"{name.replace('m-', 'm = ')}: {word}")

        limit = None if memory is None else round(memory * 2**30)
        return recommend(measured(template, folder, progress=progress), most, limit)


def auto_parts(template: Job, folder: Path) -> int:
    """The m that ``--parts auto`` takes, told on stderr."""
    from handful.errors import HandfulError

    if template.sampler != "rns":
        raise HandfulError(f"--parts auto is for the sampler rns: '{template.sampler}' deals no parts")
    chosen, curve = choose(template, folder)
    if chosen is None:
        raise HandfulError(f"--parts auto: no number of parts could be trained with: {curve[-1].error}")
    console.print(f"taking m = {chosen}, of {', '.join(str(point.m) for point in curve)}")
    return chosen


def show(chosen: int | None, curve: list[Point], template: Job, folder: Path) -> None:
    """The result for people."""
    from handful.report.tables import Cell, percent, rich_table
    from handful.statistics import mean_ci95

    rows = []
    for point in curve:
        if point.error is not None:
            rows.append([Cell(str(point.m)), Cell(f"broke off: {point.error}"), Cell(""), Cell("")])
            continue
        cells = [percent(mean_ci95(point.val)), f"{point.seconds:.1f}", f"{point.memory / 2**30:.2f}"]
        rows.append([Cell(str(point.m)), *(Cell(text, int(point.m == chosen)) for text in cells)])
    title = f"{template.graph} · {template.model} · {template.settings['epochs']} epochs · {len(template.seeds)} seeds"
    out.print(rich_table(title, ["m", "validation (%)", "seconds", "peak memory (GiB)"], rows))
    if chosen is None:
        out.print("None of these fits into the memory given: raise --most, or make the model smaller.")
    else:
        out.print(
            f"Take [bold]m = {chosen}[/]: more parts win nothing beyond the noise between seeds.",
            soft_wrap=True,
        )
    out.print(f"runs: {folder}")
