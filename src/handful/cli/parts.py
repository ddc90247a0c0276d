"""``handful parts``: how many parts should this graph be dealt into?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, emit


@app.command()
def parts(
    ctx: typer.Context,
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    model: p.Model = None,
    hidden: p.QuickHidden = None,
    layers: p.QuickLayers = None,
    dropout: p.Dropout = None,
    epochs: p.QuickEpochs = None,
    lr: p.QuickLr = None,
    weight_decay: p.WeightDecay = None,
    class_weight: p.ClassWeight = None,
    task: p.Task = None,
    metric: p.Metric = None,
    positive: p.Positive = None,
    evaluate_every: p.TwentyEvaluations = None,
    most: Annotated[int, typer.Option(help="Never more parts than this.", min=2)] = 64,
    memory: Annotated[
        float | None, typer.Option(help="GiB that training may take at its peak (of the GPU, if it runs there).")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, separated by commas (else 42,123,456).")] = None,
    device: p.Device = None,
    threads: p.Threads = None,
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for the runs (else one under runs/); what is done is kept.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """Train with 2 parts, 1, 4, 8, … until validation is no longer better by more than noise; says which m to take."""
    from handful.cli.options import experiment, publish, with_split
    from handful.cli.progress import Bar
    from handful.settings import checked
    from handful.studies import study_folder
    from handful.studies.parts import BASE, chosen_parts

    asked = with_split(experiment(ctx.params, BASE))
    folder = Path(out_dir) if out_dir else study_folder("parts", graph, "auto")
    with Bar("epochs") as bar:
        limit = None if memory is None else round(checked("--memory", memory, float) * 2**30)
        found = chosen_parts(asked, folder, most, limit, bar.job)
    page = publish(found, folder)
    emit(found.payload, as_json, found.tables, found.words, f"runs: {folder}", f"report: {page.path}")
