"""Experiments by name, for ``handful study NAME``.

A study is a function of a ``Request`` that gives a ``Finding``. The first line of its docstring says what it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from handful.errors import HandfulError, unknown
from handful.finding import Finding
from handful.studies.budget import BUDGETS, Request, study_folder
from handful.vocabulary import words

STUDIES = {
    "regimes": "regimes.regimes",
    "controls": "regimes.controls",
    "samplers": "compare.samplers",
    "speedup": "speedup.speedup_study",
    "architectures": "regimes.architectures",
    "graphland": "regimes.graphland",
    "parts": "sizes.parts",
    "fanout": "sizes.fanout",
    "batch-size": "sizes.batch_size",
    "implicit": "diagnose.implicit",
    "along-adam": "diagnose.along_adam",
    "backward-error": "laws.backward",
    "bias-bound": "laws.bound",
    "degree-law": "laws.degrees",
    "explicit-penalty": "explicit_penalty.run",
    "mean-field": "mean_field.run",
    "survey": "survey.run",
}
"""Where each study is: a module of this package, and a function."""
REPLACED = {
    "structure": "structure GRAPH",
    "datasets": "datasets --check",
    "powerlaw": "study implicit",
    "curves": "study speedup",
    "hubs": "study mean-field",
}
"""What used to be studies, and the commands that do the same."""
TUNED = ("parts", "fanout", "survey")
"""Those whose configurations may be tuned apart."""

__all__ = ["BUDGETS", "STUDIES", "Request", "run_study", "study_folder", "study_names"]


def study_names() -> dict[str, str]:
    """Every study and what it shows."""
    return {name: (_function(name).__doc__ or "").strip().splitlines()[0] for name in STUDIES}


def run_study(name: str, request: Request) -> Finding:
    """Run a study by name; the finding also tells what was asked.

    >>> run_study("backward-error", Request(budget="smoke")).name
    'backward-error'
    """
    if name in REPLACED:
        raise HandfulError(f"study '{name}' is gone: use `handful {REPLACED[name]}`")
    if name not in STUDIES:
        raise HandfulError(unknown("study", name, STUDIES))
    if request.tune_each and name not in TUNED:
        raise HandfulError(f"study '{name}' tunes nothing: tune_each is for {' and '.join(TUNED)}")
    if request.optimizer != Request.optimizer and name != "backward-error":
        raise HandfulError(f"study '{name}' has its own optimisers: optimizer is for backward-error")
    result = _function(name)(request)
    asked = {"budget": request.budget, "seeds": words(request.seeds), "device": request.device}
    return replace(result, facts={**asked, **result.facts})


def _function(name: str) -> Callable[[Request], Finding]:
    module, _, function = STUDIES[name].partition(".")
    result: Callable[[Request], Finding] = getattr(import_module(f"handful.studies.{module}"), function)
    return result
