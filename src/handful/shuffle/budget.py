"""``Budget``: room for what comes next, made by sending what waits in memory to files."""

from __future__ import annotations

import math

from handful.budget import anonymous, in_words
from handful.errors import HandfulError
from handful.kernels.memory import release
from handful.shuffle.scratch import Scratch

SLACK = 16
"""One part in so many of a budget is left for what is not counted: the allocator's gaps, small tensors, Python."""


class Budget:
    """So many bytes of anonymous memory for the whole process: libraries, model and activations included.

    What is held is asked of the system again and again, so that nothing is left out of the account.

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
        while needed > (free := self.free()):
            if scratch.held == 0:
                raise self.too_small(needed, free, what)
            scratch.spill(needed - free)  # of which the allocator may keep some, in the gaps between other arrays
            release()

    def holds(self, needed: int, scratch: Scratch) -> bool:
        """Whether ``needed`` more bytes fit when all that waits in memory has gone to files."""
        release()
        return needed <= self.free() + scratch.held

    def require(self, needed: int, scratch: Scratch, what: str) -> None:
        """Refuse what the budget does not hold.

        Raises:
            HandfulError: it does not.
        """
        if not self.holds(needed, scratch):
            raise self.too_small(needed, self.free() + scratch.held, what)

    def too_small(self, needed: int, free: int, what: str) -> HandfulError:
        """The error that says what would do; what a part needs falls about as its nodes do."""
        held = self.memory - self.memory // SLACK - free
        enough = (held + needed) * SLACK / (SLACK - 1)
        parts = f"at least {math.ceil(self.parts * needed / free)} parts, or " if free > 0 else ""
        return HandfulError(
            f"{what} of {self.parts} takes {in_words(needed)} beside the {in_words(held)} that this process holds, and "
            f"memory is {in_words(self.memory)}: use {parts}memory {_rounded_up(enough)}"
        )


def _rounded_up(count: float) -> str:
    """A size for people that is not below ``count``."""
    unit = 2**30 if count >= 2**30 else 2**20
    return in_words(math.ceil(count * 10 / unit) * unit / 10)
