"""Mistakes that a user can correct, as errors that say what is wrong, where, and what to do next."""

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
    """A graph that cannot be used as it is: bad index, shape, dtype, label or mask."""


class DatasetError(HandfulError):
    """A data set that cannot be found or read."""


class SamplerError(HandfulError):
    """A sampler that does not exist, or options that it cannot take."""


class RunError(HandfulError):
    """A run folder that is in use, broken, or made with another configuration."""


class DivergedError(HandfulError):
    """Training whose loss is no longer finite."""


class RankError(HandfulError):
    """One of several processes that train together did not come up, is gone, or has other data."""


class ToldElsewhere(RankError):
    """Another rank has failed and says why: the command line is silent here."""


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its class where it says nothing.

    >>> first_line(ValueError("one\\ntwo")), first_line(KeyError())
    ('one', 'KeyError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def require_kind(name: str, value: object, kind: Any, words: str) -> None:
    """Refuse a value of another kind than the option ``name`` takes, which ``words`` say.

    >>> require_kind("model", "sage", int, "a number")
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: model takes a number, got 'sage'
    """
    if not isinstance(value, kind):
        raise HandfulError(f"{name} takes {words}, got {value!r}")


MANY = 20
"""More names than this are not listed."""
GONE = dict.fromkeys(("hubs", "rns-hubs"), "take first_hop=exact and mean_field=1 in place of hubs in every part")
"""Names of options and methods that older versions had, and what to do instead."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that does not exist, with the nearest names that do.

    Args:
        kind: what was named, such as ``"split"``.
        name: what the user wrote.
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
    """Inside, an error of a graph names the file or folder that the graph comes from.

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
    """Inside, whatever a library raises of a broken file is one line with ``advice``: it may be of many kinds.

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
