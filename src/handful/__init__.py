"""Train graph neural networks a handful of nodes at a time."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Torch's idle OpenMP threads would spin on the cores that our kernels work on; read once, when torch is first
# imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Tensors on huge pages: each of their pages is faulted in once for every 512 otherwise (see kernels/memory.py).
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

if TYPE_CHECKING:
    from handful.adjacency import Adjacency
    from handful.batch import Batch
    from handful.datasets import load
    from handful.errors import DatasetError, GraphError, HandfulError, RunError, SamplerError
    from handful.graph import Graph
    from handful.nn import GAT, GCN, SAGE, GraphLandSAGE, SGFormer, make_model
    from handful.samplers import (
        Clusters,
        FullGraph,
        Ladies,
        Neighbors,
        RandomNodes,
        RandomWalks,
        Sampler,
        make_sampler,
        register,
    )
    from handful.training import Callback, Run, Settings, fit, infer, load_weights

__version__ = "0.1.0"

__all__ = [
    "GAT",
    "GCN",
    "SAGE",
    "Adjacency",
    "Batch",
    "Callback",
    "Clusters",
    "DatasetError",
    "FullGraph",
    "Graph",
    "GraphError",
    "GraphLandSAGE",
    "HandfulError",
    "Ladies",
    "Neighbors",
    "RandomNodes",
    "RandomWalks",
    "Run",
    "RunError",
    "SGFormer",
    "Sampler",
    "SamplerError",
    "Settings",
    "__version__",
    "fit",
    "infer",
    "load",
    "load_weights",
    "make_model",
    "make_sampler",
    "register",
]


def __getattr__(name: str) -> Any:
    """The public names when they are first used, lest ``handful --help`` wait for torch."""
    if name in __all__:
        for home in ("errors", "graph", "adjacency", "batch", "datasets", "samplers", "nn", "training"):
            module = import_module(f"handful.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'handful' has no attribute '{name}'")
