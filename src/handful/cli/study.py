"""``handful study``: an experiment by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, console, emit, given, integers


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Which study; without a name, all are listed.")] = None,
    graph: Annotated[str | None, typer.Option(help="The graph to study, where a study takes one.")] = None,
    split: p.Split = None,
    root: p.Root = None,
    budget: Annotated[str, typer.Option(help="How much to compute: smoke, laptop or paper.")] = "laptop",
    seeds: Annotated[str | None, typer.Option(help="Seeds, separated by commas (else as many as the budget).")] = None,
    device: p.Device = None,
    threads: p.Threads = None,
    jobs: p.Jobs = None,
    executor: p.Executor = "local",
    tune_each: Annotated[
        int, typer.Option(help="Trials for every m or fanout of its own, before it is trained (parts, fanout).", min=0)
    ] = 0,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out", help="Folder for runs, record, report and pictures (else one under runs/); what is done is kept."
        ),
    ] = None,
    as_json: p.Json = False,
) -> None:
    """One of the experiments, as a table, a sentence and pictures; asked again, it goes on where it was."""
    from handful.cli.options import publish, with_split
    from handful.cli.progress import Bar
    from handful.experiment import Experiment
    from handful.finding import Cell, Table
    from handful.studies import Request, run_study, study_folder, study_names

    if name is None:
        known = study_names()
        rows = [[Cell(key), Cell(text)] for key, text in known.items()]
        listed = [{"name": key, "shows": text} for key, text in known.items()]
        emit({"studies": listed}, as_json, [Table("studies", ["name", "what it shows"], rows)])
        return
    folder = Path(out_dir) if out_dir else study_folder(name, graph, budget)
    if graph is not None and split is None:
        split = with_split(Experiment(graph, root=root)).split
    wanted = tuple(integers(seeds, "--seeds")) if seeds else ()
    with Bar("done", word=name) as bar:
        asked = given(graph=graph, split=split, root=root, device=device)
        request = Request(
            **asked,
            budget=budget,
            seeds=wanted,
            out=folder,
            jobs=jobs,
            executor=executor,
            tune_each=tune_each,
            report=bar.at,
        )
        found = run_study(name, request)
    page = publish(found, folder)
    emit(found.payload, as_json, found.tables, found.words, f"report: {page.path}")
    if found.failed:
        console.print(f"failed: {', '.join(found.failed)}; see the stderr.txt beside their records", soft_wrap=True)
        raise typer.Exit(1)
