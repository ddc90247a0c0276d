"""``handful report``: one page for all that is recorded in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.app import Answer, note
from handful.cli.params import command
from handful.errors import HandfulError
from handful.files import write_text


@command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a study, a comparison or a training wrote to.")],
    file: Annotated[Path | None, typer.Option("--out", help="The page (else report.html in DIR).")] = None,
) -> Answer:
    """One self-contained HTML page with the tables, charts and settings of every record in DIR and below it."""
    from handful.report.page import FINDING, read_findings, render
    from handful.studies.trained import loose_findings

    ask = "give the folder of a study, a comparison or a training"
    if not folder.is_dir():
        raise HandfulError(f"{folder} is not a folder: {ask}")
    findings, unreadable = read_findings(folder)
    loose, broken = loose_findings(folder, [place.parent for place in folder.rglob(FINDING)])
    unreadable |= {str(place.relative_to(folder)): why for place, why in broken.items()}
    if not (findings or loose):
        why = "; ".join(f"{place}: {reason}" for place, reason in unreadable.items())
        raise HandfulError(f"{folder} holds no record that can be read{f' ({why})' if why else ''}: {ask}")
    shown = [*findings, *loose]
    page = file or folder / "report.html"
    write_text(page, render(shown, f"{folder.resolve().name}: {len(shown)} findings", unreadable))
    counts = {"records": len(shown), "tables": sum(len(one.tables) for one in shown)}
    counts["charts"] = sum(len(one.charts) for one in shown)
    for place, why in unreadable.items():
        note(f"not readable: {place}: {why}")
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Answer({"path": str(page), **counts}, lines=[f"report: {page} ({told})"])
