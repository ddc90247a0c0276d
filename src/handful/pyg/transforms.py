"""Transforms for PyG's ``Data``."""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from handful.adjacency import Hop
from handful.errors import GraphError
from handful.graph import Graph
from handful.samplers.full import full_adjacency


class AddAggregated(BaseTransform):  # type: ignore[misc]
    """Append the aggregated features of the neighbours to the features of every node: x becomes [X ‖ ÂX ‖ … ‖ Âᵏ X].

    A Linear of [X ‖ ÂX] equals a ``SAGEConv`` of X over all neighbours in the full graph, including those outside the
    batch.

    Args:
        hop: Â, the aggregation: ``mean``, ``mean_with_loops`` or ``gcn``; if ``data`` has ``edge_weight``, the
            aggregation is weighted.
        hops: k, the number of times that the features are aggregated.

    >>> data = Data(x=torch.tensor([[1.0], [3.0], [5.0]]), edge_index=torch.tensor([[0, 2, 1], [1, 1, 0]]))
    >>> AddAggregated()(data).x
    tensor([[1., 3.],
            [3., 3.],
            [5., 0.]])
    """

    def __init__(self, hop: Hop = "mean", hops: int = 1) -> None:
        if hop not in get_args(Hop) or hops < 1:
            raise GraphError(f"AddAggregated takes a hop of {', '.join(get_args(Hop))}, and hops from 1 on")
        self.hop, self.hops = hop, hops

    def forward(self, data: Any) -> Any:
        """Replace ``data.x`` by [X ‖ ÂX ‖ … ‖ Âᵏ X], and return ``data``."""
        if not isinstance(data, Data) or data.x is None or data.edge_index is None:
            raise GraphError("AddAggregated takes one Data with x and edge_index")
        graph = Graph.from_edge_index(data.edge_index, data.num_nodes, edge_weight=data.get("edge_weight"))
        edges = full_adjacency(graph).to(data.x.device)
        rows = [data.x]
        for _ in range(self.hops):
            rows.append(getattr(edges, self.hop)(rows[-1].to(torch.float32)))
        data.x = torch.cat(rows, 1)
        return data
