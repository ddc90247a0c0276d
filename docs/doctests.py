"""An extension of griffe: the examples of docstrings as code, where Markdown would take ``>>>`` for quotations."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Doctests(Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """``text`` with a fence around every example, which ends at an empty line."""
    out: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if not inside and line.lstrip().startswith(">>>"):
            out += [] if not out or not out[-1] else [""]
            out.append("```pycon")
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join(out).strip()
