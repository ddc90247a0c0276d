"""``GraphSAINTRandomWalkSampler`` without torch-sparse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from handful.errors import GraphError
from handful.kernels.subgraph import induced
from handful.pyg.base import Loader, compressed_data
from handful.samplers.options import at_least
from handful.samplers.saint import Counts, RandomWalks, presample


class GraphSAINTRandomWalkSampler(Loader):
    """Yields the subgraphs that random walks induce.

    Args:
        data: a ``Data`` with ``edge_index``.
        batch_size: how many walks a batch has; their roots are uniform, with replacement.
        walk_length: how many steps a walk takes, along the direction of the edges, as in PyG.
        num_steps: how many batches an epoch has.
        sample_coverage: pre-sample until every node has been seen this often on average, and give every batch
            ``node_norm`` and ``edge_norm``; 0 does neither.
        seed: what everything is drawn from, with the epoch; from torch's own generator when ``None``.
        options: ``save_dir``, ``log`` and those of torch's ``DataLoader`` that change no batch are ignored with a
            warning.

    A batch has the attributes of those of ``RandomNodeLoader``, with its edges in order of source and then of target,
    as in PyG. The norms are PyG's. If C_v and C_uv of S pre-sampled subgraphs have node v and edge uv, then

        node_norm_v = S / (N · C_v)        edge_norm_uv = min(C_u / C_uv, 10⁴),  u the source.

    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> loader = GraphSAINTRandomWalkSampler(data, batch_size=1, walk_length=2, num_steps=4, seed=0)
    >>> [batch.num_nodes for batch in loader]
    [3, 3, 3, 3]
    """

    def __init__(
        self,
        data: Data,
        batch_size: int,
        walk_length: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, options)
        at_least(1, batch_size=batch_size, walk_length=walk_length, num_steps=num_steps)
        at_least(0, sample_coverage=sample_coverage)
        if isinstance(data, Data) and ("node_norm" in data or "edge_norm" in data):
            raise GraphError("this Data has node_norm or edge_norm already: they are what the sampler adds")
        self.source = compressed_data("GraphSAINTRandomWalkSampler", data, sample_coverage > 0, by_source=True)
        if self.source.graph.num_nodes == 0:
            raise GraphError("there is no node to start a walk from")
        self.num_steps, self.sample_coverage = num_steps, sample_coverage
        self.walks = RandomWalks(batch_size, walk_length, coverage=max(1, sample_coverage))
        self.counts: Counts | None = None
        if sample_coverage > 0:
            self.counts = presample(self.walks, self.source.graph, self.seed)

    def __len__(self) -> int:
        return self.num_steps

    def batches(self, epoch: int) -> Iterator[Data]:
        """The batches of this epoch, each made when it is needed."""
        graph = self.source.graph
        for step in range(self.num_steps):
            nodes = self.walks.visited(graph, self.seed, epoch, step)
            edges = induced(*graph.topology, nodes, self.source.with_edges)
            batch = self.source.cut(nodes, *edges)
            if self.counts is not None:
                batch.node_norm, batch.edge_norm = norms(self.counts, nodes, *edges)
            yield batch


def norms(
    counts: Counts, nodes: np.ndarray, indptr: np.ndarray, _: np.ndarray, places: np.ndarray
) -> tuple[Tensor, Tensor]:
    """``node_norm`` ``(nodes,)`` and ``edge_norm`` ``(edges,)`` of a batch.

    As in PyG, a node that was never seen counts as seen 0.1 times, and the norm of an edge that was never seen is 0.1
    if its source was not seen either.

    Args:
        counts: of the pre-sampled subgraphs.
        nodes: the nodes of the batch.
        indptr: of its edges, row by row; their columns are not used.
        places: the place of each edge in the graph.
    """
    seen = counts.nodes[nodes].astype(np.float32)
    node_norm = counts.subgraphs / np.where(seen == 0, np.float32(0.1), seen) / len(counts.nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.repeat(seen, np.diff(indptr)) / counts.edges[places].astype(np.float32)
    edge_norm = np.where(np.isnan(ratio), np.float32(0.1), np.minimum(ratio, np.float32(1e4)))
    return torch.from_numpy(node_norm), torch.from_numpy(edge_norm)
