"""What the tests of studies share."""

from __future__ import annotations

from threads import one_thread

__all__ = ["one_thread"]
