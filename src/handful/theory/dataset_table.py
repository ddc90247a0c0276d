"""A data set's row in the paper's table of datasets, and what the table's own numbers say of each other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from handful.graph import MASKS, Graph
from handful.random import generator
from handful.theory.structure import part_structure

COLUMNS = (
    "nodes",
    "edges",
    "density",
    "average_degree",
    "isolated",
    "components",
    "homophily",
    "diameter",
    "average_distance",
)
"""The paper's, in its order."""


@dataclass(frozen=True)
class Statistics:
    """The paper's row, measured on the graph with both directions of every edge and without loops.

    ``edges`` counts both directions; ``density`` is edges / (N·(N − 1)) and ``average_degree`` edges / N.
    ``homophily`` is the share of edges whose ends have the same label. ``diameter`` is the largest distance that the
    searches met, a lower bound; ``average_distance`` is over pairs in the same component, estimated from the sources.
    """

    nodes: int
    edges: int
    density: float
    average_degree: float
    isolated: int
    components: int
    homophily: float
    diameter: int
    average_distance: float
    classes: int | None
    features: int
    split: dict[str, int] | None
    undirected: bool
    """Whether the graph was so when it was loaded."""

    def as_dict(self) -> dict[str, Any]:
        """The values as JSON has them."""
        return asdict(self)


def statistics(graph: Graph, sources: int = 16, sweeps: int = 8, seed: int = 0) -> Statistics:
    """Measure ``graph``; distances by ``sources`` searches from random nodes and ``sweeps`` from farthest ones."""
    both = graph.to_undirected().without_loops()
    y = None if graph.y is None else graph.y.cpu().numpy()
    found = part_structure(*both.topology, generator(seed), y, sources, sweeps)
    n = found.nodes
    masks = {name.removesuffix("_mask"): getattr(graph, name) for name in MASKS}
    return Statistics(
        nodes=n,
        edges=found.edges,
        density=found.edges / (n * (n - 1)) if n > 1 else float("nan"),
        average_degree=found.average_degree,
        isolated=found.isolated,
        components=found.components,
        homophily=found.homophily,
        diameter=found.diameter_lower_bound,
        average_distance=found.average_distance,
        classes=graph.num_classes,
        features=graph.num_features,
        split=None if graph.train_mask is None else {name: int(mask.sum()) for name, mask in masks.items()},
        undirected=bool(graph.undirected),
    )


# -- the paper's table ----------------------------------------------------------------------------------------------

PAPER = {
    name: dict(zip(COLUMNS, row.split(), strict=True))
    for name, row in {
        "ogbn-arxiv": "169K 1.17M 4.10e-5 13.8 0 1 0.65 24 6.12",
        "ogbn-products": "2.45M 61.9M 1.03e-5 50.2 48K 52K 0.81 29 5.35",
        "pokec": "1.63M 30.6M 1.15e-5 27.3 0 1 0.42 14 4.68",
        "hm-categories": "46.5K 10.7M 4.95e-3 460.9 0 1 0.38 13 2.45",
        "pokec-regions": "1.63M 30.6M 1.15e-5 27.3 0 1 0.98 14 4.68",
        "web-topics": "2.9M 12.4M 1.47e-6 8.6 0 1 0.55 36 3.08",
        "tolokers-2": "11.8K 2.33M 1.67e-2 88.3 0 1 0.10 11 2.79",
        "city-reviews": "148.8K 1.2M 5.42e-5 15.7 0 1 0.69 19 4.91",
        "artnet-exp": "50.4K 560K 2.21e-4 11.1 0 1 0.28 13 4.42",
        "web-fraud": "2.9M 12.9M 1.53e-6 8.6 0 1 0.32 36 3.08",
    }.items()
}
"""Table "Graph statistics for the datasets used in our experiments", as it is printed."""

SAME_GRAPH = (("pokec", "pokec-regions"), ("web-topics", "web-fraud"))
"""Rows that differ in their labels alone."""


@dataclass(frozen=True)
class Printed:
    """A shortened number: it may stand for anything from ``low`` to ``high``."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def over(self, other: Printed) -> Printed:
        """The range of the quotient."""
        return Printed(self.low / other.high, self.high / other.low)

    def meets(self, other: Printed) -> bool:
        """Whether one number could stand behind both."""
        return self.low <= other.high and other.low <= self.high

    def times(self, factor: float) -> Printed:
        """The range multiplied."""
        return Printed(self.low * factor, self.high * factor)


def printed(text: str) -> Printed:
    """What a number of the table may stand for: half a unit of its last digit less, or a whole unit more.

    Most of the table is rounded, but 46,563 nodes are printed as 46.5K and 560,696 edges as 560K.

    >>> printed("1.17M")
    Printed(low=1165000.0, high=1180000.0)
    """
    unit = {"K": 1e3, "M": 1e6}.get(text[-1], 1.0)
    digits, _, exponent = text.rstrip("KM").partition("e")
    unit *= 10.0 ** int(exponent or 0)
    decimals = len(digits.partition(".")[2])
    # Rounded off, so that bounds which are whole numbers come out whole.
    low, high = (float(f"{(float(digits) + units * 10**-decimals) * unit:.12g}") for units in (-0.5, 1.0))
    return Printed(low, high)


def compared(name: str, measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Each column of data set ``name`` that was measured beside what the paper prints, and whether the two agree."""
    found = []
    for column in COLUMNS:
        value = measured.get(column)
        if value is None or not np.isfinite(value):
            continue
        paper = printed(PAPER[name][column])
        once = column in ("edges", "density") and value not in paper and value / 2 in paper
        note = "the paper counts each edge once here" if once else ""
        found.append(
            {"column": column, "paper": PAPER[name][column], "measured": value, "agrees": value in paper, "note": note}
        )
    return found


def inconsistencies() -> list[dict[str, str]]:
    """Where rows of the paper's table cannot be right together with their caption or with each other.

    The caption says that edges are counted twice, so edges / nodes must be the average degree and edges / nodes² the
    density, as far as rounding lets us tell; and two rows on the same graph must have the same topology.
    """
    found = [{"dataset": name, "what": what} for name, row in PAPER.items() for what in _within(row)]
    for first, second in SAME_GRAPH:
        for column in COLUMNS:
            a, b = PAPER[first][column], PAPER[second][column]
            if column != "homophily" and not printed(a).meets(printed(b)):
                what = f"one graph has {column.replace('_', ' ')} {a} in one row and {b} in the other"
                found.append({"dataset": f"{first}, {second}", "what": what})
    return found


def _within(row: dict[str, str]) -> list[str]:
    nodes, edges, degree, density = (printed(row[c]) for c in ("nodes", "edges", "average_degree", "density"))
    per_node = edges.over(nodes)
    found = []
    if not per_node.over(nodes).meets(density):
        found.append(f"{row['edges']} edges on {row['nodes']} nodes do not make density {row['density']}")
    if per_node.meets(degree):
        return found
    if per_node.times(2).meets(degree):
        found.append(
            f"{row['edges']} edges and density {row['density']} count each edge once, against the caption; average "
            f"degree {row['average_degree']} counts it twice"
        )
    else:
        meant = degree.low * nodes.low, degree.high * nodes.high
        found.append(
            f"{row['edges']} edges and density {row['density']} fit average degree {row['average_degree']} neither "
            f"counted once nor twice: that degree means {_short(meant[0])} to {_short(meant[1])} edges, both directions"
        )
    return found


def _short(value: float) -> str:
    return f"{value / 1e6:.4g}M" if value >= 1e6 else f"{value / 1e3:.4g}K"
