"""``RandomNodeLoader``: Random Node Sampling for PyG, in one pass over the edges an epoch whatever the parts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.hetero_data import to_homogeneous_edge_index

from handful.errors import GraphError, SamplerError
from handful.kernels import subgraph
from handful.pyg.base import Loader, carry, compressed, coo, cut, has_edge_attributes, require_data
from handful.random import generator
from handful.samplers.random_node import deal


class RandomNodeLoader(Loader):
    """Deals the nodes into ``num_parts`` parts every epoch and yields the subgraph that each part induces.

    Args:
        data: a ``Data`` or ``HeteroData`` with ``edge_index``.
        num_parts: the number of parts, m; their sizes differ by one node at most.
        shuffle: deal at random, anew every epoch; ``False`` gives runs of consecutive nodes, always the same.
        drop_last: parts of ⌊N/m⌋ nodes exactly; the nodes left over sit the epoch out.
        seed: what the deals are drawn from, with the epoch; from torch's own generator when ``None``.
        options: those of torch's ``DataLoader`` that change no batch are accepted, and named in a warning.

    A batch holds every node- and edge-level attribute of ``data`` for its nodes and edges, everything else as it is,
    and ``n_id``: the ids of its nodes, ascending. Its edges are those of ``torch_geometric.utils.subgraph(n_id, …)``
    in order of target and then of source; ``e_id`` tells which they were, where the graph has edge attributes (or
    give it one: ``data.e_id = torch.arange(data.num_edges)``).
    """

    def __init__(
        self,
        data: Data | HeteroData,
        num_parts: int,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, options)
        if isinstance(data, HeteroData):
            self.data: Data | HeteroData = copy.copy(data)
            edge_index, self.node_slices, self.edge_slices = _joined(data)
            self._with_edges = True
        else:
            self.data = require_data("RandomNodeLoader", data)
            edge_index, self._with_edges = data.edge_index, has_edge_attributes(data)
        self.num_parts, self.shuffle, self.drop_last = num_parts, shuffle, drop_last
        self.num_nodes = int(data.num_nodes or 0)
        if not 1 <= num_parts <= max(1, self.num_nodes):
            raise SamplerError(f"num_parts must lie between 1 and the number of nodes, {self.num_nodes}: {num_parts}")
        self._graph, self._order = compressed(edge_index, self.num_nodes, self._with_edges)

    def __len__(self) -> int:
        return self.num_parts

    def batches(self, epoch: int) -> Iterator[Data | HeteroData]:
        part = self._parts(epoch)
        for nodes, *csr, places in subgraph.parts(*self._graph.topology, part, self.num_parts, self._with_edges):
            ids, edges = torch.from_numpy(nodes), self._order[torch.from_numpy(places)]
            if isinstance(self.data, HeteroData):
                yield self._typed(self.data, ids, coo(*csr), edges)
            else:
                yield cut(self.data, ids, coo(*csr), edges if self._with_edges else None)

    def _parts(self, epoch: int) -> np.ndarray:
        if self.shuffle:
            return deal(self.num_nodes, self.num_parts, generator(self.seed, epoch), self.drop_last)
        size, left = divmod(self.num_nodes, self.num_parts)
        sizes = [size + (not self.drop_last and p < left) for p in range(self.num_parts)]
        part = np.full(self.num_nodes, self.num_parts, np.int32)
        part[: sum(sizes)] = np.repeat(np.arange(self.num_parts), sizes)
        return part

    def _typed(self, data: HeteroData, nodes: Tensor, edge_index: Tensor, edges: Tensor) -> HeteroData:
        """The batch of a heterogeneous graph, from the nodes and edges of all types in one numbering."""
        out = copy.copy(data)
        # Ids ascend, so that the nodes of a type are a run of the part; it starts at ``first``.
        first = {t: int(torch.searchsorted(nodes, lo)) for t, (lo, _) in self.node_slices.items()}
        for t, (lo, hi) in self.node_slices.items():
            ids = nodes[first[t] : int(torch.searchsorted(nodes, hi))] - lo
            carry(data, data[t], out[t], ids, None)
        for t, (lo, hi) in self.edge_slices.items():
            own = (edges >= lo) & (edges < hi)
            offset = torch.tensor([[first[t[0]]], [first[t[2]]]])
            out[t].edge_index = (edge_index[:, own] - offset).to(data[t].edge_index.device)
            carry(data, data[t], out[t], None, edges[own] - lo)
        return out


def _joined(data: HeteroData) -> tuple[Tensor, dict[str, tuple[int, int]], dict[Any, tuple[int, int]]]:
    """The edges of all types in one numbering of all nodes, and where each type's nodes and edges lie in it."""
    for store in data.edge_stores:
        if "adj_t" in store or "adj" in store or "edge_index" not in store:
            raise GraphError(f"RandomNodeLoader reads edge_index alone, and {store._key} has none or has adj_t too")
    edge_index, nodes, edges = to_homogeneous_edge_index(data)
    return torch.empty(2, 0, dtype=torch.int64) if edge_index is None else edge_index, nodes, edges
