"""What Random Node Sampling does to the graph as m grows (paper, "RNS sampled graphs properties")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from handful.graph import Graph
from handful.kernels.csr import class_edges
from handful.kernels.traverse import components, sweep
from handful.random import generator
from handful.samplers.random_node import RandomNodes


@dataclass(frozen=True)
class PartStructure:
    """One sampled graph.

    ``edges`` counts as the graph does (an undirected edge twice), and ``average_degree`` is edges over nodes.
    ``components`` counts isolated nodes too; ``largest_component`` is how many nodes it holds.
    ``diameter_lower_bound`` is the largest distance that was met. ``average_distance`` is over ordered pairs of
    distinct nodes of the same component. ``homophily`` is the share of edges whose ends have the same known label.
    """

    nodes: int
    edges: int
    average_degree: float
    isolated: int
    components: int
    largest_component: int
    diameter_lower_bound: int
    average_distance: float
    homophily: float


MEASURES = tuple(field.name for field in fields(PartStructure))


def edge_homophily(indptr: np.ndarray, indices: np.ndarray, y: np.ndarray | None) -> float:
    """The share of edges between equal labels, among the edges whose two ends have a label; NaN if there are none.

    Args:
        indptr, indices: the CSR of the edges.
        y: ``(N,)``, -1 where the label is not known; ``None`` where there are no labels.

    >>> pair = np.array([0, 1, 2]), np.array([1, 0])
    >>> edge_homophily(*pair, np.array([4, 4])), edge_homophily(*pair, np.array([4, 5]))
    (1.0, 0.0)
    """
    if y is None:
        return float("nan")
    inside, known = (np.zeros(int(y.max(initial=-1)) + 1, np.int64) for _ in range(2))
    class_edges(indptr, indices, y, inside, known)
    return float(inside.sum() / known.sum()) if known.any() else float("nan")


def part_structure(
    indptr: np.ndarray,
    indices: np.ndarray,
    rng: np.random.Generator,
    y: np.ndarray | None = None,
    sources: int = 16,
    sweeps: int = 4,
) -> PartStructure:
    """Measure one graph, given as the CSR of both directions of its edges.

    Distances are found by breadth-first searches. Some start at random nodes, a node of a component C with probability
    ∝ |C| − 1: then the mean over sources of their mean distance to the rest of C is an unbiased estimate of the average
    distance. Others run in the largest component, each from a node that is farthest from the start of the one before
    (multi-sweep). The largest distance of all is the bound on the diameter.

    Args:
        indptr, indices: the CSR of the edges.
        rng: for the sources.
        y: ``(N,)``, labels, for the homophily.
        sources: how many searches start at random nodes. If it is the number of nodes or more, every node is a source,
            and distances are exact.
        sweeps: how many searches run in the largest component.

    >>> path = np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2], np.int32)
    >>> found = part_structure(*path, np.random.default_rng(0))
    >>> found.components, found.diameter_lower_bound, round(found.average_distance, 3)
    (1, 3, 1.667)
    """
    n = len(indptr) - 1
    degree = np.diff(indptr)
    count, label = components(indptr, indices)
    size = np.bincount(label, minlength=1)
    others = size[label] - 1
    if not others.any():
        starts = np.empty(0, np.int64)
    elif sources >= n:
        starts = np.flatnonzero(others)
    else:
        starts = np.searchsorted(np.cumsum(others), rng.integers(0, others.sum(), sources), side="right")
    seen = sweep(indptr, indices, starts)
    weight = seen.reached - 1 if sources >= n else np.ones(len(starts))
    bound = int(seen.eccentricity.max(initial=0))
    # The first sweep starts at the hub of the largest component, which is central: the farthest node is then far out.
    at = int(np.argmax(np.where(label == size.argmax(), degree, -1))) if n else 0
    for _ in range(sweeps if n else 0):
        step = sweep(indptr, indices, np.array([at]))
        at, bound = int(step.farthest[0]), max(bound, int(step.eccentricity[0]))
    return PartStructure(
        nodes=n,
        edges=len(indices),
        average_degree=len(indices) / n if n else float("nan"),
        isolated=int((degree == 0).sum()),
        components=count,
        largest_component=int(size.max()),
        diameter_lower_bound=bound,
        average_distance=float(np.average(seen.total / (seen.reached - 1), weights=weight))
        if len(starts)
        else float("nan"),
        homophily=edge_homophily(indptr, indices, y),
    )


def structure(
    graph: Graph,
    parts: Sequence[int],
    epochs: int = 5,
    seed: int = 42,
    sources: int = 16,
    sweeps: int = 4,
    report: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """The structure of sampled graphs for every m in ``parts``: mean and standard deviation over ``epochs``.

    The value of an epoch is the mean over its m parts (as in the paper, a full pass over all batches); the standard
    deviation is that of the epochs' values. Edges are taken in both directions, once each, and loops are left out.

    Args:
        graph: any.
        parts: the numbers of parts, m.
        epochs: how many random partitions for each m.
        seed: of the partitions.
        sources, sweeps: of each part, as for ``part_structure``. Parts are smaller for larger m, so the cost hardly
            grows with m.
        report: called with m after each part.

    >>> ring = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> [(row["m"], row["nodes"]["mean"]) for row in structure(ring, [1, 2], epochs=2)]
    [(1, 4.0), (2, 2.0)]
    """
    graph = graph.to_undirected().without_loops().coalesce()
    y = None if graph.y is None or graph.y.is_floating_point() else graph.y.cpu().numpy()  # homophily is of classes
    out = []
    for m in parts:
        rows = []
        for epoch in range(epochs):
            found = []
            for index, (nodes, adjacency) in enumerate(RandomNodes(m).subgraphs(graph, seed, epoch)):
                labels = None if y is None else y[nodes.cpu().numpy()]
                topology = adjacency.indptr.cpu().numpy(), adjacency.indices.cpu().numpy()
                rng = generator(seed, epoch, m, index)
                found.append(part_structure(*topology, rng, labels, sources, sweeps))
                if report is not None:
                    report(m)
            rows.append([_mean(found, name) for name in MEASURES])
        table = np.array(rows, float)
        spread = table.std(0, ddof=1) if epochs > 1 else np.full(len(MEASURES), np.nan)
        summary = zip(MEASURES, table.mean(0), spread, strict=True)
        out.append({"m": m, **{name: {"mean": float(mean), "sd": float(sd)} for name, mean, sd in summary}})
    return out


def _mean(found: Sequence[PartStructure], name: str) -> float:
    """The mean over parts; distances are not defined in parts without edges, which are left out."""
    values = np.array([getattr(part, name) for part in found], float)
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else float("nan")
