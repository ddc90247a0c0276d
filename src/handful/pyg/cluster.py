"""``ClusterData`` and ``ClusterLoader`` without pyg-lib or torch-sparse: METIS comes from ``pymetis``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_geometric.data import Data

from handful.pyg.base import Loader, check_loader_options, compressed_data
from handful.random import generator
from handful.samplers.cluster import partition
from handful.samplers.options import at_least


class ClusterData:
    """A graph cut into ``num_parts`` clusters by METIS: a sequence of the subgraphs that the clusters induce.

    Args:
        data: a ``Data`` with ``edge_index``.
        num_parts: into how many clusters to cut; METIS may leave one empty.
        options: ``save_dir`` and similar ones are ignored with a warning: the partition is kept in handful's own
            cache. ``recursive`` and ``keep_inter_cluster_edges`` must be ``False``.

    >>> import torch
    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> len(ClusterData(data, 2))
    2
    """

    def __init__(self, data: Data, num_parts: int, **options: Any) -> None:
        check_loader_options("ClusterData", options, {"recursive": False, "keep_inter_cluster_edges": False})
        at_least(1, num_parts=num_parts)
        self.source = compressed_data("ClusterData", data)
        self.num_parts = num_parts
        self.cluster = partition(self.source.graph, num_parts).cluster
        """The cluster of every node."""

    def __len__(self) -> int:
        return self.num_parts

    def __getitem__(self, index: int) -> Data:
        if not -self.num_parts <= index < self.num_parts:
            raise IndexError(f"cluster {index} of {self.num_parts}")
        return self.source.induced(np.flatnonzero(self.cluster == index % self.num_parts))

    def __repr__(self) -> str:
        return f"ClusterData({self.num_parts})"


class ClusterLoader(Loader):
    """Batches of ``batch_size`` clusters, joined with the edges between them.

    Args:
        cluster_data: the clusters.
        batch_size: how many clusters a batch joins.
        shuffle: join them in a new random order every epoch.
        drop_last: leave out the last batch if it has fewer clusters.
        seed: what the order is drawn from, with the epoch; from torch's own generator when ``None``.
        options: those of torch's ``DataLoader`` that change no batch are ignored with a warning.

    Every epoch covers all clusters in one pass over the edges. Batches have the same attributes as those of
    ``RandomNodeLoader``.

    >>> import torch
    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> loader = ClusterLoader(ClusterData(data, 3), batch_size=2, shuffle=True, seed=0)
    >>> len(loader), sum(batch.num_nodes for batch in loader)
    (2, 6)
    """

    def __init__(
        self,
        cluster_data: ClusterData,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, options)
        at_least(1, batch_size=batch_size)
        self.cluster_data, self.batch_size = cluster_data, batch_size
        self.shuffle, self.drop_last = shuffle, drop_last

    def __len__(self) -> int:
        full, left = divmod(len(self.cluster_data), self.batch_size)
        return full + (left > 0 and not self.drop_last)

    def batches(self, epoch: int) -> Iterator[Data]:
        """The batches of this epoch, each made when it is needed."""
        clusters = len(self.cluster_data)
        place = generator(self.seed, epoch).permutation(clusters) if self.shuffle else np.arange(clusters)
        batch_of = (place // self.batch_size).astype(np.min_scalar_type(clusters))
        return self.cluster_data.source.parts(batch_of[self.cluster_data.cluster], len(self))
