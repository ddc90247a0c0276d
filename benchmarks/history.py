"""Shows ``benchmarks/history.jsonl``, and draws it: ``python -m benchmarks.history [picture.svg]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.record import MEASURES, Line, read_history
from handful.finding import Axis, Chart, Series, Table, View, text_table
from handful.report.tables import rich_table
from handful.report.vega import draw


def history_table(lines: Sequence[Line]) -> Table:
    """A row for every line."""
    rows = [
        [line["commit"][:7], line["date"][:10], line["cpu"], *(f"{line[name]:g}" for name in MEASURES)]
        for line in lines
    ]
    return text_table("Speed and size, commit by commit", ["commit", "date", "CPU", *MEASURES], rows)


def history_chart(lines: Sequence[Line]) -> Chart:
    """A panel for every measure; each processor has a line of its own."""
    commits = [line["commit"][:7] for line in lines]
    places = list(range(1, len(lines) + 1))
    processors = list(dict.fromkeys(line["cpu"] for line in lines))
    views = []
    for name, label in MEASURES.items():
        series = []
        for color, cpu in enumerate(processors):
            own = [(place, line[name]) for place, line in zip(places, lines, strict=True) if line["cpu"] == cpu]
            series.append(Series(cpu, [x for x, _ in own], [y for _, y in own], color=color))
        x = Axis(f"commits, {commits[0]} to {commits[-1]}", whole=True)
        views.append(View(label, "line", x, Axis(label.rpartition(": ")[2], zero=True), series))
    return Chart("history", "Speed and size, commit by commit", views, together=True)


def main(picture: str | None = None) -> None:
    lines = read_history()
    if not lines:
        sys.exit("There is no history yet: make bench writes its first line.")
    Console().print(rich_table(history_table(lines)))
    if picture is not None:
        draw(history_chart(lines), Path(picture))
        print(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
