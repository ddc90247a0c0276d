"""The frame of the ``handful`` command: the app, the options that commands share, output and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from handful.files import plain
from handful.version import __version__

if TYPE_CHECKING:
    from handful.finding import Table

app = typer.Typer(
    name="handful",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"handful {__version__}")
        raise typer.Exit


@app.callback()
def handful(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Train graph neural networks a handful of nodes at a time."""


bench = typer.Typer(help="Measure against PyG in the same process, as ratios.", no_args_is_help=True)
app.add_typer(bench, name="bench")

console = Console(stderr=True, highlight=False, markup=False)
"""Progress and messages go to stderr, so that stdout holds the result alone. A user's brackets are no markup."""
out = Console(highlight=False, markup=False)
"""The result, for people; with --json, ``emit_json`` writes it instead."""

records: list[Path] = []
"""Where the command that runs keeps its records: whoever breaks it off is told how to go on."""


def given(**options: Any) -> dict[str, Any]:
    """The options that were given: all others keep the default of what they are for."""
    return {name: value for name, value in options.items() if value is not None}


def emit_json(payload: Mapping[str, Any]) -> None:
    """Print ``payload`` as one JSON object; NaN and infinity become null, since JSON has neither."""
    print(json.dumps(plain(dict(payload)), ensure_ascii=False, indent=2), flush=True)


def emit(payload: Mapping[str, Any], as_json: bool, tables: Sequence[Table], *lines: str) -> None:
    """The result: as JSON, or as tables and lines for people."""
    from handful.report.tables import rich_table

    if as_json:
        emit_json(payload)
        return
    for table in tables:
        out.print(rich_table(table))
    for line in lines:
        out.print(line, soft_wrap=True)


def integer(text: str, option: str) -> int:
    """``"4"`` as an integer."""
    from handful.errors import HandfulError

    try:
        return int(text)
    except ValueError:
        raise HandfulError(f"{option} takes one whole number, such as 4; got '{text}'") from None


def integers(text: str, option: str) -> list[int]:
    """``"1,2,4"`` as a list of integers."""
    from handful.errors import HandfulError

    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise HandfulError(f"{option} takes whole numbers separated by commas, such as 1,2,4; got '{text}'")
    return values
