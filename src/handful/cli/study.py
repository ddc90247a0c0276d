"""``handful study``: an experiment by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.app import (
    DeviceOption,
    JsonOption,
    RootOption,
    SplitOption,
    ThreadsOption,
    app,
    console,
    emit_json,
    integers,
    out,
)


@app.command()
def study(
    name: Annotated[str | None, typer.Argument(help="Which study; without a name, all are listed.")] = None,
    graph: Annotated[str | None, typer.Option(help="The graph to study, where a study takes one.")] = None,
    split: SplitOption = None,
    root: RootOption = None,
    budget: Annotated[str, typer.Option(help="How much to compute: smoke, laptop or paper.")] = "laptop",
    seeds: Annotated[str | None, typer.Option(help="Seeds, separated by commas (else as many as the budget).")] = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time; timings are fair only with 1.", min=1)] = 1,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out", help="Folder for runs, record, report and pictures (else one under runs/); what is done is kept."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """One of the experiments, as a table, a sentence and pictures; asked again, it goes on where it was."""
    from handful.cli.progress import progress_bar
    from handful.files import write_json, write_text
    from handful.report.page import write_report
    from handful.report.records import write_finding
    from handful.report.tables import Cell, markdown, rich_table
    from handful.studies import Request, run_study, study_folder, study_names
    from handful.theory.pictures import save

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

        wanted = tuple(integers(seeds, "--seeds")) if seeds else ()
        folder = Path(out_dir) if out_dir else study_folder(name, graph, budget)
        request = Request(graph, split, root, budget, wanted, device, folder, jobs, report)
        found = run_study(name, request)
    write_json(folder / f"{name}.json", found.payload)
    write_text(folder / "table.md", markdown(found.head, found.rows))
    for file, figure in found.pictures.items():
        save(figure, folder / file)
    asked = {"budget": budget, "seeds": request.seeds, "device": device, **found.payload.get("settings", {})}
    write_finding(folder, name, found.title, found.words, found.head, found.rows, asked)
    write_report(folder)
    if as_json:
        emit_json(found.payload)
    else:
        out.print(rich_table(found.title, found.head, found.rows))
        out.print(found.words, soft_wrap=True)
        out.print(
            f"in {folder}: {', '.join(['report.html', f'{name}.json', 'table.md', *found.pictures])}", soft_wrap=True
        )
    if found.failed:
        console.print(f"failed: {', '.join(found.failed)}; see the stderr.txt beside their records", soft_wrap=True)
        raise typer.Exit(1)
