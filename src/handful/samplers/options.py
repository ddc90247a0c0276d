"""Checks that the options of samplers share."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from handful.errors import SamplerError


def at_least(least: int, **options: Any) -> None:
    """Refuse an option that is not a whole number from ``least`` on."""
    for name, value in options.items():
        try:
            enough = index(value) >= least
        except TypeError:
            enough = False
        if not enough:
            raise SamplerError(f"{name} must be a whole number, at least {least}, got {value!r}")


def whole_numbers(name: str, values: int | Iterable[Any]) -> tuple[int, ...]:
    """One whole number, or several in whatever sequence they come, as a tuple."""
    try:
        numbers = tuple(index(v) for v in (values if isinstance(values, Iterable) else (values,)))
    except TypeError:
        numbers = ()
    if not numbers:
        raise SamplerError(f"{name} takes whole numbers, one for each hop, got {values!r}")
    return numbers
