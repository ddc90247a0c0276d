"""The structure of a graph, as in the paper's table of data sets, and the structure of its parts.

``statistics`` measures a whole graph. ``structure`` measures its sampled parts, for several values of m (paper, "RNS
sampled graphs properties").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from handful.graph import MASKS, Graph
from handful.kernels.csr import Array, class_edges
from handful.kernels.traverse import sweep
from handful.random import generator
from handful.samplers.random_node import RandomNodes
from handful.statistics import finite_mean


@dataclass(frozen=True)
class PartStructure:
    """The structure of one sampled graph.

    ``edges`` counts an undirected edge twice, and ``average_degree`` is ``edges`` / ``nodes``. ``components`` counts
    each isolated node as a component, and ``largest_component`` is the number of nodes in the largest component.
    ``diameter`` is the largest measured distance, a lower bound for the diameter. ``average_distance`` is the mean over
    all ordered pairs of distinct nodes in the same component. ``homophily`` is the fraction of edges whose two ends
    have the same label, among the edges whose two ends have a label.
    """

    nodes: int
    edges: int
    average_degree: float
    isolated: int
    components: int
    largest_component: int
    diameter: int
    average_distance: float
    homophily: float


MEASURES = tuple(field.name for field in fields(PartStructure))


@dataclass(frozen=True)
class Statistics(PartStructure):
    """The statistics of a graph. Every edge counts in both directions, and self-loops do not count.

    ``density`` is edges / (N·(N − 1)). See ``homophilies`` for the three kinds of homophily. ``average_distance`` is
    estimated by searches from random nodes.
    """

    density: float
    adjusted_homophily: float
    unbiased_homophily: float
    classes: int | None
    features: int
    split: dict[str, int] | None
    undirected: bool
    """Whether the graph was undirected before ``to_undirected``."""


def homophilies(indptr: Array, indices: Array, y: Array | None) -> tuple[float, float, float]:
    """Edge, adjusted and unbiased homophily of an undirected graph, over the edges whose two ends have a label.

    c_k is the fraction of edges inside class k, D_k is the number of edge ends in class k, and M = Σ D_k:

        edge = Σ c_k,    adjusted = (edge − Σ (D_k/M)²) / (1 − Σ (D_k/M)²)     (Platonov et al., 2023)
        unbiased = (S² − 1) / (S² + 1 − 2·edge),  S = Σ √c_k                   (Mironov and Prokhorenkova, 2024)

    The unbiased homophily equals Σ_{i<j} (√(c_i c_j) − c_ij) / Σ_{i<j} (√(c_i c_j) + c_ij), where c_ij is half the
    fraction of edges between classes i and j. The unbiased homophily is 1 if all edges are inside classes, −1 if no
    edge is inside a class, and about 0 if labels and edges are independent. GraphLand, and some rows of the paper's
    table, use the unbiased homophily. All three homophilies are NaN if no edge has labels at both ends; adjusted and
    unbiased homophily are also NaN if these labels have only one class.

    Args:
        indptr, indices: the CSR of both directions of every edge.
        y: ``(N,)``, the class of each node, -1 if unknown; ``None`` if there are no labels.

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
    if np.count_nonzero(ends) < 2:
        return edge, float("nan"), float("nan")
    return edge, (edge - chance) / (1 - chance), (spread - 1) / (spread + 1 - 2 * edge)


def part_structure(
    indptr: Array, indices: Array, rng: np.random.Generator, y: Array | None = None, sources: int = 16, sweeps: int = 4
) -> PartStructure:
    """Measure one graph. The CSR must contain both directions of every edge.

    Breadth-first searches measure the distances. Some searches start at random nodes; a node in a component C is drawn
    with probability ∝ |C| − 1. For this distribution, the mean distance from a random start to the other nodes of its
    component is an unbiased estimate of the average distance. Other searches run in the largest component, each from a
    node that is farthest from the start of the previous search (multi-sweep). The largest measured distance is a lower
    bound for the diameter.

    Args:
        indptr, indices: the CSR of the edges.
        rng: the random generator that draws the start nodes.
        y: ``(N,)``, the labels, from which the homophily is computed.
        sources: the number of searches from random nodes. If this is at least the number of nodes, a search starts at
            every node, and the distances are exact.
        sweeps: the number of searches in the largest component.

    >>> path = np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2], np.int32)
    >>> found = part_structure(*path, np.random.default_rng(0))
    >>> found.components, found.diameter, round(found.average_distance, 3)
    (1, 3, 1.667)
    """
    n = len(indptr) - 1
    degree = np.diff(indptr)
    edges = csr_array((np.ones(len(indices), bool), indices, indptr), (n, n))
    count, label = connected_components(edges, directed=False)
    size = np.bincount(label, minlength=1)
    others = size[label] - 1
    if sources >= n or not others.any():
        starts = np.flatnonzero(others)
    else:
        starts = np.searchsorted(np.cumsum(others), rng.integers(0, others.sum(), sources), side="right")
    seen = sweep(indptr, indices, starts)
    weight = seen.reached - 1 if sources >= n else np.ones(len(starts))
    distance = float(np.average(seen.total / (seen.reached - 1), weights=weight)) if len(starts) else float("nan")
    bound = int(seen.eccentricity.max(initial=0))
    # The first sweep starts at the hub of the largest component. The hub is central, so the farthest node is far out.
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
        diameter=bound,
        average_distance=distance,
        homophily=homophilies(indptr, indices, y)[0],
    )


