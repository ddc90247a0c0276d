"""The parameters that commands share, as types: ``split: p.Split = None``.

A parameter that is not given has the default of the experiment, the model or the settings that it is for. What can be
checked without torch is checked here, while the command line is read: importing torch takes longer than to be told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args, get_type_hints

import typer

from handful.budget import as_bytes
from handful.cli.app import integers
from handful.errors import DatasetError, HandfulError, unknown
from handful.files import place
from handful.settings import Settings
from handful.vocabulary import DATASETS, METHODS, MODELS, PAPER_SEEDS

DEFAULT = Settings()


def known_graph(text: str | None) -> str | None:
    """Refuse what is neither the name of a data set nor a path."""
    name, colon, _ = (text or "").partition("?")[0].partition(":")
    named = f"{name}:…" in DATASETS if colon else name in DATASETS
    path = None if text is None or named else place(text)
    if text is not None and not (named or (path is not None and path.exists())):
        raise DatasetError(unknown("data set or file", text, DATASETS))
    return text


def known(kind: str, names: Iterable[str]) -> Callable[[str | None], str | None]:
    """A check that refuses what is none of ``names``, one or several separated by commas."""

    def check(text: str | None) -> str | None:
        for one in (text or "").split(","):
            # Where samplers are imported already, others may have been registered: whoever makes one knows them.
            if one.strip() and one.strip() not in names and "handful.samplers" not in sys.modules:
                raise HandfulError(unknown(kind, one.strip(), names))
        return text

    return check


def setting(param: typer.CallbackParam, value: Any) -> Any:
    """Refuse what the setting of this name does not take."""
    if value is not None:
        Settings(**{str(param.name): value})
    return value


def _seeds(text: str | None) -> str | None:
    if text is not None:
        integers(text, "--seeds")
    return text


def _size(text: str | None) -> str | None:
    if text is not None:
        as_bytes(text)
    return text


def _beginning(names: Iterable[str]) -> Callable[[str], list[str]]:
    """For shells: the names that begin with what is typed."""

    def complete(incomplete: str) -> list[str]:
        return [name.removesuffix("…") for name in names if name.startswith(incomplete)]

    return complete


known_model, known_samplers = known("model", MODELS), known("sampler", METHODS)


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
Graph = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help=GRAPH_HELP,
        show_default=False,
        callback=known_graph,
        autocompletion=_beginning(DATASETS),
    ),
]
Split = Annotated[str | None, typer.Option(help="Which split of the graph, where it has several.")]
Root = Annotated[str | None, typer.Option(help="Where data sets are kept (else $HANDFUL_HOME, else the user's cache).")]
Seeds = Annotated[
    str | None,
    typer.Option(
        help=f"Seeds, separated by commas (else the paper's: {', '.join(map(str, PAPER_SEEDS))}).", callback=_seeds
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, … (else cpu).")]
Memory = Annotated[
    str | None,
    typer.Option(help="How much memory the process may hold, such as 8GiB; files take the rest.", callback=_size),
]
Threads = Annotated[int | None, typer.Option(help="CPU threads for kernels and torch.", min=1, callback=_use_threads)]
Model = Annotated[
    str | None,
    typer.Option(
        help="gcn, sage, gat, sgformer or graphland-sage (else sage).",
        callback=known_model,
        autocompletion=_beginning(MODELS),
    ),
]
Sampler = Annotated[
    str,
    typer.Option(
        help=f"Where batches come from: {', '.join(METHODS)}.",
        callback=known_samplers,
        autocompletion=_beginning(METHODS),
    ),
]
Samplers = Annotated[str, typer.Option(help="Which samplers, separated by commas.", callback=known_samplers)]
Hidden = Annotated[int | None, typer.Option(help="Width of the layers (else the model's own default).")]
Layers = Annotated[int | None, typer.Option(help="Number of layers (else the model's own default).")]
Norm = Annotated[str | None, typer.Option(help="bn, ln or none (else bn, where the model has a choice).")]
Residual = Annotated[
    bool | None, typer.Option(help="Add a Linear of each layer's input to its output (else the model's own default).")
]
Dropout = Annotated[float | None, typer.Option(help="Share of activations dropped in training.")]
Epochs = Annotated[int | None, typer.Option(help=f"Passes over the batches (else {DEFAULT.epochs}).", callback=setting)]
Lr = Annotated[float | None, typer.Option(help=f"Learning rate (else {DEFAULT.lr}).", callback=setting)]
WeightDecay = Annotated[
    float | None, typer.Option(help=f"Weight decay (else {DEFAULT.weight_decay:g}).", callback=setting)
]
Optimizer = Annotated[
    str | None, typer.Option(help=f"{choices('optimizer')} (else {DEFAULT.optimizer}).", callback=setting)
]
ClassWeight = Annotated[
    str | None, typer.Option(help="balanced: rare classes count as much as frequent ones (else none).")
]
Task = Annotated[
    str | None,
    typer.Option(help="classification, regression or multilabel (else what the labels look like).", callback=setting),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="What epochs are chosen by: accuracy, balanced_accuracy, f1, macro_f1, average_precision, roc_auc; "
        "r2, mae, rmse for numbers (else the graph's own)."
    ),
]
Positive = Annotated[
    str | None, typer.Option(help="Of two classes, the one to look for, by name or number (else the rarer one).")
]
TwentyEvaluations = Annotated[
    int | None, typer.Option("--evaluate-every", help="Epochs between evaluations (else 20 in all).", callback=setting)
]
SamplerOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-s", help="An option of one sampler, as sampler.name=value (rns.parts=8)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
