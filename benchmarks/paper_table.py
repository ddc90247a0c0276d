"""The paper's table of data sets against the data, and its numbers against each other: ``python -m
benchmarks.paper_table``.

Data sets on disk are measured. For the others, the published sizes count.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets import home, load, sources
from handful.finding import Table, text_table
from handful.report.tables import markdown
from handful.studies.presets import read_table
from handful.theory.structure import statistics
from handful.vocabulary import spaced

PAPER: dict[str, dict[str, str]] = read_table("datasets", "tab:datasets")
"""The rows as printed."""
COLUMNS: tuple[str, ...] = ("nodes", "edges", "density", "average_degree", "isolated", "components")
COLUMNS += ("homophily", "diameter", "average_distance")
"""The columns, in the order of the paper."""
SAME_GRAPH = (("pokec", "pokec-regions"), ("web-topics", "web-fraud"))
"""Pairs of rows with the same graph and different labels."""


@dataclass(frozen=True)
class Printed:
    """The range of a rounded number, from ``low`` to ``high``."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def over(self, other: Printed) -> Printed:
        """The range of the quotient."""
        return Printed(self.low / other.high, self.high / other.low)

    def meets(self, other: Printed) -> bool:
        """Whether the ranges overlap."""
        return self.low <= other.high and other.low <= self.high


def printed_range(text: str) -> Printed:
    """The range of a printed number: from half a unit of its last digit below to a whole unit above.

    Most of the table is rounded, but the paper prints 46,563 nodes as 46.5K and 560,696 edges as 560K.

    >>> printed_range("1.17M")
    Printed(low=1165000.0, high=1180000.0)
    """
    unit = {"K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    digits, _, exponent = text.rstrip("KM").partition("e")
    unit *= 10.0 ** int(exponent or 0)
    decimals = len(digits.partition(".")[2])
    # Rounding keeps bounds that are whole numbers whole.
    low, high = (float(f"{(float(digits) + units * 10**-decimals) * unit:.12g}") for units in (-0.5, 1.0))
    return Printed(low, high)


def compare_with_paper(name: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """The measured and the printed value of each column of data set ``name``, and whether they agree."""
    result = []
    for column in COLUMNS:
        value = measured.get(column)
        if value is None or not np.isfinite(value):
            continue
        paper = printed_range(PAPER[name][column])
        once = column in ("edges", "density") and value not in paper and value / 2 in paper
        note = "the paper counts each edge once here" if once else ""
        if column == "homophily" and value not in paper and measured.get("unbiased_homophily", np.nan) in paper:
            note = "the paper has the unbiased homophily here"
        beside = {"column": column, "paper": PAPER[name][column], "measured": value}
        result.append({**beside, "agrees": value in paper, "note": note})
    return result


def find_inconsistencies() -> list[dict[str, str]]:
    """The contradictions between rows of the paper's table, or between a row and the caption.

    By the caption, edges count twice. So edges / nodes must be the average degree and edges / nodes² the density, up to
    rounding. Two rows on the same graph must have the same topology.
    """
    result = [{"dataset": name, "what": what} for name, row in PAPER.items() for what in _within(row)]
    for first, second in SAME_GRAPH:
        for column in COLUMNS:
            a, b = PAPER[first][column], PAPER[second][column]
            if column != "homophily" and not printed_range(a).meets(printed_range(b)):
                what = f"one graph has {column.replace('_', ' ')} {a} in one row and {b} in the other"
                result.append({"dataset": f"{first}, {second}", "what": what})
    return result


def _within(row: dict[str, str]) -> list[str]:
    nodes, edges, degree, density = (printed_range(row[c]) for c in ("nodes", "edges", "average_degree", "density"))
    per_node = edges.over(nodes)
    result = []
    if not per_node.over(nodes).meets(density):
        result.append(f"{row['edges']} edges on {row['nodes']} nodes do not make density {row['density']}")
    if not per_node.meets(degree):
        once = per_node.over(Printed(0.5, 0.5)).meets(degree)
        how = "count each edge once, against the caption" if once else "fit it neither counted once nor twice"
        result.append(
            f"for average degree {row['average_degree']} {row['edges']} edges and density {row['density']} {how}"
        )
    return result


def check_data(place: Path) -> list[dict[str, Any]]:
    """For each data set of the paper's table, its columns as measured or published, beside the paper's."""
    rows = []
    for name in PAPER:
        source = sources()[name]
        here = source.on_disk is None or source.on_disk(place)
        if here:
            measured = asdict(statistics(load(name, root=place)))
        else:
            size, edges = source.nodes, source.edges
            measured = {"nodes": size, "edges": edges}
            if size and edges:
                measured |= {"average_degree": edges / size, "density": edges / (size * (size - 1))}
        rows.append({"name": name, "measured": here, "columns": compare_with_paper(name, measured)})
    return rows


def difference_table(rows: list[dict[str, Any]]) -> Table:
    """The columns that differ from the paper's."""
    found = []
    for data in rows:
        how = "measured" if data["measured"] else "published"
        for item in data["columns"]:
            if not item["agrees"]:
                value = item["measured"]
                text = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
                found.append((data["name"], spaced(item["column"]), f"{text} ({how})", item["paper"], item["note"]))
    return text_table("Not as in the paper's table of datasets", ["", "column", "here", "in the paper", "note"], found)


def main() -> None:
    table = difference_table(check_data(home()))
    print(table.title, markdown(table), sep="\n\n")
    for item in find_inconsistencies():
        print(f"In the paper's table, {item['dataset']}: {item['what']}")


if __name__ == "__main__":
    main()
