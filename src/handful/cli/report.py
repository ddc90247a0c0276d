"""``handful report``: one page for all that is recorded in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.app import JsonOption, app, emit_json, out


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a study, a comparison or a training wrote to.")],
    file: Annotated[Path | None, typer.Option("--out", help="The page (else report.html in DIR).")] = None,
    as_json: JsonOption = False,
) -> None:
    """One self-contained HTML page with the tables, charts and settings of every record in DIR and below it."""
    from handful.report.page import write_report

    written = write_report(folder, file)
    if as_json:
        emit_json({**vars(written), "path": str(written.path)})
    else:
        out.print(
            f"report: {written.path} ({written.records} records, {written.tables} tables, {written.charts} charts)",
            soft_wrap=True,
        )
