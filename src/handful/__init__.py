"""Train graph neural networks a handful of nodes at a time."""

from __future__ import annotations

from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.errors import DatasetError, GraphError, HandfulError, RunError, SamplerError
from handful.graph import Graph

__version__ = "0.1.0"

__all__ = [
    "Adjacency",
    "Batch",
    "DatasetError",
    "Graph",
    "GraphError",
    "HandfulError",
    "RunError",
    "SamplerError",
    "__version__",
]
