"""A data set's row in the paper's table of data sets, measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
"""The columns of the paper's table, in its order."""


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
        """The values by name."""
        return asdict(self)


def statistics(graph: Graph, sources: int = 16, sweeps: int = 8, seed: int = 0) -> Statistics:
    """Measure ``graph``.

    Args:
        graph: any; a directed one is measured with both directions of every edge.
        sources: how many breadth-first searches start at random nodes.
        sweeps: how many more start at a node that is farthest from the start of the one before.
        seed: of the random nodes.

    >>> found = statistics(Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], num_nodes=5))
    >>> found.edges, found.isolated, found.components, found.diameter
    (6, 1, 2, 3)
    """
    both = graph.to_undirected().without_loops()
    y = None if graph.y is None or graph.y.is_floating_point() else graph.y.cpu().numpy()  # homophily is of classes
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
