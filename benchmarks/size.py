"""How large the package is: ``python -m benchmarks.size``.

A line of code is a line that has a token of code. Comments, blank lines and documentation (every bare string) are left
out. ``tests/test_layout.py`` holds the package to the limits in ``pyproject.toml``, ``[tool.handful.size]``.
"""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "handful"
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
"""Kinds of tokens that make no line a line of code."""


@dataclass(frozen=True)
class Size:
    """How many lines of code in how many modules."""

    lines: int
    modules: int


def code_lines(source: str) -> int:
    """How many lines of ``source`` are code.

    >>> code_lines("x = 1  # why"), code_lines("# why"), code_lines("'What it is.'")
    (1, 0, 0)
    """
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation_lines(source))


def documentation_lines(source: str) -> set[int]:
    """The numbers of the lines that bare strings stand on: documentation of modules, classes, functions, attributes."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def measure(folder: Path = PACKAGE) -> Size:
    """The size of all modules in ``folder``."""
    counts = [code_lines(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    return Size(sum(counts), len(counts))


def limits() -> Size:
    """The size that the package may have."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return Size(**tomllib.load(file)["tool"]["handful"]["size"])


def main() -> None:
    allowed, found = limits(), measure()
    rooms = {room.name: measure(room) for room in PACKAGE.iterdir() if any(room.glob("*.py"))}
    for name, size in sorted(rooms.items(), key=lambda item: -item[1].lines):
        print(f"{name:12s} {size.modules:6d} {size.lines:7d}")
    print(f"{'all':12s} {found.modules:6d} {found.lines:7d}")
    print(f"{'allowed':12s} {allowed.modules:6d} {allowed.lines:7d}")


if __name__ == "__main__":
    main()
