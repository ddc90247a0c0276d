"""The options that commands share, functions that make experiments from options, and the decorator ``command``.

The training options come from ``Settings``. If an option is not given, the default of ``Experiment``, the model or
``Settings`` applies. Options are checked while the command line is parsed, without torch, because importing torch takes
seconds.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import handful as hf
from handful.budget import as_bytes
from handful.cli.app import GROUPS, TABLES, Answer, app, emit, note, records
from handful.errors import DatasetError, HandfulError, unknown
from handful.files import place
from handful.finding import Finding
from handful.settings import ENOUGH, QUICK, RECOMMENDED, SETTING_NAMES, Settings
from handful.vocabulary import DATASETS, METHODS, MODELS, PAPER_SEEDS, words

Option = tuple[Any, Any]
"""An option: its type, and its ``typer.Option``."""
Check = Callable[[Any], Any]
"""A function that converts a value, or raises an error."""
Given = dict[str, Any]
"""The values of the shared options that the user gave, by name."""
RUNS = {**QUICK, "evaluations": 20}
"""The defaults of commands that train several times; ``evaluations`` is the number of evaluations per run."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "train": {**QUICK, **RECOMMENDED, **ENOUGH},
    "compare": RUNS,
    "parts": {**RUNS, **RECOMMENDED, "seeds": PAPER_SEEDS[:3]},
    "tune": {"evaluations": RUNS["evaluations"]},
    "diagnose": {"hidden": 128, "layers": 3, "residual": False},
    "study": {"seeds": None},  # they depend on the budget
}
"""For each command, the defaults that differ from those of ``Settings`` and ``Experiment``."""
DEFAULTS["plan"] = DEFAULTS["train"]
SAMPLERS = [name for name in METHODS if not name.startswith("rns-")]
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (bool, int, float, str, Path)} | {"list": list[str]}
"""The types of options in ``tables.toml``."""
PANELS = ("Data", "Model", "Sampler", "Training", "Evaluation", "Execution", "Records")

# -- values of options ------------------------------------------------------------------------------------------------


def check_graph(text: str) -> str:
    """Raise an error if ``text`` is neither the name of a data set nor a path."""
    name, colon, _ = text.partition("?")[0].partition(":")
    named = (f"{name}:…" if colon else name) in DATASETS
    if not named and ((path := place(text)) is None or not path.exists()):
        raise DatasetError(unknown("data set or file", text, DATASETS))
    return text


def check_known(kind: str, names: Iterable[str]) -> Check:
    """Make a check that accepts one or several of ``names``, separated by commas."""

    def check(text: str) -> str:
        for one in text.split(","):
            if one.strip() and one.strip() not in names:
                raise HandfulError(unknown(kind, one.strip(), names))
        return text

    return check


def check_setting(name: str, value: Any) -> Any:
    """Return ``value`` if it is valid for the setting ``name``; otherwise raise an error."""
    Settings(**{name: value})
    return value


