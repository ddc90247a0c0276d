"""Errors that a user can correct. The message says what is wrong, where, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from typing import Any


class HandfulError(Exception):
    """A mistake that the user can correct. The command line prints the message as one line and exits with status 2.

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
    """A data set, file or table that cannot be found or read."""


class SamplerError(HandfulError):
    """A sampler that does not exist, or options that it does not accept."""


class RunError(HandfulError):
    """A run folder that is in use, is damaged, or has a different configuration."""


class DivergedError(HandfulError):
    """The loss of a training run is no longer finite."""


class RankError(HandfulError):
    """One of several training processes did not start, has ended, or has different data."""


class ToldElsewhere(RankError):
    """Another rank has failed and prints the error; this rank prints nothing."""


def first_line(error: BaseException) -> str:
    """The first line of the message of a library's error; the name of its class if the message is empty.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyError())
    ('one', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def require_kind(name: str, value: object, kind: Any, words: str) -> None:
    """Raise an error if ``value`` of the option ``name`` does not have the type ``kind``. ``words`` describes the type
    in the message.

    >>> require_kind("model", "sage", int, "a number")
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: model takes a number, got 'sage'
    """
    if not isinstance(value, kind):
        raise HandfulError(f"{name} takes {words}, got {value!r}")


MANY = 20
"""The maximum number of names that a message lists."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The error message for an unknown name. The message suggests the most similar known names.

    Args:
        kind: the kind of thing that was named, such as ``"split"``.
        name: the name that the user wrote.
        known: the valid names.

    >>> unknown("sampler", "cluter", ["cluster", "rns"])
    "there is no sampler 'cluter': did you mean cluster?"
    """
    names = sorted(known)
    lower, wanted = {one.lower(): one for one in names}, str(name).lower()
    close = get_close_matches(wanted, lower, n=3, cutoff=0.66) or [n for n in lower if wanted and n.startswith(wanted)]
    near = [lower[one] for one in close]
    shown = names if len(names) <= MANY else [*names[:MANY], f"… ({len(names)} in all)"]
    hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(shown)}"
    return f"there is no {kind} '{name}': {hint}"


def require_name(kind: str, name: str, known: Collection[str], error: type[HandfulError] = HandfulError) -> None:
    """Raise the ``error`` of ``unknown`` if ``name`` is not in ``known``.

    >>> require_name("sampler", "cluster", ["cluster", "rns"])
    """
    if name not in known:
        raise error(unknown(kind, name, known))


@contextmanager
def blaming(where: object) -> Iterator[None]:
    """A context manager that adds ``where``, the file or folder of a graph, to the message of an error about the graph.

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
def explaining(words: str, *causes: type[Exception], kind: type[HandfulError] = HandfulError) -> Iterator[None]:
    """A context manager that converts the exceptions ``causes`` to an error with ``words``; ``{}`` in ``words`` is
    replaced by the first line of the exception's message.

    >>> with explaining("lr is not a number: {}", ValueError, TypeError):
    ...     float("fast")
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: lr is not a number: could not convert string to float: 'fast'
    """
    try:
        yield
    except causes as error:
        raise kind(words.replace("{}", first_line(error))) from None


def needing(words: str, kind: type[HandfulError] = HandfulError) -> AbstractContextManager[None]:
    """A context manager for the import of an optional package: if it is not installed, raise an error with ``words``.

    >>> with needing("this needs Ray: pip install 'handful[ray]'"):
    ...     import handful.ray
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: this needs Ray: pip install 'handful[ray]'
    """
    return explaining(words, ImportError, kind=kind)


@contextmanager
def readable(what: object, advice: str, kind: type[HandfulError] = DatasetError) -> Iterator[None]:
    """A context manager that converts any exception about the broken file ``what`` to an error of one line with
    ``advice``.

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
