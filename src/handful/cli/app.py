"""The base of the ``handful`` command: the app, the result of a command (``Answer``), and functions that print it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from handful.files import plain
from handful.finding import Table
from handful.settings import SETTING_NAMES, TableOptions
from handful.version import __version__

RENAMED = {"devices": "device", "option": "set", "sampler-option": "set", "model-option": "set"}
"""Old names of options, and the current name of each. Old names still work."""

ARGUMENT = re.compile(rf"\b({'|'.join((*TableOptions.__dataclass_fields__, *SETTING_NAMES))})=(?:True|'(.*?)')")
"""An argument in a message of the library, such as ``unknown='skip'``."""

TABLES: dict[str, Any] = tomllib.loads((files("handful.cli") / "tables.toml").read_text(encoding="utf-8"))
GROUPS = {name: group for group, names in TABLES["groups"].items() for name in names}
"""The group under which `handful --help` lists each command."""

NAMES = {"help_option_names": ["-h", "--help"], "token_normalize_func": lambda name: RENAMED.get(name, name)}
app = typer.Typer(name="handful", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=NAMES)


def _version(asked: bool) -> None:
    if asked:
        print(f"handful {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="The version.", callback=_version, is_eager=True)]


@app.callback()
def handful(version: Version = False) -> None:
    """Train graph neural networks a handful of nodes at a time."""


bench = typer.Typer(help="Compare the speed of handful and PyG in one process, as ratios.", no_args_is_help=True)
app.add_typer(bench, name="bench", rich_help_panel="Compare and study")


console = Console(stderr=True, highlight=False, markup=False)
"""Progress and messages go to stderr, so that stdout contains only the result. Brackets in a user's text are not
markup.
"""
out = Console(highlight=False, markup=False)
"""The console for the tables and lines of a result. ``emit`` does not use it for JSON."""

records: list[Path] = []
"""The output folders of the running command. If the command is interrupted, the message names the last of these
folders.
"""


class Answer(NamedTuple):
    """The result of a command: one JSON object, the tables and lines to print, and the exit code."""

    payload: Mapping[str, Any]
    tables: Sequence[Table] = ()
    lines: Sequence[str] = ()
    code: int = 0


def emit(answer: Answer, as_json: bool) -> None:
    """Print an answer as JSON, or as tables and lines. NaN and infinity become null, since JSON has no such numbers."""
    from handful.report.tables import rich_table

    if as_json:
        print(json.dumps(plain(dict(answer.payload)), ensure_ascii=False, indent=2), flush=True)
        return
    for table in answer.tables:
        out.print(rich_table(table))
    for line in answer.lines:
        out.print(line, soft_wrap=True)


def name_flags(text: str) -> str:
    """Replace the arguments in a message of the library by flags.

    >>> name_flags("give unknown='skip', or leave out strict=True")
    'give --unknown skip, or leave out --strict'
    """
    return ARGUMENT.sub(lambda one: f"--{one[1].replace('_', '-')} {quote(one[2]) if one[2] else ''}".rstrip(), text)


def note(text: str) -> None:
    """Print a note to the user that is not an error."""
    console.print(name_flags(text), soft_wrap=True)
