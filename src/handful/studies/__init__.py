"""The studies by name, for ``handful study NAME``.

A study is a function that takes a ``Request`` and returns a ``Finding``. The first line of its docstring is its
description.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name

from handful.errors import HandfulError, require_name
from handful.finding import Finding
from handful.studies.budget import BUDGETS, Request, study_folder
from handful.vocabulary import words

STUDIES = {
    "regimes": "regimes:regimes",
    "controls": "regimes:controls",
    "samplers": "compare:samplers",
    "speedup": "speedup:speedup_study",
    "architectures": "regimes:architectures",
    "graphland": "regimes:graphland",
    "synthetic": "regimes:synthetic",
    "parts": "sizes:parts",
    "fanout": "sizes:fanout",
    "batch-size": "sizes:batch_size",
    "implicit": "diagnose:implicit",
    "along-adam": "diagnose:along_adam",
    "backward-error": "laws:backward",
    "bias-bound": "laws:bound",
    "degree-law": "laws:degrees",
    "explicit-penalty": "explicit_penalty:run",
    "mean-field": "sizes:mean_field",
    "survey": "survey:run",
}
"""For each study, its module in this package and its function."""
FIXED = ("implicit", "backward-error", "bias-bound", "degree-law", "explicit-penalty")
"""The studies that do not have the option ``epochs``."""
ONLY = {
    "tune_each": ("parts", "fanout", "survey"),
    "optimizer": ("backward-error",),
    "epochs": tuple(name for name in STUDIES if name not in FIXED),
}
"""For each option of ``Request`` that only some studies accept, the names of these studies."""

__all__ = ["BUDGETS", "STUDIES", "Request", "run_study", "study_folder", "study_names"]


def study_names() -> dict[str, str]:
    """The description of each study, by name."""
    return {name: (_function(name).__doc__ or "").strip().splitlines()[0] for name in STUDIES}


def run_study(name: str, request: Request) -> Finding:
    """Run a study, and return its finding. The facts of the finding include the budget, the seeds and the device of the
    request.

    >>> run_study("degree-law", Request(budget="smoke")).name
    'degree-law'
    """
    require_name("study", name, STUDIES)
    for option, studies in ONLY.items():
        if getattr(request, option) != getattr(Request, option) and name not in studies:
            raise HandfulError(f"study '{name}' has no option {option}: it is for {', '.join(studies)}")
    result = _function(name)(request)
    asked = {"budget": request.budget, "seeds": words(request.seeds), "device": request.device}
    return replace(result, facts={**asked, **result.facts})


def _function(name: str) -> Callable[[Request], Finding]:
    return resolve_name(f"handful.studies.{STUDIES[name]}")  # type: ignore[no-any-return]
