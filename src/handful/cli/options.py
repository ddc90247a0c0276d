"""Reading what the options of several commands have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from handful.cli.app import console, given, integers, records
from handful.errors import HandfulError
from handful.experiment import MODEL, Experiment, Fields, ModelFields
from handful.finding import Finding
from handful.nn import model_defaults
from handful.report.page import Written, write_finding
from handful.training.record import environment


def experiment(params: Mapping[str, Any], base: Mapping[str, Any] | None = None, **own: Any) -> Experiment:
    """The experiment of a command: what the model has of ``base``, over it the parameters given, then its ``own``.

    Parameters that are none of an experiment's are passed over. Without ``evaluate_every`` a run is evaluated twenty
    times.
    """
    known = {*Fields.__annotations__, "split", "root", "model", "device"}
    absent = set(ModelFields.__annotations__) - set(model_defaults(params.get("model") or MODEL))
    usual = {name: value for name, value in (base or {}).items() if name not in absent}
    chosen = {**usual, **given(**{name: params[name] for name in params if name in known}), **given(**own)}
    if params.get("seeds") is not None:
        chosen["seeds"] = integers(params["seeds"], "--seeds")
    made = Experiment(params["graph"], **chosen)
    return made if "evaluate_every" in chosen else made.with_(evaluate_every=max(1, made.settings.epochs // 20))


def with_split(asked: Experiment) -> Experiment:
    """``asked``; for a file without a split with one to draw, which is said."""
    drawn = asked.with_split()
    if drawn.split != asked.split:
        console.print(f"{asked.graph} has no split: drawing {drawn.split} by each seed; --split names another")
    return drawn


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """``["parts=4", "fanout=10,10", "normalize=true"]`` as named values."""
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise HandfulError(f"an option is name=value, such as parts=4; got '{pair}'")
        name = name.strip().replace("-", "_")
        if name in out:
            raise HandfulError(f"option {name} is given twice: give it once")
        out[name] = parse_value(text.strip())
    return out


def parse_value(text: str) -> Any:
    """A number, true/false, none, a comma-separated tuple of them, or the text itself."""
    if "," in text:
        return tuple(parse_value(part.strip()) for part in text.strip("[]()").split(",") if part.strip())
    try:
        return json.loads({"none": "null", "True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def sampler_options(names: str, pairs: list[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The samplers that were named, and the options of each: ``rns.parts=8``."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise HandfulError("--samplers names no sampler: give some, such as rns,neighbor,cluster,saint")
    options: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    for key, value in parse_options(pairs).items():
        name, dot, field = key.partition(".")
        name = next((known for known in wanted if known.replace("-", "_") == name), name)
        if not dot:
            raise HandfulError(f"--option is sampler.name=value, such as rns.parts=8; got '{key}'")
        if name not in options:
            raise HandfulError(f"--option {key} is for '{name}', which is not among --samplers {names}")
        options[name][field] = value
    return wanted, options


def run_folder(out: str | None, name: str) -> Path:
    """``out``, or a new folder under ``runs/`` named by the time and by what runs."""
    tidy = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name or name).strip("-")
    folder = Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{tidy}" if out is None else Path(out)
    records.append(folder)
    return folder


def publish(finding: Finding, folder: Path) -> Written:
    """Put a finding and its page into ``folder``, with what it was made with."""
    return write_finding(replace(finding, environment=environment()), folder)
