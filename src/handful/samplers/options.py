"""Checks that the options of samplers share."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, get_type_hints

from handful.errors import HandfulError, SamplerError
from handful.settings import checked


def take_types(sampler: Any) -> None:
    """Give the options of a sampler the plain types that they are declared with, or refuse them."""
    for name, hint in get_type_hints(type(sampler)).items():
        if hint in (bool, int, float, int | None, float | None) and name in sampler.__dataclass_fields__:
            try:
                object.__setattr__(sampler, name, checked(name, getattr(sampler, name), hint))
            except HandfulError as error:
                raise SamplerError(f"sampler '{sampler.name}': {error}") from None


def at_least(least: int, **options: Any) -> None:
    """Refuse an option that is not a whole number from ``least`` on."""
    for name, value in options.items():
        try:
            enough = least <= index(value) < 2**31
        except TypeError:
            enough = False
        if not enough:
            raise SamplerError(f"{name} must be a whole number, at least {least}, got {value!r:.60}")


def whole_numbers(name: str, values: int | Iterable[Any]) -> tuple[int, ...]:
    """One whole number, or several in whatever sequence they come, as a tuple."""
    try:
        numbers = tuple(index(v) for v in (values if isinstance(values, Iterable) else (values,)))
    except TypeError:
        numbers = ()
    if not numbers or not all(abs(number) < 2**31 for number in numbers):
        raise SamplerError(f"{name} takes whole numbers, one for each hop, got {values!r:.60}")
    return numbers
