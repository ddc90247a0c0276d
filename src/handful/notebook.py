"""Output for notebooks: HTML tables that describe objects, and a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import Any, TextIO


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """Make a small HTML table of names and values, with a title.

    >>> html_table("Graph", {"nodes": "3"})
    '<table><caption>Graph</caption><tr><th>nodes</th><td>3</td></tr></table>'
    """
    lines = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"


class Bar:
    """A progress bar, which is one line in a terminal or an HTML element in a notebook.

    Args:
        total: the total number of units.
        unit: the name of the unit.
        stream: the output stream, by default stderr. If it is not a terminal, only the last state is written.
    """

    SECONDS = 0.1
    """The minimum time between two updates, in seconds."""

    def __init__(self, total: int, unit: str, stream: TextIO | None = None) -> None:
        self.total, self.unit, self.stream = total, unit, stream or sys.stderr
        self.begun, self.drawn, self.line = False, 0.0, ""
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        self.in_notebook = stream is None and getattr(shell, "kernel", None) is not None

    def show(self, done: int, words: str) -> None:
        """Show that ``done`` units are done, and the text ``words``."""
        self.line = f"{done}/{self.total} {self.unit} · {words}"
        self.done = done
        if done >= self.total or time.monotonic() - self.drawn >= self.SECONDS:
            self.drawn = time.monotonic()
            self._draw()

    def _draw(self) -> None:
        if self.in_notebook:
            notebook: Any = import_module("IPython.display")
            shown = notebook.HTML(f'<progress value="{self.done}" max="{self.total}"></progress> {escape(self.line)}')
            notebook.display(shown, display_id=f"handful-{id(self)}", update=self.begun)
            self.begun = True
        elif self.stream.isatty():
            full = round(20 * self.done / max(1, self.total))
            self.stream.write(f"\r{'━' * full}{' ' * (20 - full)} {self.line}"[:80] + "\x1b[K")
            self.stream.flush()

    def end(self) -> None:
        """Draw the final state, and end the line."""
        self._draw()
        if not self.in_notebook:
            self.stream.write("\n" if self.stream.isatty() else self.line + "\n")
            self.stream.flush()
