"""``handful tune``: the paper's tuning protocol on any graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, emit


@app.command()
def tune(
    ctx: typer.Context,
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    sampling: Annotated[
        list[str] | None,
        typer.Option(
            "--sampling",
            "-s",
            help="A sampler with the paper's search space (rns), or one configuration ('rns parts=4'); repeatable.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Trials of each sampling configuration.", min=1)] = 50,
    model: p.Model = None,
    hidden: p.Hidden = None,
    layers: p.Layers = None,
    epochs: p.Epochs = None,
    class_weight: p.ClassWeight = None,
    task: p.Task = None,
    metric: p.Metric = None,
    positive: p.Positive = None,
    evaluate_every: p.TwentyEvaluations = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Architecture and epochs of the paper for this data set.")
    ] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Stop trials that fall behind; off in the paper.")] = False,
    storage: Annotated[
        str | None, typer.Option(help="URL of any Optuna storage, which others may share (else tune.db in --out).")
    ] = None,
    final: Annotated[bool, typer.Option(help="Train the best of each sampler with all seeds at the end.")] = True,
    seeds: p.Seeds = None,
    device: p.Device = None,
    threads: p.Threads = None,
    jobs: p.Jobs = None,
    executor: p.Executor = "local",
    out_dir: Annotated[
        str | None, typer.Option("--out", help="Folder (else one under runs/); asked again, the search goes on there.")
    ] = None,
    as_json: p.Json = False,
) -> None:
    """Learning rate, dropout and weight decay by Bayesian trials, apart for every sampling configuration; then seeds.

    Several of these commands may share one --storage, also from other machines; give all but one --no-final.
    `optuna-dashboard` opens it.
    """
    from handful.cli.options import experiment, parse_options, publish, with_split
    from handful.cli.progress import Bar
    from handful.errors import HandfulError
    from handful.samplers import make_sampler
    from handful.studies import study_folder
    from handful.studies.executors import make_executor
    from handful.studies.tuning import paper_space, sampling_space, tune_samplers

    given = [name for name in ("model", "hidden", "layers") if ctx.params[name] is not None]
    if paper and given:
        raise HandfulError(f"--paper takes the paper's architecture: leave out --{given[0]}, or --paper")
    asked = with_split(experiment(ctx.params))
    space = []
    for text in sampling or ["rns"]:
        if not text.strip():
            raise HandfulError("--sampling takes a sampler, such as rns or 'rns parts=4'")
        name, *pairs = text.split()
        if paper:
            whole = [one.with_(epochs=epochs or one.settings.epochs) for one in paper_space(asked, name)]
            own = [one.with_(evaluate_every=evaluate_every or max(1, one.settings.epochs // 20)) for one in whole]
        else:
            own = [asked.with_(sampler=one) for one in sampling_space(name, asked.options["layers"])]
        if pairs:
            own = [own[0].with_(sampler=make_sampler(name, **parse_options(pairs)))]
        space += own
    folder = Path(out_dir) if out_dir else study_folder("tune", graph, "paper" if paper else asked.model)
    where = storage or f"sqlite:///{folder / 'tune.db'}"
    runs = None if executor == "local" and jobs in (None, 1) else make_executor(executor, jobs)
    with Bar("trials", trials * len(space)) as bar:
        found = tune_samplers(space, where, folder, trials, prune, final, bar.trial, bar.job, runs)
    page = publish(found, folder)
    emit(found.payload, as_json, found.tables, found.words, f"storage: {where}", f"report: {page.path}")
