"""``handful study``: an experiment by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.app import (
    DeviceOption,
    JsonOption,
    RootOption,
    SeedsOption,
    SplitOption,
    ThreadsOption,
    app,
    emit_json,
    integers,
    out,
    plain,
)


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Which study; without a name, all are listed.")] = None,
    graph: Annotated[str | None, typer.Option(help="The graph to study, where a study takes one.")] = None,
    split: SplitOption = None,
    root: RootOption = None,
    budget: Annotated[str, typer.Option(help="How much to compute: smoke, laptop or paper.")] = "laptop",
    seeds: SeedsOption = "42",
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    out_dir: Annotated[str | None, typer.Option("--out", help="Folder for the record and the pictures.")] = None,
    as_json: JsonOption = False,
) -> None:
    """One of the experiments, as a table, a sentence and pictures."""
    from handful.cli.progress import progress_bar
    from handful.files import write_json
    from handful.kernels.threads import set_threads
    from handful.report.tables import Cell, rich_table
    from handful.studies import Request, run_study, study_names

    if threads is not None:
        set_threads(threads)
    if name is None:
        known = study_names()
        if as_json:
            emit_json({"studies": [{"name": key, "shows": text} for key, text in known.items()]})
        else:
            out.print(rich_table("studies", ["name", "what it shows"], [[Cell(k), Cell(v)] for k, v in known.items()]))
        return
    with progress_bar("done") as bar:
        task = bar.add_task(name, total=None)

        def report(done: int, total: int, word: str) -> None:
            bar.update(task, completed=done, total=total, description=word)

        wanted = tuple(integers(seeds, "--seeds"))
        found = run_study(name, Request(graph, split, root, budget, wanted, device, report))
    if out_dir is not None:
        from handful.theory.pictures import save

        write_json(Path(out_dir) / f"{name}.json", plain(found.payload))
        for file, figure in found.pictures.items():
            save(figure, Path(out_dir) / file)
    if as_json:
        emit_json(found.payload)
        return
    out.print(rich_table(found.title, found.head, found.rows))
    out.print(found.words)
    if out_dir is not None:
        out.print(f"in {out_dir}: {', '.join([f'{name}.json', *found.pictures])}")