def parse_value(text: str) -> Any:
    """Convert a text to a value: a number, true, false, none, a tuple (if the text has commas), or else the text
    itself.
    """
    if "," in text:
        return tuple(parse_value(part.strip()) for part in text.strip("[]()").split(",") if part.strip())
    try:
        return json.loads({"none": "null", "True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def parse_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Parse texts such as ``["parts=4", "fanout=10,10", "rns.fraction=0.3"]`` to a dictionary, and check the settings
    in it.
    """
    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise HandfulError(f"--set takes name=value, got '{pair}': `handful options` lists all names")
        owner, dot, name = key.strip().rpartition(".")
        name = owner + dot + name.replace("-", "_")
        if name in result:
            raise HandfulError(f"option {name} is given twice: give it once")
        value = parse_value(text.strip())
        result[name] = check_setting(name, value) if name in SETTING_NAMES else value
    return result


def parse_integers(text: str, option: str = "--seeds") -> tuple[int, ...]:
    """Parse ``"1,2,4"`` to integers."""
    try:
        values = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        values = ()
    if not values:
        raise HandfulError(f"{option} takes whole numbers separated by commas, such as 1,2,4; got '{text}'")
    return values


def _size(text: str) -> int:
    """Convert a memory budget to bytes."""
    size = as_bytes(text)
    if size < 2**20:
        raise HandfulError(f"--memory {text} is less than any process needs: give a size with its unit, such as 8GiB")
    return size


def _use_threads(threads: int) -> int:
    most = 8 * (os.cpu_count() or 1)  # OpenMP ends the process if the system gives it no more threads
    if threads > most:
        raise HandfulError(f"--threads {threads} is too many for this machine: give at most {most}")
    hf.set_threads(threads)
    return threads


def _beginning(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Shell completion: the names that start with the typed text."""
    return lambda incomplete: [name.removesuffix("…") for name in names if name.startswith(incomplete)]


# -- the options ------------------------------------------------------------------------------------------------------


def describe(thing: Any) -> dict[str, str]:
    """The first sentence about each argument, from the docstring of a class.

    >>> describe(Settings)["momentum"]
    'momentum of `sgdm`'
    """
    block = (inspect.getdoc(thing) or "").partition("Args:\n")[2].partition("\n\n")[0]
    result: dict[str, str] = {}
    for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", block, re.MULTILINE):
        sentence = re.split(r"(?<=\w)\. ", " ".join(text.replace("``", "").split()))[0].rstrip(".")
        result |= dict.fromkeys(names.split(", "), sentence)
    return result


def option(
    kind: Any, panel: str = "", help: str = "", flags: Sequence[str] = (), check: Check | None = None, **more: Any
) -> Option:
    """Make an option that commands can share. ``check`` checks its value. An option without ``help`` is hidden."""
    if check is not None:
        more["callback"] = lambda value: None if value is None else check(value)
    return kind | None, typer.Option(None, *flags, help=help, rich_help_panel=panel or None, hidden=not help, **more)


def read_options(table: str, **more: Mapping[str, Any]) -> dict[str, Option]:
    """The options in a table of ``tables.toml``, by name. ``more`` has further arguments of ``option``, by the name of
    the option, which must be in the table.
    """
    written = TABLES["options"][table]
    rows = written | {name: {**written[name], **own} for name, own in more.items()}
    return {name: option(**{**row, "kind": KINDS[row["kind"]]}) for name, row in rows.items()}


def choice(what: str, names: Iterable[str]) -> dict[str, Any]:
    """The arguments of an option whose value is one of ``names``."""
    return {"check": check_known(what, names), "autocompletion": _beginning(names)}


def _of_setting(name: str, hint: Any) -> Option:
    """Make the option for a setting. Only the most common settings have a help text; the others are hidden."""
    panels = {"epochs": "Training", "lr": "Training", "metric": "Evaluation", "patience": "Evaluation"}
    panel = {**panels, **dict.fromkeys(RECOMMENDED, "Sampler")}.get(name, "")
    kind = next((kind for kind in (bool, int, float) if hint in (kind, kind | None)), str)
    help = re.sub("; None for (.*)", r". Default: \1", describe(Settings).get(name, "") if panel else "")
    return option(kind, panel, help and f"{help[0].upper()}{help[1:]}.", check=partial(check_setting, name))


OF_MODEL = read_options(
    "model", model={**choice("model", MODELS), "help": f"Model: `{'`, `'.join(MODELS)}`. Default: sage."}
)
OPTIONS = {
    **OF_MODEL,
    **{name: _of_setting(name, hint) for name, hint in get_type_hints(Settings).items()},
    **read_options(
        "shared",
        sampler={**choice("sampler", SAMPLERS), "help": f"Sampler: `{'`, `'.join(SAMPLERS)}`. Default: rns."},
        parts={"check": parse_value},
        seeds={"check": parse_integers},
        memory={"check": _size},
        threads={"check": _use_threads},
        executor=choice("executor", ("local", "ray")),
    ),
}
"""The options that commands share. ``--help`` shows the most common options, and `handful options` shows all."""
OF_EXPERIMENT = ("split", "root", *OF_MODEL, *SETTING_NAMES, "seeds", "set", "device", "threads")
"""The options of every command that trains."""

GRAPH_HELP = "Name of a data set (see `handful datasets`), a .npz file, a folder of CSV/Parquet, or a saved graph."
GRAPH = typer.Argument(metavar="GRAPH", help=GRAPH_HELP, callback=check_graph, autocompletion=_beginning(DATASETS))
Graph = Annotated[str, GRAPH]
LISTED = {"help": "Comma-separated samplers, such as `rns,neighbor`.", "callback": check_known("sampler", METHODS)}
Samplers = Annotated[str, typer.Option(rich_help_panel="Sampler", **LISTED)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.", rich_help_panel="Records")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]


# -- experiments and answers ------------------------------------------------------------------------------------------

HOW = ("set", "sampler", "memory", "threads", "jobs", "executor", "out")
"""Shared options that are not arguments of the experiment."""


def train_defaults(given: Given, command: str = "train") -> dict[str, Any]:
    """The defaults of `train`, `plan` and `parts`, without ``RECOMMENDED`` if the user gives a sampler, a first hop or
    λ. With a memory budget, labels of neighbours are not features.
    """
    usual, names = DEFAULTS[command], {*given, *parse_options(given.get("set", ()))}
    if names & {"sampler", "first_hop", "mean_field"}:
        usual = {name: value for name, value in usual.items() if name not in RECOMMENDED}
    elif command == "train" and "memory" in names and "label_features" not in names:
        note("with --memory, labels of neighbours are not features: --label-features no")
        usual = {**usual, "label_features": "no"}
    return usual


def make_experiment(graph: str, given: Given, usual: Mapping[str, Any] | None = None, **own: Any) -> hf.Experiment:
    """Make the experiment for a command that has one sampler. Values come from ``own``, the ``given`` options and the
    ``usual`` defaults.
    """
    from handful.samplers import sampler_class

    name = given.get("sampler", "rns")
    chosen, result = sort_options(given, [name], usual or {}, [field.name for field in fields(sampler_class(name))])
    return hf.Experiment(graph, **{**chosen, "sampler": hf.make_sampler(name, **result[name]), **own})


def make_comparison(
    graph: str, given: Given, samplers: str, usual: Mapping[str, Any], **own: Any
) -> tuple[hf.Experiment, dict[str, dict[str, Any]]]:
    """Return the experiment for a command that has several samplers, and the options of each sampler by its name."""
    names = [name.strip() for name in samplers.split(",") if name.strip()]
    if not names:
        raise HandfulError("--samplers names no sampler: give some, such as rns,neighbor,cluster,saint")
    chosen, result = sort_options(given, names, usual)
    return hf.Experiment(graph, **{**chosen, **own}), result


def sort_options(
    given: Given, samplers: Sequence[str], usual: Mapping[str, Any], known: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Sort the given options, including those of ``--set``, into arguments of the experiment and options of each
    sampler.

    ``usual`` contains the defaults. Defaults are ignored if neither the settings, the model nor the sampler accepts
    them. Options in ``known`` belong to the first sampler and need no prefix. All other options of samplers need a
    prefix, as in ``rns.parts``.

    >>> sort_options({"lr": 0.1, "set": ["parts=8", "saint.roots=9"]}, ["rns", "saint"], {}, ["parts"])
    ({'lr': 0.1}, {'rns': {'parts': 8}, 'saint': {'roots': 9}})
    """
    from handful.experiment import MODEL
    from handful.nn import model_defaults

    named = {name: value for name, value in given.items() if name in OPTIONS and name not in HOW}
    paired = parse_options(given.get("set", ()))
    for name in named:
        if name in paired and named[name] != paired[name]:
            raise HandfulError(f"--{name} is {named[name]}, and --set {name} is {paired[name]}: give one of them")
    ours = [*SETTING_NAMES, *model_defaults(given.get("model", MODEL))]
    chosen: dict[str, Any] = {}
    result: dict[str, dict[str, Any]] = {name: {} for name in samplers}
    often = usual.get("evaluations")
    usual = {name: value for name, value in usual.items() if name in (*ours, *known, "seeds")}
    for name, value in {**usual, **named, **paired}.items():
        owner, _, option = name.rpartition(".")
        if owner in result:
            result[owner][option] = value
        elif name in known or (name in named and name == "parts"):
            result[samplers[0]][name] = value
        elif name in named or name in usual or name in ours:
            chosen[name] = value
        elif owner:
            raise HandfulError(f"--set {name} is for '{owner}', which is not among the samplers {', '.join(samplers)}")
        else:
            hint = "" if known else "; write an option of a sampler as rns.parts"
            raise HandfulError(unknown("setting or option", name, [*ours, *known]) + hint)
    if often is not None:
        chosen.setdefault("evaluate_every", max(1, chosen.get("epochs", Settings.epochs) // often))
    return chosen, result


def with_split(asked: hf.Experiment) -> hf.Experiment:
    """Return the experiment ``asked``. If its graph is a file without a split, add a random split, and print a note."""
    drawn = asked.with_split()
    if drawn.split != asked.split:
        note(f"{asked.graph} has no split: each seed draws {drawn.split}; --split chooses another")
    return drawn


def choose_folder(out: Path | None, name: str) -> Path:
    """``out`` if it is given; otherwise a new folder in ``runs/``, named after the time and ``name``."""
    tidy = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name or name).strip("-")
    folder = out or Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{tidy}"
    records.append(folder)
    return folder


def make_answer(finding: Finding, folder: Path | None, *lines: str) -> Answer:
    """Make the answer of a command from a finding. If ``folder`` is given, write the finding, its page and the versions
    of packages to it.
    """
    from handful.report.page import write_finding
    from handful.training.record import environment

    if folder is not None:
        made = {**environment(), "command": shlex.join(["handful", *sys.argv[1:]])}
        lines = (*lines, f"report: {write_finding(replace(finding, environment=made), folder)}")
    if finding.failed:
        note(f"failed: {', '.join(finding.failed)}; see stderr.txt in their folders")
    return Answer(finding.payload, finding.tables, [finding.words, *lines], int(bool(finding.failed)))


# -- commands ---------------------------------------------------------------------------------------------------------


def command(
    *names: str, of: typer.Typer = app, name: str | None = None, more: Mapping[str, Option] | None = None
) -> Callable[[Callable[..., Answer | None]], Callable[..., Answer | None]]:
    """Make a command from a function. The options of the command are the function's parameters, the options in
    ``names`` and ``more``, and ``--json``.

    The function gets the values that the user gave for ``names`` and ``more`` as the dictionary ``given``, and returns
    its answer.
    """
    table = {**{one: OPTIONS[one] for one in names}, **(more or {})}

    def add(function: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
        own = [one for one in inspect.signature(function, eval_str=True).parameters.values() if one.name != "given"]
        title = name or function.__name__
        usual = {**vars(Settings()), "seeds": PAPER_SEEDS, **DEFAULTS.get(title, {})}
        shared = [_parameter(one, *made, usual=usual.get(one) if one in names else None) for one, made in table.items()]
        last = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)
        every = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in (*own, *shared, last)]

        def run(as_json: bool, **values: Any) -> None:
            given = {one: value for one in table if (value := values.pop(one)) not in (None, [])}
            answer = function(**({"given": given} if table else {}), **values)
            if answer is not None:
                emit(answer, as_json)
                if answer.code:
                    raise typer.Exit(answer.code)

        run.__signature__ = inspect.Signature(sorted(every, key=_place))  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in every}
        run.__doc__ = function.__doc__
        where = f"handful options {title}" if title in DEFAULTS else "handful options"
        epilog = f"`{where}` lists every name that --set takes, with its default." if "set" in table else None
        of.command(title, epilog=epilog, rich_help_panel=GROUPS.get(title))(run)
        of.registered_commands.sort(key=lambda one: [*GROUPS, one.name].index(one.name))
        return function

    return add


def _parameter(name: str, kind: Any, option: Any, usual: Any) -> Parameter:
    """Convert a shared option to a function parameter. The help text of the parameter includes the default ``usual``,
    if any.
    """
    if option.help and usual is not None:
        option = copy(option)
        option.help = f"{re.sub(' Default: .*', '', option.help).rstrip('.')}. Default: {words(usual)}."
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=kind)


def _place(parameter: Parameter) -> int:
    """The sort key of a parameter in the help text: its panel; parameters without a panel come first."""
    (option,) = getattr(parameter.annotation, "__metadata__", (parameter.default,))
    panel = getattr(option, "rich_help_panel", None)
    return PANELS.index(panel) if panel in PANELS else -1
