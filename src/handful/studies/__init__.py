"""Experiments by name, for ``handful study NAME``.

A study is a module of this package, named in ``STUDIES``, with a function ``run(request: Request) -> Finding``. The
first line of the module says what it shows, and its name is the module's with hyphens.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from handful.errors import HandfulError, unknown
from handful.finding import Finding
from handful.studies.request import BUDGETS, Request, study_folder
from handful.vocabulary import words

STUDIES = (
    "regimes",
    "controls",
    "samplers",
    "curves",
    "speedup",
    "architectures",
    "graphland",
    "parts",
    "fanout",
    "batch_size",
    "implicit",
    "along_adam",
    "powerlaw",
    "structure",
    "datasets",
    "backward_error",
    "bias_bound",
    "degree_law",
    "explicit_penalty",
    "hubs",
    "survey",
)
TUNED = ("parts", "fanout")
"""Those that compare configurations of one sampler, each of which may be tuned apart."""

__all__ = ["BUDGETS", "STUDIES", "Request", "run_study", "study_folder", "study_names"]


def study_names() -> dict[str, str]:
    """Every study and what it shows."""
    return {name.replace("_", "-"): (_module(name).__doc__ or "").strip().splitlines()[0] for name in STUDIES}


def run_study(name: str, request: Request) -> Finding:
    """Run a study by name; the finding also tells what was asked, and ours beside the paper's numbers where it can.

    >>> run_study("backward-error", Request(budget="smoke")).name
    'backward-error'
    """
    from handful.studies.beside import beside_paper

    known = {module.replace("_", "-"): module for module in STUDIES}
    if name not in known:
        raise HandfulError(unknown("study", name, known))
    if request.tune_each and name not in TUNED:
        raise HandfulError(f"study '{name}' tunes nothing: tune_each is for {' and '.join(TUNED)}")
    found: Finding = _module(known[name]).run(request)
    asked = {"budget": request.budget, "seeds": words(request.seeds), "device": request.device}
    beside = beside_paper(found.payload)
    tables = [*found.tables, *([] if beside is None else [beside])]
    return replace(found, tables=tables, facts={**asked, **found.facts})


def _module(name: str) -> Any:
    return import_module(f"handful.studies.{name}")
