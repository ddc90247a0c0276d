"""Make node features from columns of an edge list: a feature is the mean of a column over the edges of a node.

The mean over outgoing edges and the mean over incoming edges are two columns of the node table; in an undirected graph
there is one column. For a categorical column, the mean is the fraction of each category. If values of a column are
missing, another new column has the fraction of the edges without a value. A node without edges has a missing value. The
new columns are then encoded, checked for drift and explained like all other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from handful.datasets.schema import Schema
from handful.datasets.tables import arrow


def edge_means(schema: Schema, x: np.ndarray, ends: np.ndarray, nodes: int) -> dict[str, Any]:
    """Compute the new columns of the node table. The result maps each column name to a pyarrow array.

    Args:
        schema: the encoding of the edge columns.
        x: ``(E, width)``, the encoded edge columns.
        ends: ``(2, E)``, the sources and targets; nodes with an id of ``nodes`` or more have no row in the node table.
        nodes: the number of rows of the node table.
    """
    result = {}
    for side, places in edge_sides(ends, schema.edges.undirected, nodes).items():
        means, count = mean_of_edges(places, x.T, nodes)
        for column, own in schema.by_column(means):
            result[f"{column.name} ({side})"] = _array(own[:, : own.shape[1] - column.indicator], count == 0)
            if column.indicator:
                result[f"{column.name} ({side}, missing)"] = _array(own[:, -1:], count == 0)
    return result


def edge_sides(ends: np.ndarray, undirected: bool, nodes: int) -> dict[str, np.ndarray]:
    """The endpoints ``(k, E)`` for which an edge counts: the source and the target, each on its own, or both of them if
    the graph is undirected. The other arguments are those of ``edge_means``.

    >>> edge_sides(np.array([[0, 1], [2, 1]]), True, nodes=3)
    {'edges': array([[0, 1],
           [2, 3]])}
    """
    if not undirected:
        return {"edges out": ends[:1], "edges in": ends[1:]}
    return {"edges": np.stack([ends[0], np.where(ends[0] == ends[1], nodes, ends[1])])}  # a self-loop counts once


def edge_counts(blocks: Sequence[np.ndarray], undirected: bool, nodes: int) -> dict[str, np.ndarray]:
    """The number of rows of the edge list for each node, by side; ``blocks`` are the edges, ``(2, E)`` each."""
    result: dict[str, np.ndarray] = {}
    for block in blocks:
        for side, places in edge_sides(block, undirected, nodes).items():
            count = np.bincount(places.reshape(-1), minlength=nodes)[:nodes]
            result[f"{side} per node"] = count + result.get(f"{side} per node", 0)
    return result


def mean_of_edges(ends: np.ndarray, features: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the edge features over the edges of each node, and the number of edges of each node. The mean,
    float64 ``(nodes, F)``, is 0 for a node without edges.

    Args:
        ends: integers ``(k, E)``: each edge counts for its k endpoints. Endpoints with an id of ``nodes`` or more are
            ignored.
        features: ``(F, E)``, the edge features.
        nodes: the number of nodes.

    >>> mean_of_edges(np.array([[0], [1]]), np.array([[2.0], [4.0]]), 3)[0].tolist()
    [[2.0, 4.0], [2.0, 4.0], [0.0, 0.0]]
    """
    of = ends.reshape(-1)
    count = np.bincount(of, minlength=nodes)[:nodes]
    sums = [np.bincount(of, np.tile(column, len(ends)), nodes)[:nodes] for column in features]
    return np.reshape(sums, (len(features), nodes)).T / np.maximum(count, 1)[:, None], count


def _array(values: np.ndarray, missing: np.ndarray) -> Any:
    """Convert ``values`` to a pyarrow array of numbers, or of lists if a row has several values."""
    pa = arrow()
    if values.shape[1] == 1:
        return pa.array(values[:, 0], mask=missing)
    return pa.FixedSizeListArray.from_arrays(values.reshape(-1), values.shape[1], mask=pa.array(missing))
