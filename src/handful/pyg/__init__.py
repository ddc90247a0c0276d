"""Loaders for PyG users: PyG's names and arguments, a ``Data`` a batch, and no compiled extension.

Change the import, keep the script. What a batch holds is what PyG's loader of the same name gives, with ``n_id``.
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
