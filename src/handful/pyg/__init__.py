"""Loaders for PyG users: with PyG's names and arguments, and without a compiled extension.

A script only changes its import. Every batch is a ``Data`` with what PyG's loader of the same name gives, and ``n_id``.
"""

from __future__ import annotations

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise ImportError("handful.pyg needs PyG: pip install 'handful[pyg]'") from error

from handful.pyg.cluster import ClusterData, ClusterLoader
from handful.pyg.neighbor import NeighborLoader
from handful.pyg.random_node import RandomNodeLoader
from handful.pyg.saint import GraphSAINTRandomWalkSampler

__all__ = ["ClusterData", "ClusterLoader", "GraphSAINTRandomWalkSampler", "NeighborLoader", "RandomNodeLoader"]
