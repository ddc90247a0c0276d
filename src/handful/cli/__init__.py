"""The ``handful`` command line."""

from __future__ import annotations

import sys
from importlib import import_module

from handful.cli.app import app, console

COMMANDS = ("bench_loader", "compare", "train")


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2, never a traceback."""
    for name in COMMANDS:
        import_module(f"handful.cli.{name}")
    from handful.errors import HandfulError

    try:
        app()
    except HandfulError as error:
        console.print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("interrupted")
        sys.exit(130)


def _escaped(text: str) -> str:
    return text.replace("\n", " ").replace("[", "\\[")
