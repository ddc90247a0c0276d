"""Errors that a user can correct. The message has what is wrong, where, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


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
    """An invalid graph: bad index, shape, dtype, label or mask."""


class DatasetError(HandfulError):
    """A data set that cannot be found or read."""


class SamplerError(HandfulError):
    """A sampler that does not exist, or options that it cannot take."""


class RunError(HandfulError):
    """A run folder that is in use, broken, or made with another configuration."""


class DivergedError(HandfulError):
    """Training whose loss is no longer finite."""


class RankError(HandfulError):
    """One of several training processes did not start, has ended, or has different data."""


class ToldElsewhere(RankError):
    """Another rank has failed and prints the error; this rank prints nothing."""


def first_line(error: BaseException) -> str:
    """The first line of a library's error message; the class of the error if the message is empty.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyError())
    ('one', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def require_kind(name: str, value: object, kind: Any, words: str) -> None:
    """Raise an error if ``value``, given for the option ``name``, is not a ``kind``; ``words`` describes this type.

    >>> require_kind("model", "sage", int, "a number")
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: model takes a number, got 'sage'
    """
    if not isinstance(value, kind):
        raise HandfulError(f"{name} takes {words}, got {value!r}")


MANY = 20
"""The maximum number of names that a message lists."""
GONE = dict.fromkeys(("hubs", "rns-hubs"), "use first_hop=exact and mean_field=1 instead")
"""Options and methods of older versions, each with its replacement."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name, with the most similar known names.

    Args:
        kind: the kind of the name, such as ``"split"``.
        name: the name that the user wrote.
        known: the names that exist.

    >>> unknown("sampler", "cluter", ["cluster", "rns"])
    "there is no sampler 'cluter': did you mean cluster?"
    """
    if name in GONE:
        return f"there is no {kind} '{name}' any more: {GONE[name]}"
    names = sorted(known)
    lower, wanted = {one.lower(): one for one in names}, str(name).lower()
    close = get_close_matches(wanted, lower, n=3, cutoff=0.66) or [n for n in lower if wanted and n.startswith(wanted)]
    near = [lower[one] for one in close]
    shown = names if len(names) <= MANY else [*names[:MANY], f"… ({len(names)} in all)"]
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(shown)}"
    return f"there is no {kind} '{name}': {hint}"


@contextmanager
def blaming(where: object) -> Iterator[None]:
    """In this context, the message of an error about a graph has the file or folder of the graph.

    >>> with blaming("edges.csv"):
    ...     raise GraphError("there is no node 7")
    Traceback (most recent call last):
        ...
    handful.errors.GraphError: edges.csv: there is no node 7
    """
    try:
        yield
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from None


@contextmanager
def readable(what: object, advice: str, kind: type[HandfulError] = DatasetError) -> Iterator[None]:
    """In this context, any exception of a library about a broken file becomes an error of one line with ``advice``.

    >>> with readable("a.zip", "fetch it again"):
    ...     raise ValueError("bad magic")
    Traceback (most recent call last):
        ...
    handful.errors.DatasetError: a.zip cannot be read (bad magic): fetch it again
    """
    try:
        yield
    except HandfulError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise kind(f"{what} cannot be read ({why}): {advice}") from None
