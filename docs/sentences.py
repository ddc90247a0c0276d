"""Draws random sentences of docstrings and help texts, to be judged by a reader: ``python docs/sentences.py SEED``.

A sentence is good if one reading is enough. At most 3 of 100 may need a second one.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from handful import cli

SOURCE = Path(inspect.getfile(cli)).parents[1]


def docstrings() -> Iterator[tuple[str, str]]:
    """Place and text of every bare string in the source: of modules, classes, functions and constants."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value = node.value if isinstance(node, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", inspect.cleandoc(value.value)


def helps(command: Any = None, name: str = "handful") -> Iterator[tuple[str, str]]:
    """Place and text of the help of every command and option that help shows."""
    command = command or get_command(cli.app)
    yield name, command.help or ""
    for one in command.params:
        if not getattr(one, "hidden", False):
            yield f"{name} {one.opts[0]}", getattr(one, "help", None) or ""
    for key, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{name} {key}")


def sentences(text: str) -> list[str]:
    """The sentences of a docstring, without its examples.

    >>> sentences("It makes a graph. It then saves it.\\n\\nArgs:\\n    m: the\\n        number of parts.\\n")
    ['It makes a graph.', 'It then saves it.', 'm: the number of parts.']
    """
    text = re.sub(r"^ *>>>.*(?:\n.+)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?:Args|Returns|Raises|Example):$", "", text, flags=re.MULTILINE)
    pieces = re.split(r"\n\s*\n|\n(?= {4}\w[\w, ]*: )|\n(?=- )", text)
    plain = [" ".join(re.sub(r"^\s*- ", "", piece).split()) for piece in pieces]
    found = [one.strip() for piece in plain for one in re.split(r"(?<=[^.\d][.!?])\s+(?=[A-Z`])", piece)]
    return [one for one in found if len(one.split()) > 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=100)
    asked = parser.parse_args()
    every = dict.fromkeys((place, one) for place, text in (*docstrings(), *helps()) for one in sentences(text))
    drawn = random.Random(asked.seed).sample(list(every), asked.count)
    print(f"{asked.count} of {len(every)} sentences, seed {asked.seed}")
    for i, (place, sentence) in enumerate(drawn, 1):
        print(f"{i:3d}. {sentence}  [{place}]")


if __name__ == "__main__":
    main()
