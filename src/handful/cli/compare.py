"""``handful compare``: the paper's main table on any graph."""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit
from handful.vocabulary import METHODS

ALL = ",".join(METHODS)


@app.command()
def compare(
    ctx: typer.Context,
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    samplers: p.Samplers = ALL,
    option: p.SamplerOptions = None,
    model: p.Model = None,
    hidden: p.QuickHidden = None,
    layers: p.QuickLayers = None,
    norm: p.Norm = None,
    residual: p.Residual = None,
    dropout: p.Dropout = None,
    epochs: p.QuickEpochs = None,
    lr: p.QuickLr = None,
    weight_decay: p.WeightDecay = None,
    optimizer: p.Optimizer = None,
    class_weight: p.ClassWeight = None,
    task: p.Task = None,
    metric: p.Metric = None,
    positive: p.Positive = None,
    evaluate_every: p.TwentyEvaluations = None,
    seeds: p.Seeds = None,
    device: p.Device = None,
    threads: p.Threads = None,
    jobs: p.Jobs = None,
    executor: p.Executor = "local",
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder for records, table and picture; finished runs in it are kept.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """Full-graph training against every sampler: accuracy ± 95% CI, time and peak memory, each in its own process."""
    from handful.cli.options import experiment, publish, run_folder, sampler_options, with_split
    from handful.cli.progress import Bar
    from handful.studies.budget import QUICK
    from handful.studies.compare import chosen_samplers, compare_samplers, trainable
    from handful.studies.executors import make_executor

    asked = experiment(ctx.params, QUICK)
    names, options = sampler_options(samplers, option or [])
    depth = asked.options["layers"]
    chosen_samplers(names, options, depth)  # a mistake in them shows before anything is loaded
    asked = with_split(asked)
    chosen, left_out = trainable(asked, chosen_samplers(names, options, depth, asked.load(asked.seeds[0])))
    for why in left_out:
        console.print(f"left out: {why}", soft_wrap=True)
    folder = run_folder(out_dir, f"compare-{graph}")
    with Bar("epochs", asked.epochs * len(chosen)) as bar:
        found = compare_samplers(asked, chosen, folder, make_executor(executor, jobs), bar.job)
    page = publish(found, folder)
    files = {"report": page.path, "table": folder / "table.md"}
    if found.charts:
        files["picture"] = folder / "curves.svg"
    emit(found.payload, as_json, found.tables, found.words, *(f"{name}: {file}" for name, file in files.items()))
    if found.failed:
        console.print("some samplers failed; see the rows above and the stderr.txt beside their records")
        raise typer.Exit(1)
