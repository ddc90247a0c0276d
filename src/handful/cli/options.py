"""``handful options``: every name that ``--set`` takes; and what commands make of the options that were given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_args, get_type_hints

import typer

import handful as hf
from handful.cli.app import Answer, note, records
from handful.cli.params import BASES, OPTIONS, Given, command, describe, parse_options
from handful.errors import HandfulError, unknown
from handful.finding import Finding
from handful.settings import SETTING_NAMES, Settings

HOW = ("set", "sampler", "memory", "threads", "jobs", "executor", "out")
"""Shared options that are no part of an experiment."""
OF_SAMPLER = ("parts", "hubs")
"""Options of the sampler that have a name of their own."""
EVALUATIONS = 20
"""How often a command that trains several runs evaluates each, unless told."""
COMMANDS = ("train", "compare", "parts", "tune", "diagnose")


@command()
def options(
    of: Annotated[str, typer.Argument(metavar="COMMAND", help=f"Whose defaults: {', '.join(COMMANDS)}.")] = "train",
) -> Answer:
    """Every name that --set takes: settings, and options of models and samplers, with type, default and meaning."""
    if of not in COMMANDS:
        raise HandfulError(unknown("command with --set", of, COMMANDS))
    rows, lines = list_options(of), []
    for owner, some in groupby(rows, lambda row: row["of"]):
        lines.append(f"of {owner}")
        for row in some:
            lines.append(f"  {row['name']}={format_value(row['default'])}".ljust(32) + f"{row['takes']}: {row['help']}")
    return Answer({"options": rows}, lines=lines)


def list_options(of: str = "train") -> list[dict[str, Any]]:
    """Name, owner, type, default and meaning of all that ``--set`` takes; ``of`` a command with its own defaults."""
    from handful.experiment import ModelFields
    from handful.nn import MODELS, model_defaults
    from handful.samplers import sampler_class, sampler_names

    found: dict[tuple[str, str], dict[str, Any]] = {}
    usual, _ = sort_options({}, [], read_defaults(of))

    def add(owner: str, thing: Any, hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        told = {name: text for cls in reversed(thing.__mro__) for name, text in describe(cls).items()}
        for name, default in defaults.items():
            default = usual.get(name, default)
            row = {"name": name, "of": owner, "takes": describe_type(hints[name]), "default": default}
            row["help"] = told.get(name, "")
            same = found.setdefault((name, format_value(default)), row)
            same["of"] += f", {owner}" if same is not row else ""

    add("settings", Settings, get_type_hints(Settings), vars(Settings()))
    for name, model in MODELS.items():
        add(name, model, get_type_hints(ModelFields), model_defaults(name))
    for name in sampler_names():
        sampler = sampler_class(name)
        add(name, sampler, get_type_hints(sampler), sampler().options())
    return list(found.values())


def describe_type(hint: Any) -> str:
    """The type of an option, for people.

    >>> describe_type(int | None), describe_type(tuple[int, ...]), describe_type(bool)
    ('a whole number', 'whole numbers', 'true or false')
    """
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    known[tuple[int, ...]] = "whole numbers"
    kinds = [hint] if hint in known else [kind for kind in get_args(hint) if kind is not type(None)]
    return " or ".join(known.get(kind, str(kind)) for kind in kinds)


def format_value(value: Any) -> str:
    """A value as ``--set`` takes it.

    >>> format_value((10, 5)), format_value(True), format_value(None), format_value(1e-3)
    ('10,5', 'true', 'none', '0.001')
    """
    if isinstance(value, tuple):
        return ",".join(map(format_value, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def read_defaults(command: str) -> dict[str, Any]:
    """The defaults that a command has of its own; ``evaluations`` is how often it evaluates a run, unless told.

    >>> read_defaults("tune")
    {'evaluations': 20}
    """
    usual = dict(resolve_name(BASES[command])) if command in BASES else {}
    return {**usual, "evaluations": EVALUATIONS} if command in ("compare", "parts", "tune") else usual


def make_experiment(graph: str, given: Given, usual: Mapping[str, Any] | None = None, **own: Any) -> hf.Experiment:
    """The experiment of a command with one sampler: its ``own`` parts, what was ``given``, what is ``usual``."""
    from handful.samplers import sampler_class

    name = given.get("sampler", "rns")
    known = [field.name for field in fields(sampler_class(name))]
    chosen, found = sort_options(given, [name], usual or {}, known)
    return hf.Experiment(graph, **{**chosen, "sampler": hf.make_sampler(name, **found[name]), **own})


def make_comparison(
    graph: str, given: Given, samplers: str, usual: Mapping[str, Any], **own: Any
) -> tuple[hf.Experiment, dict[str, dict[str, Any]]]:
    """The experiment of a command with several samplers, and the options of each."""
    names = [name.strip() for name in samplers.split(",") if name.strip()]
    if not names:
        raise HandfulError("--samplers names no sampler: give some, such as rns,neighbor,cluster,saint")
    chosen, found = sort_options(given, names, usual)
    return hf.Experiment(graph, **{**chosen, **own}), found


def sort_options(
    given: Given, samplers: Sequence[str], usual: Mapping[str, Any], known: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What was given by name and by ``--set``: parts and fields of the experiment, and the options of each sampler.

    ``usual`` stands where nothing is given, as far as the model and the sampler have it. Options of the first sampler
    that are ``known`` need not name it; those of others are written as ``rns.parts``.

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
    found: dict[str, dict[str, Any]] = {name: {} for name in samplers}
    often = usual.get("evaluations")
    usual = {name: value for name, value in usual.items() if name in (*ours, *known, "seeds")}
    for name, value in {**usual, **named, **paired}.items():
        owner, _, option = name.rpartition(".")
        if owner in found:
            found[owner][option] = value
        elif name in known or (name in named and name in OF_SAMPLER):
            found[samplers[0]][name] = value
        elif name in named or name in usual or name in ours:
            chosen[name] = value
        elif owner:
            raise HandfulError(f"--set {name} is for '{owner}', which is not among the samplers {', '.join(samplers)}")
        else:
            hint = "" if known else "; that of a sampler is written as rns.parts"
            raise HandfulError(unknown("setting or option", name, [*ours, *known]) + hint)
    if often is not None:
        chosen.setdefault("evaluate_every", max(1, chosen.get("epochs", Settings.epochs) // often))
    return chosen, found


def with_split(asked: hf.Experiment) -> hf.Experiment:
    """``asked``; for a file without a split with one to draw, which is said."""
    drawn = asked.with_split()
    if drawn.split != asked.split:
        note(f"{asked.graph} has no split: drawing {drawn.split} by each seed; --split names another")
    return drawn


def choose_folder(out: Path | None, name: str) -> Path:
    """``out``, or a new folder under ``runs/`` named by the time and by what runs."""
    tidy = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name or name).strip("-")
    folder = out or Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{tidy}"
    records.append(folder)
    return folder


def make_answer(found: Finding, folder: Path | None, *lines: str) -> Answer:
    """A finding as an answer; in ``folder``, if there is one, it is kept with its page and what it was made with."""
    from handful.report.page import write_finding
    from handful.training.record import environment

    if folder is not None:
        lines = (*lines, f"report: {write_finding(replace(found, environment=environment()), folder)}")
    if found.failed:
        note(f"failed: {', '.join(found.failed)}; see the stderr.txt beside their records")
    return Answer(found.payload, found.tables, [found.words, *lines], int(bool(found.failed)))
