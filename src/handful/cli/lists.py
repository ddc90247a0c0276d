"""``handful datasets``, ``options`` and ``doctor``: list the data sets, the names for ``--set``, and the properties of
this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import packages_distributions
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from handful.cli.app import TABLES, Answer
from handful.cli.params import DEFAULTS, Given, command, describe, sort_options
from handful.errors import require_name
from handful.finding import Table, text_table
from handful.settings import Settings
from handful.vocabulary import spaced

if TYPE_CHECKING:
    from handful.datasets import Source

# -- data sets ----------------------------------------------------------------------------------------------------


@command("root")
def datasets(given: Given) -> Answer:
    """List the data sets: size, task, metric, splits, and whether they are on disk."""
    from handful.datasets import home, sources

    place = home(given.get("root"))
    listed = [describe_source(source, place) for source in sources().values()]
    line = "Each direction of an edge counts. A path can replace a name: a .npz, a folder of CSV, a saved graph."
    return Answer({"home": str(place), "datasets": listed}, [make_listing(listed, place)], [line])


def describe_source(source: Source, place: Path) -> dict[str, Any]:
    """The properties of a data set. The data are not loaded."""
    known = ("description", "nodes", "edges", "features", "classes", "task", "metric")
    result = {"name": source.name + ":…" * source.scheme, **{name: getattr(source, name) for name in known}}
    options = [field.name for field in fields(source.options)] if source.options else []
    on_disk = None if source.scheme else source.on_disk is None or source.on_disk(place)
    return {**result, "splits": list(source.splits), "options": options, "on_disk": on_disk}


def make_listing(listed: list[dict[str, Any]], place: Path) -> Table:
    """Make a table of the data sets."""
    head = ["", "nodes", "edges", "features", "classes", "metric", "splits", "on disk"]
    here = {True: "yes", False: "no", None: ""}
    rows = []
    for data in listed:
        size = (_short(data[key]) for key in ("nodes", "edges", "features", "classes"))
        metric = "" if data["on_disk"] is None else spaced(data["metric"])
        rows.append((data["name"], *size, metric, ", ".join(data["splits"]), here[data["on_disk"]]))
    return text_table(f"data sets, kept in {place}", head, rows)


def _short(count: int | None) -> str:
    """Format a count, such as ``1.63M`` for 1,632,803. Small numbers are written in full."""
    if not count:
        return ""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= 10 * unit or (count >= unit and unit > 1e3):
            return f"{count / unit:.3g}{letter}"
    return str(count)


# -- names for --set ----------------------------------------------------------------------------------------------

COMMANDS = [name for name in DEFAULTS if name != "study"]


Command = Annotated[str, typer.Argument(metavar="COMMAND", help=f"Command: {', '.join(COMMANDS)}.")]


@command()
def options(of: Command = "train") -> Answer:
    """List every name for --set: settings, and options of models and samplers, with type, default and meaning."""
    require_name("command with --set", of, COMMANDS)
    rows, lines = list_options(of), []
    for owner, some in groupby(rows, lambda row: row["of"]):
        lines.append(f"of {owner}")
        for row in some:
            lines.append(f"  {row['name']}={format_value(row['default'])}".ljust(32) + f"{row['takes']}: {row['help']}")
    return Answer({"options": rows}, lines=lines)


def list_options(of: str = "train") -> list[dict[str, Any]]:
    """For every name that ``--set`` accepts: its owner, type, default and meaning. The defaults are those of the
    command ``of``.
    """
    from handful.nn import MODELS, model_defaults
    from handful.samplers import sampler_class, sampler_names

    result: dict[tuple[str, str], dict[str, Any]] = {}
    usual, _ = sort_options({}, [], DEFAULTS[of])

    def add(owner: str, thing: Any, defaults: Mapping[str, Any]) -> None:
        texts: dict[str, str] = {}
        hints: dict[str, Any] = {}
        for cls in reversed(thing.__mro__):
            texts |= describe(cls)
            hints |= get_type_hints(cls.__init__)
        for name, default in defaults.items():
            default = usual.get(name, default)
            row = {"name": name, "of": owner, "takes": describe_type(hints[name]), "default": default}
            row["help"] = texts.get(name, "")
            same = result.setdefault((name, format_value(default)), row)
            same["of"] += f", {owner}" if same is not row else ""

    add("settings", Settings, vars(Settings()))
    for name, model in MODELS.items():
        add(name, model, model_defaults(name))
    for name in sampler_names():
        add(name, sampler_class(name), sampler_class(name)().options())
    return list(result.values())


def describe_type(hint: Any) -> str:
    """The type of an option as text.

    >>> describe_type(int | None), describe_type(tuple[int, ...]), describe_type(bool)
    ('a whole number', 'whole numbers', 'true or false')
    """
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    known[tuple[int, ...]] = "whole numbers"
    kinds = [hint] if hint in known else [kind for kind in get_args(hint) if kind is not type(None)]
    return " or ".join(known.get(kind, str(kind)) for kind in kinds)


def format_value(value: Any) -> str:
    """Format a value in the syntax of ``--set``.

    >>> format_value((10, 5)), format_value(True), format_value(None), format_value(1e-3)
    ('10,5', 'true', 'none', '0.001')
    """
    if isinstance(value, tuple):
        return ",".join(map(format_value, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


# -- this machine -------------------------------------------------------------------------------------------------

FEATURES: dict[str, list[str]] = TABLES["extras"]
"""For each extra of the package: the feature that it enables, and the modules that this feature needs."""


@command()
def doctor() -> Answer:
    """Print versions, kernels, threads, GPUs and folders, and the install commands for optional features."""
    machine, installed, extras, rows = describe_machine(), packages_distributions(), {}, []
    for extra, (feature, *modules) in FEATURES.items():
        missing = [name for name in modules if name not in installed]
        install = f"pip install 'handful[{extra}]'" if missing else ""
        extras[extra] = {"for": feature, "missing": missing, "install": install}
        rows.append((extra, install or "yes", feature))
    here = text_table("This machine", ["", ""], machine.items())
    features = text_table("Optional features", ["extra", "installed", "for"], rows)
    return Answer({"machine": machine, "extras": extras}, [here, features])


def describe_machine() -> dict[str, str]:
    """The versions, the kernels for each device, the threads, the memory and the folders."""
    import torch

    from handful.budget import free_memory, show_size
    from handful.files import home, private
    from handful.kernels.dispatch import backend
    from handful.kernels.hashing import mix64
    from handful.kernels.linear import native_bfloat16
    from handful.training.record import environment

    known, free = dict(environment()), free_memory()
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    folders = {"data sets": home(), "verified graphs": private("verified"), "kernels": Path(mix64.stats.cache_path)}
    known |= {"cores": str(os.cpu_count()), "free memory": "unknown" if free is None else show_size(free)}
    known |= {f"kernels on {device}": backend(torch.device(device)) for device in ("cpu", "cuda")}
    known |= {"bfloat16 on cpu": "in hardware" if native_bfloat16() else "converted to float32"}
    known |= {"GPUs": ", ".join(gpus) or "none"}
    return known | {f"folder of {name}": f"{path} ({_state(path)})" for name, path in folders.items()}


def _state(path: Path) -> str:
    """A text that says whether a folder is writable. If the folder does not exist yet, its nearest existing parent is
    tested.
    """
    there = next(place for place in (path, *path.parents) if place.exists())
    kind = "writable" if os.access(there, os.W_OK) else "not writable"
    return kind if there == path else f"{kind}, not made yet"
