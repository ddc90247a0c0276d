"""The display names of methods, models, optimisers and the terms of the theory, from ``vocabulary.toml``; and the
paper's seeds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

PAPER_SEEDS = (42, 123, 456, 789, 101112)
_TABLES: dict[str, Any] = tomllib.loads((files("handful") / "vocabulary.toml").read_text(encoding="utf-8"))
DATASETS: tuple[str, ...] = tuple(_TABLES["datasets"])
"""The names of data sets. A name that ends in ``:…`` is a family of data sets."""
METHODS: dict[str, str] = _TABLES["methods"]
"""The display names of the methods, in the order of the paper's tables; methods that are not in the paper come last."""
MODELS: dict[str, str] = _TABLES["models"]
REGIMES: dict[str, str] = _TABLES["regimes"]
OPTIMIZERS: dict[str, str] = _TABLES["optimizers"]
TERMS: dict[str, str] = _TABLES["terms"]
"""The display names of the terms of the implicit objective, and of the error of the degree exponent."""
STRUCTURE: dict[str, str] = _TABLES["structure"]
FLOWS: dict[str, dict[str, str]] = _TABLES["flows"]
"""The display names of the gradient flows that are compared with the mean trajectory of an optimiser."""
SPEEDUPS: dict[str, str] = _TABLES["speedups"]
BENCHED: dict[str, str] = _TABLES["benched"]
"""The display names of the epochs that ``handful bench epoch`` measures."""
PARTS = "m, the number of parts"
METRICS: dict[str, str] = _TABLES["metrics"]
"""The display names of metrics for which replacing ``_`` by a space is not enough."""

_NAMES = {**MODELS, **OPTIMIZERS, **REGIMES, **METHODS}
_COLORS = {name: hue for hue, name in enumerate(_TABLES["colors"])}
PALETTE = 10
"""The number of colours in the palette of the report."""


def title(name: str) -> str:
    """The display name of a method, model, optimiser or regime. Any other name is returned unchanged.

    >>> title("saint"), title("mine")
    ('GraphSAINT', 'mine')
    """
    return _NAMES.get(name, name)


def hues(names: Sequence[str]) -> list[int]:
    """Choose a colour for each name: methods have fixed colours, and other names get the first free colour.

    >>> hues(["full", "mine", "rns"])
    [1, 2, 0]
    """
    own = [_COLORS.get(name) for name in names]
    others = iter(([hue for hue in range(PALETTE) if hue not in own] or list(range(PALETTE))) * len(names))
    return [next(others) if hue is None else hue for hue in own]


def words(value: Any) -> str:
    """Format the value of a setting as text.

    >>> words((4, 2)), words(True), words(None), words(0.001)
    ('4, 2', 'yes', 'none', '0.001')
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(words, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def number(value: float, sign: str = "") -> str:
    """Format a number with four significant digits; all digits of its integer part are kept. Very large and very small
    numbers are written with an exponent.

    >>> number(12.3456), number(20312.4), number(0.5, "+"), number(1e-9), number(1e15)
    ('12.35', '20,312', '+0.5', '1e-09', '1e+15')
    """
    return f"{value:{sign},.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:{sign}.4g}"


def shown(value: float | None, form: str) -> str:
    """Format a number with ``form``. A missing number or NaN becomes a dash.

    >>> shown(0.25, "{:.0%}"), shown(None, "{:.0%}"), shown(float("nan"), "{:.2f}")
    ('25%', '–', '–')
    """
    return "–" if value is None or value != value else form.format(value)


def estimate(value: Mapping[str, float], form: str) -> str:
    """Format a mean with its 95% confidence interval. If the mean is NaN, the result is a dash. If the interval is NaN,
    it is left out.

    >>> estimate({"mean": 0.5, "ci95": 0.25}, "+.2g"), estimate({"mean": 0.5, "ci95": float("nan")}, ".3g")
    ('+0.5 ± 0.2', '0.5')
    """
    half = "" if value["ci95"] != value["ci95"] else f" ± {value['ci95']:.1g}"
    return shown(value["mean"], f"{{:{form}}}{half}")


def spaced(name: str) -> str:
    """The display name of a metric, such as ``average precision`` for ``average_precision`` and ``ROC-AUC`` for
    ``roc_auc``.
    """
    return METRICS.get(name) or name.replace("_", " ")
