"""A budget of memory: sizes as people write them, what the process holds, and room for what comes next."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from handful.errors import HandfulError
from handful.kernels.memory import release
from handful.shuffle.scratch import Scratch

UNITS = {"b": 1, **{f"{letter}b": 1000**k for k, letter in enumerate("kmgt", 1)}}
UNITS |= {f"{letter}ib": 1024**k for k, letter in enumerate("kmgt", 1)}
SLACK = 16
"""One part in so many of a budget is left for what is not counted: the allocator's gaps, small tensors, Python."""
_STATUS = Path("/proc/self/status")


def parse_size(size: Any, name: str = "memory") -> int:
    """A size in bytes: a whole number of them, or a text such as ``8GiB``, ``500 MB`` or ``1.5GB``.

    >>> parse_size("8GiB"), parse_size("500 MB"), parse_size(2**20)
    (8589934592, 500000000, 1048576)
    """
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b|b)\s*", str(size), re.IGNORECASE)
    if found is None or (count := int(float(found[1]) * UNITS[found[2].lower()])) <= 0:
        raise HandfulError(f"{name} takes a size such as 8GiB or 500MB, got {size!r}")
    return count


def size_text(size: float) -> str:
    """A size for people, rounded up.

    >>> size_text(3 * 2**29), size_text(10**7)
    ('1.5GiB', '10MiB')
    """
    unit, name = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
    steps = 10 if size >= 2**30 else 1
    return f"{-(-size * steps // unit) / steps:g}{name}"


def anonymous() -> int:
    """The anonymous memory of this process in bytes (RssAnon): what it made itself, and no page of a file.

    Raises:
        HandfulError: this system does not tell.
    """
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", _STATUS.read_text())
    except OSError:
        found = None
    if found is None:
        raise HandfulError("memory needs a system that tells how much a process holds (Linux 4.5 and later)")
    return 1024 * int(found[1])


class Budget:
    """So many bytes of anonymous memory for the whole process, libraries, model and activations included.

    Args:
        memory: the bytes.
        parts: m, for the words of the error.
    """

    def __init__(self, memory: int, parts: int) -> None:
        self.memory, self.parts = memory, parts

    def free(self) -> int:
        """How much more may be taken."""
        return self.memory - self.memory // SLACK - anonymous()

    def make_room(self, needed: int, scratch: Scratch, what: str) -> None:
        """Move what waits in memory to files until ``needed`` more bytes fit into the budget.

        Raises:
            HandfulError: they do not fit even so.
        """
        if needed <= self.free():
            return
        release()
        if needed > (free := self.free()):
            scratch.spill(needed - free)
            release()
        if needed > (free := self.free()):
            raise self.too_small(needed, free, what)

    def require(self, needed: int, scratch: Scratch, what: str) -> None:
        """Refuse what will not fit even when all that waits in memory has gone to files.

        Raises:
            HandfulError: it will not.
        """
        if needed > (free := self.free() + scratch.held):
            raise self.too_small(needed, free, what)

    def too_small(self, needed: int, free: int, what: str) -> HandfulError:
        """The error that says what would do; what a part needs falls about as its nodes do."""
        budget = (self.memory - self.memory // SLACK - free + needed) * SLACK / (SLACK - 1)
        parts = f"at least {-(-self.parts * needed // free)} parts, or " if free > 0 else ""
        return HandfulError(
            f"memory {size_text(self.memory)} cannot hold {what} of {self.parts} parts, which takes "
            f"{size_text(needed)} where {size_text(max(0, free))} are left: use {parts}memory {size_text(budget)}"
        )
