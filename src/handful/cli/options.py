"""Reading what the options of several commands have in common."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from handful.errors import HandfulError
from handful.samplers import Sampler, make_sampler, sampler_class


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """``["parts=4", "fanout=10,10", "normalize=true"]`` as named values."""
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise HandfulError(f"an option is name=value, such as parts=4; got '{pair}'")
        out[name.strip().replace("-", "_")] = parse_value(text.strip())
    return out


def parse_value(text: str) -> Any:
    """A number, true/false, none, a comma-separated tuple of them, or the text itself."""
    if "," in text:
        return tuple(parse_value(part.strip()) for part in text.strip("[]()").split(",") if part.strip())
    try:
        return json.loads({"none": "null", "True": "true", "False": "false", "None": "null"}.get(text, text))
    except json.JSONDecodeError:
        return text


def chosen_samplers(names: str, pairs: list[str], layers: int) -> list[Sampler]:
    """The samplers that were named, with their options; LADIES draws as many layers as the model has."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise HandfulError("--samplers names no sampler: give some, such as rns,neighbor,cluster,saint")
    options: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    for key, value in parse_options(pairs).items():
        name, dot, field = key.partition(".")
        if not dot:
            raise HandfulError(f"--option is sampler.name=value, such as rns.parts=8; got '{key}'")
        if name not in options:
            raise HandfulError(f"--option {key} is for '{name}', which is not among --samplers {names}")
        options[name][field] = value
    if "ladies" in options:
        budget = sampler_class("ladies")().options()["budget"]
        options["ladies"].setdefault("budget", (budget[0],) * layers)
    return [make_sampler(name, **options[name]) for name in wanted]


def run_folder(out: str | None, name: str) -> Path:
    """``out``, or a new folder under ``runs/`` named by the time and by what runs."""
    if out is not None:
        return Path(out)
    tidy = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).name or name).strip("-")
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{tidy}"
