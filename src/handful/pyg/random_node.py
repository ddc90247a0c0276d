"""``RandomNodeLoader``: Random Node Sampling for PyG, in one pass over the edges an epoch whatever the parts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.hetero_data import to_homogeneous_edge_index

from handful.errors import GraphError, SamplerError
from handful.pyg.base import Loader, Source, carry, compressed, make_source
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
        self.source = make_typed_source(data) if isinstance(data, HeteroData) else make_source("RandomNodeLoader", data)
        self.num_parts, self.shuffle, self.drop_last = num_parts, shuffle, drop_last
        n = self.source.graph.num_nodes
        if not 1 <= num_parts <= max(1, n):
            raise SamplerError(f"num_parts must lie between 1 and the number of nodes, {n}, got {num_parts}")

    def __len__(self) -> int:
        return self.num_parts

    def batches(self, epoch: int) -> Iterator[Data | HeteroData]:
        n, m = self.source.graph.num_nodes, self.num_parts
        if self.shuffle:
            part = deal(n, m, generator(self.seed, epoch), self.drop_last)
        else:
            part = runs(n, m, self.drop_last)
        return self.source.parts(part, m)


def runs(n: int, m: int, drop_last: bool) -> np.ndarray:
    """``deal`` without the dice: consecutive nodes share a part, and those left over come last."""
    size, left = divmod(n, m)
    sizes = np.full(m, size)
    if not drop_last:
        sizes[:left] += 1
    part = np.full(n, m, np.min_scalar_type(m))
    part[: sizes.sum()] = np.repeat(np.arange(m), sizes)
    return part


@dataclass(frozen=True, eq=False, kw_only=True)
class TypedSource(Source):
    """A ``HeteroData``, its nodes and edges of all types in one numbering."""

    node_slices: dict[str, tuple[int, int]]
    edge_slices: dict[Any, tuple[int, int]]
    """Where each type lies in that numbering."""

    def batch(self, nodes: Tensor, edge_index: Tensor, edges: Tensor | None) -> HeteroData:
        assert edges is not None
        out = copy.copy(self.data)
        # Ids ascend, so the nodes of a type are a run of the part, and it starts at ``first``.
        first = {t: int(torch.searchsorted(nodes, lo)) for t, (lo, _) in self.node_slices.items()}
        for t, (lo, hi) in self.node_slices.items():
            ids = nodes[first[t] : int(torch.searchsorted(nodes, hi))] - lo
            carry(self.data, self.data[t], out[t], ids, None)
        for t, (lo, hi) in self.edge_slices.items():
            own = (edges >= lo) & (edges < hi)
            offset = torch.tensor([[first[t[0]]], [first[t[2]]]])
            out[t].edge_index = (edge_index[:, own] - offset).to(self.data[t].edge_index.device)
            carry(self.data, self.data[t], out[t], None, edges[own] - lo)
        return out


def make_typed_source(data: HeteroData) -> TypedSource:
    """Check and compress ``data``, all types as one graph, as PyG's loader does."""
    for store in data.edge_stores:
        if "adj_t" in store or "adj" in store or "edge_index" not in store:
            raise GraphError(f"RandomNodeLoader reads edge_index alone, and {store._key} has none or has adj_t too")
    edge_index, node_slices, edge_slices = to_homogeneous_edge_index(data)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    graph, order = compressed(edge_index, int(data.num_nodes or 0), with_order=True)
    return TypedSource(copy.copy(data), graph, order, True, node_slices=node_slices, edge_slices=edge_slices)
