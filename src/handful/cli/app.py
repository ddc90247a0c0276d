"""The frame of the ``handful`` command: the app, common options, output and errors. One file a command beside it."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console

from handful.files import plain

app = typer.Typer(
    name="handful",
    help="Train graph neural networks a handful of nodes at a time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(help="Measure against PyG in the same process, as ratios.", no_args_is_help=True)
app.add_typer(bench, name="bench")

console = Console(stderr=True, highlight=False)
"""Progress and messages go to stderr, so that stdout holds the result alone."""
out = Console(highlight=False)
"""The result, for people; with --json, ``emit_json`` writes it instead."""

GRAPH_HELP = "A dataset name (see `handful datasets`), a .npz file, a folder of CSV/Parquet, or a saved graph."
GraphArgument = Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP, show_default=False)]
SplitOption = Annotated[str | None, typer.Option(help="Which split of the graph, where it has several.")]
RootOption = Annotated[
    str | None, typer.Option(help="Where data sets are kept (else $HANDFUL_HOME, else the user's cache).")
]
SeedsOption = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")]
ThreadsOption = Annotated[int | None, typer.Option(help="CPU threads for kernels and torch.", min=1)]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]

PAPER_SEEDS = "42,123,456,789,101112"


def emit_json(payload: dict[str, Any]) -> None:
    """Print ``payload`` as one JSON object; NaN and infinity become null, since JSON has neither."""
    print(json.dumps(plain(payload), ensure_ascii=False, indent=2), flush=True)


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
