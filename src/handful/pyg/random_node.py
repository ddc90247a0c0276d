"""``RandomNodeLoader``: Random Node Sampling for PyG. An epoch is one pass over the edges for any number of parts."""

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
from handful.pyg.base import CompressedData, Loader, carry, compressed_data, compressed_edges
from handful.random import generator
from handful.samplers.random_node import deal


class RandomNodeLoader(Loader):
    """Deals the nodes into ``num_parts`` parts every epoch and yields the subgraph that each part induces.

    Args:
        data: a ``Data`` or ``HeteroData`` with ``edge_index``.
        num_parts: the number of parts, m; their sizes differ by one node at most.
        shuffle: deal at random, anew every epoch; ``False`` gives runs of consecutive nodes, always the same.
        drop_last: all parts have exactly ⌊N/m⌋ nodes; the nodes that are left over are in no batch of the epoch.
        seed: what the deals are drawn from, with the epoch; from torch's own generator when ``None``.
        options: those of torch's ``DataLoader`` that change no batch are ignored with a warning.

    A batch has every node- and edge-level attribute of ``data`` for its nodes and edges, all other attributes as they
    are, and ``n_id``: the ids of its nodes, ascending. Its edges are those of
    ``torch_geometric.utils.subgraph(n_id, …)`` in order of target and then of source. If ``data`` has an edge
    attribute, ``e_id`` has the ids of the edges (in any case with ``data.e_id = torch.arange(data.num_edges)``).

    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> loader = RandomNodeLoader(data, num_parts=2, seed=0)
    >>> [batch.num_nodes for batch in loader]
    [3, 3]
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
        self.source = (
            compressed_hetero_data(data) if isinstance(data, HeteroData) else compressed_data("RandomNodeLoader", data)
        )
        self.num_parts, self.shuffle, self.drop_last = num_parts, shuffle, drop_last
        n = self.source.graph.num_nodes
        if not 1 <= num_parts <= max(1, n):
            raise SamplerError(f"num_parts must lie between 1 and the number of nodes, {n}, got {num_parts}")

    def __len__(self) -> int:
        return self.num_parts

    def batches(self, epoch: int) -> Iterator[Data | HeteroData]:
        """The batches of this epoch, each made when it is needed."""
        n, m = self.source.graph.num_nodes, self.num_parts
        if self.shuffle:
            part = deal(n, m, generator(self.seed, epoch), self.drop_last)
        else:
            part = runs(n, m, self.drop_last)
        return self.source.parts(part, m)


def runs(n: int, m: int, drop_last: bool) -> np.ndarray:
    """The part of each node where parts are runs of consecutive nodes.

    Args:
        n: how many nodes.
        m: how many parts.
        drop_last: all parts have ⌊n/m⌋ nodes; nodes that are left over get part m.

    >>> runs(5, 2, drop_last=False).tolist(), runs(5, 2, drop_last=True).tolist()
    ([0, 0, 0, 1, 1], [0, 0, 1, 1, 2])
    """
    size, left = divmod(n, m)
    sizes = np.full(m, size)
    if not drop_last:
        sizes[:left] += 1
    part = np.full(n, m, np.min_scalar_type(m))
    part[: sizes.sum()] = np.repeat(np.arange(m), sizes)
    return part


@dataclass(frozen=True, eq=False, kw_only=True)
class CompressedHeteroData(CompressedData):
    """A ``HeteroData`` whose nodes and edges of all types are numbered together."""

    node_slices: dict[str, tuple[int, int]]
    edge_slices: dict[Any, tuple[int, int]]
    """Which numbers belong to each type."""

    def batch(self, nodes: Tensor, edge_index: Tensor, edges: Tensor | None) -> HeteroData:
        """The part of ``data`` that these node and edge ids pick out."""
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


def compressed_hetero_data(data: HeteroData) -> CompressedHeteroData:
    """Check and compress ``data``, all types as one graph, as PyG's loader does.

    >>> data = HeteroData({"a": {"x": torch.eye(2)}, "b": {"x": torch.eye(3)}})
    >>> data["a", "to", "b"].edge_index = torch.tensor([[0, 1], [2, 0]])
    >>> compressed_hetero_data(data).graph.num_nodes
    5
    """
    for store in data.edge_stores:
        if "adj_t" in store or "adj" in store or "edge_index" not in store:
            raise GraphError(f"RandomNodeLoader reads edge_index alone, and {store._key} has none or has adj_t too")
    edge_index, node_slices, edge_slices = to_homogeneous_edge_index(data)
    if edge_index is None:
        edge_index = torch.empty(2, 0, dtype=torch.int64)
    graph, order = compressed_edges(edge_index, int(data.num_nodes or 0), with_order=True)
    return CompressedHeteroData(copy.copy(data), graph, order, True, node_slices=node_slices, edge_slices=edge_slices)
