"""Tables as the paper prints them: best in bold, second best in italics. Cells know their rank, not their markup."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

TITLES = {
    "full": "Full graph",
    "neighbor": "Neighbour sampling",
    "cluster": "ClusterGCN",
    "saint": "GraphSAINT",
    "ladies": "LADIES",
    "rns": "RNS",
}
"""The names of methods that people read."""


@dataclass(frozen=True)
class Cell:
    """One entry: its text, and 1 or 2 if it is the best or second best of its column."""

    text: str
    rank: int = 0


def percent(value: Mapping[str, float | None]) -> str:
    """A mean and its 95% CI, given as fractions, in percent; without the CI where one seed has none."""
    mean, half = (math.nan if number is None else number for number in (value["mean"], value["ci95"]))
    return f"{100 * mean:.2f}" + ("" if math.isnan(half) else f" ± {100 * half:.2f}")


def best_two(values: Sequence[float], highest: bool) -> list[int]:
    """1 for the best value, 2 for the second best, 0 for the others; equal values share a rank."""
    order = sorted(set(values), reverse=highest)[:2]
    return [order.index(v) + 1 if v in order else 0 for v in values]


def markdown(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The table in Markdown."""
    marks = {0: "", 1: "**", 2: "*"}
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(head) - 1)])]
    lines += [" | ".join(f"{marks[c.rank]}{c.text}{marks[c.rank]}" for c in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def rich_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """The table for a terminal."""
    styles = {0: "", 1: "bold", 2: "italic"}
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(head):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*[Text(cell.text, style=styles[cell.rank]) for cell in row])
    return table
