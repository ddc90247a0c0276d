"""The ``handful`` command line."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from contextlib import suppress
from errno import ENOSPC
from typing import NoReturn

import typer
from rich.text import Text

# Each of these files registers its commands. None of them imports torch.
from handful.cli import bench, graphs, lists, predict, study, train  # noqa: F401
from handful.cli.app import app, console, name_flags, records
from handful.errors import HandfulError, ToldElsewhere
from handful.settings import TableOptions
from handful.signals import terminate
from handful.version import __version__


def main() -> None:
    """Run the command. After a user's mistake, print one line on stderr, without a traceback, and exit with code 2.

    SIGINT ends the command with exit code 130, and SIGTERM ends it with exit code 143. Open files are saved first.
    After a bug in handful, the command prints one line, writes a file with the details, and exits with code 70.
    """
    gc.set_threshold(100_000)  # garbage collection over the objects of torch and numba takes a third of a second
    # With several ranks, only the first one prints notes.
    warnings.showwarning = lambda message, *_, **__: None if console.quiet else _say("note:", str(message), "bold")
    with suppress(ValueError):  # not on the main thread
        signal.signal(signal.SIGTERM, terminate)
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1" and sys.argv[1:2] != ["train"]:
        _fail("only `handful train` runs in several processes: start this command without torchrun")
    try:
        sys.exit(app(prog_name="handful", standalone_mode=False) or 0)
    except typer.TyperException as error:
        if error.format_message():  # without a command, the help is shown already
            _fail(_usage(error))
        sys.exit(2)
    except ToldElsewhere:
        time.sleep(1)  # a launcher ends all ranks after one: the rank that failed needs time to print its error
        sys.exit(2)
    except HandfulError as error:
        _fail(str(error))
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        what_next = "make room there" if error.errno == ENOSPC else "use another place"
        _fail(f"{error.strerror or error}{place}: {what_next}")
    except KeyboardInterrupt:
        _stopped(130)
    except SystemExit as end:
        if end.code in (130, 143):
            _stopped(int(end.code))
        raise
    except Exception as error:
        torch_says = ("not enough memory", "can't allocate memory")  # torch has no class for this error
        if isinstance(error, MemoryError) or any(words in str(error) for words in torch_says):
            _fail(f"there is not enough memory ({error}): use a smaller graph or model, or more parts")
        _confess(error)


def _fail(words: str) -> NoReturn:
    _say("error:", words)
    sys.exit(2)


def _stopped(code: int) -> NoReturn:
    """Print the command that continues the run, and exit."""
    if console.quiet:  # another rank prints it
        sys.exit(code)
    again = "; the same command continues" if sys.argv[1:2] in (["study"], ["parts"], ["tune"]) else ""
    if records:
        given = sys.argv[1:]
        given += [] if any(word.partition("=")[0] == "--out" for word in given) else ["--out", str(records[-1])]
        given += ["--resume"] if given[0] == "train" and "--resume" not in given else []
        again = f"; continue with: {shlex.join(['handful', *given])}"
    console.print(f"stopped by {'SIGINT' if code == 130 else 'SIGTERM'}{again}", soft_wrap=True)
    sys.exit(code)


def _confess(error: Exception) -> NoReturn:
    """Print a line about a bug in handful, and write the details to a file."""
    with tempfile.NamedTemporaryFile("w", prefix="handful-bug-", suffix=".txt", delete=False, encoding="utf-8") as file:
        file.write(f"handful {__version__}: {shlex.join(sys.argv[1:])}\n{traceback.format_exc()}")
    what = f"{type(error).__name__}: {error} is a bug in handful {__version__}, not your mistake."
    _say("bug:", f"{what} Please open an issue of the project (see CONTRIBUTING.md) with the text of {file.name}")
    sys.exit(70)


def _usage(error: typer.TyperException) -> str:
    """The message for an invalid command line, in one line: what is wrong, and what to do next."""
    name = getattr(error, "option_name", "").lstrip("-")
    if hasattr(error, "possibilities") and name.replace("-", "_") in TableOptions.__dataclass_fields__:
        return f"there is no such option --{name} here: it belongs to `handful import`, which saves tables as a graph"
    if near := getattr(error, "possibilities", None):
        return f"{error.message}: did you mean {' or '.join(near)}?"
    said, place = error.format_message().rstrip("."), getattr(error, "ctx", None)
    return said if place is None or said.endswith("?") else f"{said}: see {place.command_path} -h"


def _say(kind: str, words: str, style: str = "bold red") -> None:
    """Print one line. A rank other than 0 prints its rank first."""
    console.quiet = False
    who = f"rank {rank}: " if (rank := os.environ.get("RANK", "0")) != "0" else ""
    console.print(Text.assemble((who + kind, style), " ", name_flags(words).replace("\n", " ")), soft_wrap=True)
