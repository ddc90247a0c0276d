"""The frame of the ``handful`` command: the app, what a command answers, and where it is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from handful.files import plain
from handful.finding import Table
from handful.version import __version__

RENAMED = {"devices": "device", "option": "set", "sampler-option": "set", "model-option": "set"}
"""Options by their earlier names, which still work."""

NAMES = {"help_option_names": ["-h", "--help"], "token_normalize_func": lambda name: RENAMED.get(name, name)}
app = typer.Typer(name="handful", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=NAMES)


def _version(asked: bool) -> None:
    if asked:
        print(f"handful {__version__}")
        raise typer.Exit


@app.callback()
def handful(
    version: Annotated[bool, typer.Option("--version", help="Show it.", callback=_version, is_eager=True)] = False,
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


class Answer(NamedTuple):
    """What a command found: one JSON object, or tables and lines for people; and its exit code."""

    payload: Mapping[str, Any]
    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()
    code: int = 0


def emit(answer: Answer, as_json: bool) -> None:
    """Print an answer as JSON, or for people. NaN and infinity become null, since JSON has neither."""
    from handful.report.tables import rich_table

    if as_json:
        print(json.dumps(plain(dict(answer.payload)), ensure_ascii=False, indent=2), flush=True)
        return
    for table in answer.tables:
        out.print(rich_table(table))
    for line in answer.lines:
        out.print(line, soft_wrap=True)


def note(text: str) -> None:
    """Tell the user what should be known and is no mistake."""
    console.print(text, soft_wrap=True)
