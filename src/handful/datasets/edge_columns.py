"""Columns of an edge list become node features: the mean of the column over the edges of a node.

The mean over outgoing edges and the mean over incoming edges are two columns of the node table; in an undirected graph
there is one column. A category becomes the fractions of its values. A node without edges has a missing value. These
columns are then encoded, checked for drift and explained like all other columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from handful.datasets.schema import Edges, Say, Schema
from handful.datasets.tables import Problems, TableFile, arrow


def edge_means(rows: TableFile, ends: np.ndarray, roles: Edges, nodes: int, say: Say) -> dict[str, Any]:
    """Compute the new columns of the node table: pyarrow arrays, by name.

    Args:
        rows: the edges, with the columns ``roles.columns``.
        ends: ``(2, E)``, the sources and targets; nodes from ``nodes`` on have no row in the node table.
        roles: the roles of the edge columns.
        nodes: the number of rows of the node table.
        say: called with notes.
    """
    problems = Problems()
    x = Schema(roles.source, roles, roles.columns).encode(rows, problems, say)
    problems.tell()
    sides = {"edges": ends} if roles.undirected else {"edges out": ends[:1], "edges in": ends[1:]}
    result = {}
    for side, places in sides.items():
        of, edge = np.concatenate(places), np.tile(np.arange(len(x)), len(places))
        has_row = of < nodes
        sums = csr_array((np.ones(has_row.sum()), (of[has_row], edge[has_row])), (nodes, len(x))) @ x
        count, at = np.bincount(of[has_row], minlength=nodes), 0
        for column in roles.columns:
            mean = sums[:, at : at + column.width] / np.maximum(count, 1)[:, None]
            at += column.width
            result[f"{column.name} ({side})"] = _array(mean, count == 0)
    return result


def _array(values: np.ndarray, missing: np.ndarray) -> Any:
    """Convert the rows of ``values`` to numbers, or to lists if a row has several values."""
    pa = arrow()
    if values.shape[1] == 1:
        return pa.array(values[:, 0], mask=missing)
    return pa.FixedSizeListArray.from_arrays(values.reshape(-1), values.shape[1], mask=pa.array(missing))
