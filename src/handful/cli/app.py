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


def _use_threads(threads: int | None) -> int | None:
    if threads is not None:
        from handful.kernels.threads import set_threads

        set_threads(threads)
    return threads


GRAPH_HELP = "A dataset name (see `handful datasets`), a .npz file, a folder of CSV/Parquet, or a saved graph."
GraphArgument = Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP, show_default=False)]
SplitOption = Annotated[str | None, typer.Option(help="Which split of the graph, where it has several.")]
RootOption = Annotated[
    str | None, typer.Option(help="Where data sets are kept (else $HANDFUL_HOME, else the user's cache).")
]
SeedsOption = Annotated[str, typer.Option(help="Seeds, separated by commas.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")]
ThreadsOption = Annotated[
    int | None, typer.Option(help="CPU threads for kernels and torch.", min=1, callback=_use_threads)
]
ModelOption = Annotated[str, typer.Option(help="gcn, sage, gat, sgformer or graphland-sage.")]
HiddenOption = Annotated[int, typer.Option(help="Width of the layers.", min=1)]
LayersOption = Annotated[int, typer.Option(help="Number of layers.", min=1)]
NormOption = Annotated[str, typer.Option(help="bn, ln or none.")]
ResidualOption = Annotated[bool, typer.Option(help="Add a Linear of each layer's input to its output.")]
DropoutOption = Annotated[float, typer.Option(help="Share of activations dropped in training.")]
EpochsOption = Annotated[int, typer.Option(help="Passes over the batches.", min=1)]
LrOption = Annotated[float, typer.Option(help="Learning rate.")]
WeightDecayOption = Annotated[float, typer.Option(help="Weight decay.")]
OptimizerOption = Annotated[str, typer.Option(help="adam, adamw, sgd or sgdm.")]
TwentyEvaluationsOption = Annotated[int | None, typer.Option(help="Epochs between evaluations (else 20 in all).")]
SamplerOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-s", help="An option of one sampler, as sampler.name=value (rns.parts=8)."),
]
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
