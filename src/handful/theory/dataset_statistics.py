"""A data set's row in the paper's table of data sets, measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from handful.graph import MASKS, Graph
from handful.kernels.csr import class_edges
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
    ``homophily`` is the share of edges whose ends have the same label; see ``homophilies`` for the other two.
    ``diameter`` is the largest distance that the searches met, a lower bound; ``average_distance`` is over pairs in the
    same component, estimated from the sources.
    """

    nodes: int
    edges: int
    density: float
    average_degree: float
    isolated: int
    components: int
    homophily: float
    adjusted_homophily: float
    unbiased_homophily: float
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


def homophilies(indptr: np.ndarray, indices: np.ndarray, y: np.ndarray | None) -> tuple[float, float, float]:
    """Edge, adjusted and unbiased homophily of an undirected graph, over the edges whose two ends have a label.

    With c_k the share of edges inside class k, D_k the edge ends that are in it and M = Σ D_k of them in all:

        edge = Σ c_k,    adjusted = (edge − Σ (D_k/M)²) / (1 − Σ (D_k/M)²)     (Platonov et al., 2023)
        unbiased = (S² − 1) / (S² + 1 − 2·edge),  S = Σ √c_k                   (Mironov and Prokhorenkova, 2024)

    The last is Σ_{i<j} (√(c_i c_j) − c_ij) over Σ_{i<j} (√(c_i c_j) + c_ij), with c_ij half the share of edges between
    two classes: 1 if all edges are inside classes, −1 if none is, about 0 if labels and edges have nothing in common.
    GraphLand, and so some rows of the paper's table, have this one. NaN where it is not defined: no edge, one class.

    Args:
        indptr, indices: the CSR of both directions of every edge.
        y: ``(N,)``, -1 where the label is not known; ``None`` where there are no labels.

    >>> square = np.array([0, 2, 4, 6, 8]), np.array([1, 3, 0, 2, 1, 3, 0, 2])
    >>> homophilies(*square, np.array([0, 0, 1, 1]))
    (0.5, 0.0, 0.0)
    """
    if y is None or not (y >= 0).any():
        return (float("nan"),) * 3
    inside, ends = (np.zeros(int(y.max()) + 1, np.int64) for _ in range(2))
    class_edges(indptr, indices, y, inside, ends)
    total = int(ends.sum())
    if total == 0:
        return (float("nan"),) * 3
    edge = float(inside.sum() / total)
    chance = float(np.square(ends / total).sum())
    spread = float(np.sqrt(inside / total).sum()) ** 2
    below = spread + 1 - 2 * edge
    adjusted = (edge - chance) / (1 - chance) if np.count_nonzero(ends) > 1 else float("nan")
    return edge, adjusted, (spread - 1) / below if np.count_nonzero(ends) > 1 else float("nan")


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
    edge, adjusted, unbiased = homophilies(*both.topology, y)
    n = found.nodes
    masks = {name.removesuffix("_mask"): getattr(graph, name) for name in MASKS}
    return Statistics(
        nodes=n,
        edges=found.edges,
        density=found.edges / (n * (n - 1)) if n > 1 else float("nan"),
        average_degree=found.average_degree,
        isolated=found.isolated,
        components=found.components,
        homophily=edge,
        adjusted_homophily=adjusted,
        unbiased_homophily=unbiased,
        diameter=found.diameter_lower_bound,
        average_distance=found.average_distance,
        classes=graph.num_classes,
        features=graph.num_features,
        split=None if graph.train_mask is None else {name: int(mask.sum()) for name, mask in masks.items()},
        undirected=bool(graph.undirected),
    )