def statistics(graph: Graph, sources: int = 16, sweeps: int = 8, seed: int = 0) -> Statistics:
    """Measure the statistics of ``graph``.

    Args:
        graph: any graph; a directed graph is measured with both directions of every edge.
        sources: the number of breadth-first searches from random nodes.
        sweeps: the number of additional searches, each from a node that is farthest from the start of the previous
            search.
        seed: the seed for the random nodes.

    >>> found = statistics(Graph.from_edge_index([[0, 1, 2], [1, 2, 3]], num_nodes=5))
    >>> found.edges, found.isolated, found.components, found.diameter
    (6, 1, 2, 3)
    """
    both = graph.to_undirected().without_loops()
    result = asdict(part_structure(*both.topology, generator(seed), None, sources, sweeps))
    result["homophily"], adjusted, unbiased = homophilies(*both.topology, _classes(graph))
    n, edges = result["nodes"], result["edges"]
    masks = {name.removesuffix("_mask"): getattr(graph, name) for name in MASKS}
    return Statistics(
        **result,
        density=edges / (n * (n - 1)) if n > 1 else float("nan"),
        adjusted_homophily=adjusted,
        unbiased_homophily=unbiased,
        classes=graph.num_classes,
        features=graph.num_features,
        split=None if graph.train_mask is None else {name: int(mask.sum()) for name, mask in masks.items()},
        undirected=bool(graph.undirected),
    )


def structure(
    graph: Graph, parts: Sequence[int], epochs: int, seed: int, sources: int, sweeps: int, report: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Measure the structure of the parts for every m in ``parts``. The result is the mean and the standard deviation
    over ``epochs`` epochs.

    The value of an epoch is the mean over its m parts, as in the paper. An undirected edge counts twice, once per
    direction. Duplicate edges count once, and self-loops do not count.

    Args:
        graph: any graph.
        parts: the numbers of parts, m.
        epochs: the number of random partitions per m.
        seed: the seed of the partitions.
        sources, sweeps: the numbers of searches in each part; see ``part_structure``. The cost hardly grows with m,
            since the parts become smaller.
        report: called with m after each part.

    >>> ring = Graph.from_edge_index([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> rows = structure(ring, [1, 2], epochs=2, seed=42, sources=16, sweeps=4, report=lambda m: None)
    >>> [(row["m"], row["nodes"]["mean"]) for row in rows]
    [(1, 4.0), (2, 2.0)]
    """
    graph = graph.to_undirected().without_loops().coalesce()
    y = _classes(graph)
    out = []
    for m in parts:
        rows = []
        for epoch in range(epochs):
            result = []
            for index, (nodes, adjacency) in enumerate(RandomNodes(m).subgraphs(graph, seed, epoch)):
                labels = None if y is None else y[nodes.cpu().numpy()]
                topology = adjacency.indptr.cpu().numpy(), adjacency.indices.cpu().numpy()
                rng = generator(seed, epoch, m, index)
                result.append(part_structure(*topology, rng, labels, sources, sweeps))
                report(m)
            # parts without edges have no distances, and are left out
            rows.append([finite_mean([getattr(part, name) for part in result]) for name in MEASURES])
        table = np.array(rows, float)
        spread = table.std(0, ddof=1) if epochs > 1 else np.full(len(MEASURES), np.nan)
        summary = zip(MEASURES, table.mean(0), spread, strict=True)
        out.append({"m": m, **{name: {"mean": float(mean), "sd": float(sd)} for name, mean, sd in summary}})
    return out


def _classes(graph: Graph) -> Array | None:
    """The labels of ``graph`` if they are classes, which homophily needs; otherwise ``None``."""
    return None if graph.y is None or graph.y.is_floating_point() else graph.y.cpu().numpy()
