"""``handful options``: every name for ``--set``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Any, get_args, get_type_hints

import typer

from handful.cli.app import Answer
from handful.cli.params import DEFAULTS, command, describe, sort_options
from handful.errors import HandfulError, unknown
from handful.settings import Settings

COMMANDS = [name for name in DEFAULTS if name != "study"]


@command()
def options(
    of: Annotated[str, typer.Argument(metavar="COMMAND", help=f"Command: {', '.join(COMMANDS)}.")] = "train",
) -> Answer:
    """List every name for --set: settings, and options of models and samplers, with type, default and meaning."""
    if of not in COMMANDS:
        raise HandfulError(unknown("command with --set", of, COMMANDS))
    rows, lines = list_options(of), []
    for owner, some in groupby(rows, lambda row: row["of"]):
        lines.append(f"of {owner}")
        for row in some:
            lines.append(f"  {row['name']}={format_value(row['default'])}".ljust(32) + f"{row['takes']}: {row['help']}")
    return Answer({"options": rows}, lines=lines)


def list_options(of: str = "train") -> list[dict[str, Any]]:
    """Name, owner, type, default and meaning of every name for ``--set``, with the defaults of the command ``of``."""
    from handful.nn import MODELS, model_defaults
    from handful.samplers import sampler_class, sampler_names

    result: dict[tuple[str, str], dict[str, Any]] = {}
    usual, _ = sort_options({}, [], DEFAULTS[of])

    def add(owner: str, thing: Any, hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        texts = {name: text for cls in reversed(thing.__mro__) for name, text in describe(cls).items()}
        for name, default in defaults.items():
            default = usual.get(name, default)
            row = {"name": name, "of": owner, "takes": describe_type(hints[name]), "default": default}
            row["help"] = texts.get(name, "")
            same = result.setdefault((name, format_value(default)), row)
            same["of"] += f", {owner}" if same is not row else ""

    add("settings", Settings, get_type_hints(Settings), vars(Settings()))
    for name, model in MODELS.items():
        hints: dict[str, Any] = {}
        for cls in reversed(model.__mro__):
            hints |= get_type_hints(cls.__init__)  # type: ignore[misc]
        add(name, model, hints, model_defaults(name))
    for name in sampler_names():
        sampler = sampler_class(name)
        add(name, sampler, get_type_hints(sampler), sampler().options())
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
    """A value in the syntax of ``--set``.

    >>> format_value((10, 5)), format_value(True), format_value(None), format_value(1e-3)
    ('10,5', 'true', 'none', '0.001')
    """
    if isinstance(value, tuple):
        return ",".join(map(format_value, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
