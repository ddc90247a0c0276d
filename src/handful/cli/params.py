"""The parameters that commands share, as types: ``split: p.Split = None``.

A parameter that is not given has the default of the experiment, the model or the settings that it is for.
"""

from __future__ import annotations

import os
from typing import Annotated, get_args, get_type_hints

import typer

from handful.settings import Settings
from handful.vocabulary import PAPER_SEEDS

DEFAULT = Settings()


def _use_threads(threads: int | None) -> int | None:
    if threads is not None:
        from handful.errors import HandfulError
        from handful.kernels.threads import set_threads

        most = 8 * (os.cpu_count() or 1)  # OpenMP ends the process where the system gives it no more
        if threads > most:
            raise HandfulError(f"--threads {threads} is too many for this machine: give at most {most}")
        set_threads(threads)
    return threads


def choices(setting: str) -> str:
    """The values that a setting takes, as a sentence has them."""
    *others, last = get_args(get_type_hints(Settings)[setting])
    return f"{', '.join(others)} or {last}"


GRAPH_HELP = "A dataset name (see `handful datasets`), a .npz file, a folder of CSV/Parquet, or a saved graph."
Graph = Annotated[str, typer.Argument(metavar="GRAPH", help=GRAPH_HELP, show_default=False)]
Split = Annotated[str | None, typer.Option(help="Which split of the graph, where it has several.")]
Root = Annotated[str | None, typer.Option(help="Where data sets are kept (else $HANDFUL_HOME, else the user's cache).")]
Seeds = Annotated[
    str | None, typer.Option(help=f"Seeds, separated by commas (else the paper's: {', '.join(map(str, PAPER_SEEDS))}).")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, … (else cpu).")]
Threads = Annotated[int | None, typer.Option(help="CPU threads for kernels and torch.", min=1, callback=_use_threads)]
Model = Annotated[str | None, typer.Option(help="gcn, sage, gat, sgformer or graphland-sage (else sage).")]
Hidden = Annotated[int | None, typer.Option(help="Width of the layers (else the model's own default).")]
Layers = Annotated[int | None, typer.Option(help="Number of layers (else the model's own default).")]
Norm = Annotated[str | None, typer.Option(help="bn, ln or none (else bn, where the model has a choice).")]
Residual = Annotated[
    bool | None, typer.Option(help="Add a Linear of each layer's input to its output (else the model's own default).")
]
Dropout = Annotated[float | None, typer.Option(help="Share of activations dropped in training.")]
Epochs = Annotated[int | None, typer.Option(help=f"Passes over the batches (else {DEFAULT.epochs}).")]
Lr = Annotated[float | None, typer.Option(help=f"Learning rate (else {DEFAULT.lr}).")]
WeightDecay = Annotated[float | None, typer.Option(help=f"Weight decay (else {DEFAULT.weight_decay:g}).")]
Optimizer = Annotated[str | None, typer.Option(help=f"{choices('optimizer')} (else {DEFAULT.optimizer}).")]
TwentyEvaluations = Annotated[int | None, typer.Option(help="Epochs between evaluations (else 20 in all).")]
SamplerOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-s", help="An option of one sampler, as sampler.name=value (rns.parts=8)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
