"""Mistakes that a user can correct, as errors that say what is wrong, where, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HandfulError(Exception):
    """A mistake that the user can correct; the command line prints it as one line and exits with status 2.

    >>> import handful as hf
    >>> try:
    ...     hf.load("debain")
    ... except HandfulError as error:
    ...     print(error)
    there is no data set or file 'debain': did you mean debian?
    """


class GraphError(HandfulError):
    """A graph that cannot be used as it is: bad index, shape, dtype, label or mask."""


class DatasetError(HandfulError):
    """A data set that cannot be found or read."""


class SamplerError(HandfulError):
    """A sampler that does not exist, or options that it cannot take."""


class RunError(HandfulError):
    """A run folder that is in use, broken, or made with another configuration."""


class DivergedError(HandfulError):
    """Training whose loss is no longer finite."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the nearest names that do.

    Args:
        kind: what was named, such as ``"split"``.
        name: what the user wrote.
        known: the names that exist.

    >>> unknown("sampler", "cluter", ["cluster", "rns"])
    "there is no sampler 'cluter': did you mean cluster?"
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(names)}"
    return f"there is no {kind} '{name}': {hint}"
