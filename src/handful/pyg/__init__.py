"""PyG's loaders for users who have only a plain pip install: no pyg-lib, torch-sparse or compiler is needed.

``enable()`` registers the operators that PyG's own loaders need. The loaders of this package have the same names and
arguments as PyG's, and yield the same kind of batches. The constructors of these loaders call ``enable``, so a script
only needs to change its import.
"""

from __future__ import annotations

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise ImportError("handful.pyg needs PyG: pip install 'handful[pyg]'") from error

from handful.pyg.enabling import disable as disable
from handful.pyg.enabling import enable as enable
from handful.pyg.enabling import enabled as enabled
from handful.pyg.loaders import ClusterData as ClusterData
from handful.pyg.loaders import ClusterLoader as ClusterLoader
from handful.pyg.loaders import GraphSAINTEdgeSampler as GraphSAINTEdgeSampler
from handful.pyg.loaders import GraphSAINTNodeSampler as GraphSAINTNodeSampler
from handful.pyg.loaders import GraphSAINTRandomWalkSampler as GraphSAINTRandomWalkSampler
from handful.pyg.loaders import HGTLoader as HGTLoader
from handful.pyg.loaders import LinkNeighborLoader as LinkNeighborLoader
from handful.pyg.loaders import NeighborLoader as NeighborLoader
from handful.pyg.random_node import LinkRandomNodeLoader as LinkRandomNodeLoader
from handful.pyg.random_node import RandomNodeLoader as RandomNodeLoader
from handful.pyg.random_node import edge_share as edge_share
from handful.pyg.transforms import AddAggregated as AddAggregated
