"""The ``handful`` command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

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
        app()
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


def _escaped(text: str) -> str:
    return text.replace("\n", " ").replace("[", "\\[")
