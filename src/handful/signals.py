"""Defer SIGINT and SIGTERM until unsaved data are saved."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM)
EVERY = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")]
"""All signals that stop a process; Windows has only some of them."""


@dataclass
class Deferred:
    """Holds the signal that ``deferred`` has deferred, if any."""

    received: signal.Signals | None = None

    def deliver(self, number: int) -> None:
        """Raise a signal that was deferred in this or another process, so that it acts at once. Call this inside
        ``deferred``.
        """
        if self.received is None:
            signal.raise_signal(number)  # the first signal is deferred here, so the second one acts at once
        signal.raise_signal(number)


@contextmanager
def deferred(until: str | None) -> Iterator[Deferred]:
    """A context manager that defers the first SIGINT or SIGTERM and prints a message. A second signal acts at once.

    A signal for which the user has set a handler keeps that handler. On threads other than the main thread, nothing is
    deferred.

    Args:
        until: text for the message that says when the signal acts; ``None`` for no message.

    >>> with deferred("after this line") as signals:
    ...     signals.received is None
    True
    """
    signals = Deferred()

    def keep(number: int, frame: Any) -> None:
        for one, usual in before.items():
            signal.signal(one, usual)
        signals.received = signal.Signals(number)
        if until is not None:
            with suppress(RuntimeError):  # the signal came while something else was being written
                print(f"handful: stopping {until}; the same signal again stops at once", file=sys.stderr, flush=True)

    main = threading.current_thread() is threading.main_thread()
    usual = (signal.SIG_DFL, signal.default_int_handler, terminate)
    with handlers_kept([one for one in STOPPING if main and signal.getsignal(one) in usual]) as before:
        for one in before:
            signal.signal(one, keep)
        yield signals


def terminate(number: int, frame: Any) -> None:
    """The command line's handler for SIGTERM: raise ``SystemExit``, so that open files are closed before the process
    ends.
    """
    raise SystemExit(128 + number)


@contextmanager
def handlers_kept(numbers: Iterable[signal.Signals] = EVERY) -> Iterator[dict[signal.Signals, Any]]:
    """A context manager that gives the handlers of the signals ``numbers``, and restores them at its end. By default,
    these are all signals that stop a process: some libraries replace their handlers.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield before
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
