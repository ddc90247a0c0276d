"""For PyG users: PyG's loaders after one plain pip install, without pyg-lib, torch-sparse or a compiler.

``enable()`` gives PyG the operators that it lacks, and its own loaders run. The loaders here have PyG's names,
arguments and batches. Each calls ``enable`` when it is made: a script only changes its import.
"""

from __future__ import annotations

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise ImportError("handful.pyg needs PyG: pip install 'handful[pyg]'") from error

from handful.pyg.enabling import disable, enable, enabled
from handful.pyg.loaders import (
    ClusterData,
    ClusterLoader,
    GraphSAINTEdgeSampler,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
)
from handful.pyg.random_node import LinkRandomNodeLoader, RandomNodeLoader, edge_share
from handful.pyg.transforms import AddAggregated

__all__ = [
    "AddAggregated",
    "ClusterData",
    "ClusterLoader",
    "GraphSAINTEdgeSampler",
    "GraphSAINTNodeSampler",
    "GraphSAINTRandomWalkSampler",
    "HGTLoader",
    "LinkNeighborLoader",
    "LinkRandomNodeLoader",
    "NeighborLoader",
    "RandomNodeLoader",
    "disable",
    "edge_share",
    "enable",
    "enabled",
]
