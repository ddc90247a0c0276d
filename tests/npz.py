"""Graphs as .npz files, as a user has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from handful import Graph
from handful.graph import MASKS


def arrays_of(graph: Graph) -> dict[str, np.ndarray]:
    """The graph as the arrays of a .npz file."""
    named = {name: getattr(graph, name).numpy() for name in ("x", "y", *MASKS)}
    return {"edge_index": graph.edge_index.numpy(), **named}


def write_npz(path: Path, graph: Graph, **changes: np.ndarray) -> Path:
    """Write ``graph`` with some arrays exchanged or added."""
    np.savez(path, **{**arrays_of(graph), **changes})
    return path
