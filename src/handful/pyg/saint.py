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
from handful.pyg.base import Loader, make_source
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
            ``node_norm`` and ``edge_norm``; none of it for 0.
        seed: what everything is drawn from, with the epoch; from torch's own generator when ``None``.
        options: ``save_dir``, ``log`` and those of torch's ``DataLoader`` that change no batch are accepted, and named
            in a warning.

    A batch holds what those of ``RandomNodeLoader`` hold, its edges in order of source and then of target, as PyG has
    them. The norms are PyG's: with C_v and C_uv in how many of S subgraphs a node and an edge were seen,

        node_norm_v = S / (N · C_v)        edge_norm_uv = min(C_u / C_uv, 10⁴),  u the source.
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
        self.source = make_source("GraphSAINTRandomWalkSampler", data, sample_coverage > 0, by_source=True)
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
    """``node_norm`` and ``edge_norm`` of a batch; for what was never seen PyG's stand-ins, a count or norm of 0.1."""
    seen = counts.nodes[nodes].astype(np.float32)
    node_norm = counts.subgraphs / np.where(seen == 0, np.float32(0.1), seen) / len(counts.nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.repeat(seen, np.diff(indptr)) / counts.edges[places].astype(np.float32)
    edge_norm = np.where(np.isnan(ratio), np.float32(0.1), np.minimum(ratio, np.float32(1e4)))
    return torch.from_numpy(node_norm), torch.from_numpy(edge_norm)
