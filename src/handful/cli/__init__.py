"""The ``handful`` command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import typer

from handful.cli.app import app, console

SHARED = {"app", "options", "params", "progress"}
"""Every other file beside this one is a command, and adds itself when imported."""


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2, never a traceback."""
    for module in iter_modules(__path__):
        if module.name not in SHARED:
            import_module(f"handful.cli.{module.name}")
    from handful.errors import HandfulError

    try:
        sys.exit(app(prog_name="handful", standalone_mode=False) or 0)
    except typer.TyperException as error:
        if error.format_message():  # without a command there is only the help, which is shown by now
            console.print(f"[bold red]error:[/] {_escaped(_usage(error))}", soft_wrap=True)
        sys.exit(2)
    except HandfulError as error:
        console.print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True)
        sys.exit(2)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        console.print(f"[bold red]error:[/] {_escaped(f'{error.strerror or error}{place}: use another place')}")
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("interrupted")
        sys.exit(130)


def _usage(error: typer.TyperException) -> str:
    """A command line that cannot be read, in one line: what is wrong, and what to do next."""
    near = getattr(error, "possibilities", None)
    if near:
        return f"{error.message}: did you mean {' or '.join(near)}?"
    said, place = error.format_message().rstrip("."), getattr(error, "ctx", None)
    return said if place is None or said.endswith("?") else f"{said}: see {place.command_path} -h"


def _escaped(text: str) -> str:
    return text.replace("\n", " ").replace("[", "\\[")
