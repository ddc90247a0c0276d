"""PyG's own loaders, with handful's operators instead of pyg-lib and torch-sparse.

One difference: each batch has its own random stream. The seed of this stream depends only on the seed of the epoch and
on the batch's seed nodes. For GraphSAINT, it depends on the index of the batch instead of the seed nodes. So
``num_workers`` does not change the batches, unless workers are persistent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import torch
import torch_geometric.loader as pyg
from torch_geometric.loader import ClusterLoader as ClusterLoader

from handful.pyg.enabling import enable
from handful.random import derive_seed


class _Enabled:
    """A base class that enables the operators whenever an object is created or unpickled, for example in a spawned
    worker.
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        enable(quiet=True)
        return super().__new__(cls)


class ClusterData(_Enabled, pyg.ClusterData):  # type: ignore[misc]
    """``torch_geometric.loader.ClusterData``."""


class OwnStreams:
    """A mixin for a ``DataLoader``: each batch sets torch's generator to its own seed, and draws from it."""

    _epoch_seed: int | None = None
    num_workers: int
    persistent_workers: bool

    def _get_iterator(self) -> Any:
        iterator = super()._get_iterator()  # type: ignore[misc]
        self._epoch_seed = getattr(iterator, "iterator", iterator)._base_seed
        return iterator

    @contextmanager
    def _stream(self, batch: Any) -> Iterator[None]:
        worker = torch.utils.data.get_worker_info()
        seed = self._epoch_seed if worker is None else worker.seed - worker.id
        # Persistent workers keep the seed of their first epoch; each continues its own stream.
        if seed is None or (worker is not None and self.persistent_workers):
            yield
            return
        name = blake2b(np.asarray(batch, np.int64).tobytes(), digest_size=8).digest()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(seed, int.from_bytes(name, "little")))
            yield


class _Collated(_Enabled, OwnStreams):
    def collate_fn(self, index: Any) -> Any:
        """Sample the neighbourhood of the seeds with these indices."""
        with self._stream(index):
            return super().collate_fn(index)  # type: ignore[misc]


class NeighborLoader(_Collated, pyg.NeighborLoader):  # type: ignore[misc]
    """``torch_geometric.loader.NeighborLoader``, with all its options.

    >>> from torch_geometric.data import Data
    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> next(iter(NeighborLoader(data, num_neighbors=[1, 1], batch_size=2))).n_id
    tensor([0, 1, 5, 4])
    """


class LinkNeighborLoader(_Collated, pyg.LinkNeighborLoader):  # type: ignore[misc]
    """``torch_geometric.loader.LinkNeighborLoader``, with all its options."""


class HGTLoader(_Collated, pyg.HGTLoader):  # type: ignore[misc]
    """``torch_geometric.loader.HGTLoader``, except that large neighbourhoods are not truncated."""


class _Walked(_Enabled, OwnStreams):
    def __getitem__(self, idx: int) -> Any:
        with self._stream(idx):
            return super().__getitem__(idx)  # type: ignore[misc]

    def _compute_norm(self) -> Any:
        """Estimate GraphSAINT's norms in this process and not in workers, so that the number of workers does not change
        them.
        """
        workers, self.num_workers = self.num_workers, 0
        try:
            return super()._compute_norm()  # type: ignore[misc]
        finally:
            self.num_workers = workers


class GraphSAINTRandomWalkSampler(_Walked, pyg.GraphSAINTRandomWalkSampler):  # type: ignore[misc]
    """``torch_geometric.loader.GraphSAINTRandomWalkSampler``.

    >>> from torch_geometric.data import Data
    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> [batch.num_nodes for batch in GraphSAINTRandomWalkSampler(data, batch_size=1, walk_length=2, num_steps=4)]
    [3, 3, 3, 3]
    """


class GraphSAINTNodeSampler(_Walked, pyg.GraphSAINTNodeSampler):  # type: ignore[misc]
    """``torch_geometric.loader.GraphSAINTNodeSampler``."""


class GraphSAINTEdgeSampler(_Walked, pyg.GraphSAINTEdgeSampler):  # type: ignore[misc]
    """``torch_geometric.loader.GraphSAINTEdgeSampler``."""
