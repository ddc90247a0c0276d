"""``NeighborLoader`` without pyg-lib or torch-sparse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from handful.errors import SamplerError
from handful.kernels.csr import first_outside
from handful.kernels.neighbors import sample
from handful.pyg.base import Loader, compressed_data
from handful.random import derived_seed, generator
from handful.samplers.chunks import in_chunks, in_order
from handful.samplers.options import at_least, whole_numbers

_FIXED = {
    "replace": False,
    "subgraph_type": "directional",
    "directed": True,
    "disjoint": False,
    "input_time": None,
    "time_attr": None,
    "temporal_strategy": "uniform",
    "weight_attr": None,
    "transform_sampler_output": None,
    "neighbor_sampler": None,
}


class NeighborLoader(Loader):
    """Yields batches of seed nodes with a sample of the edges around them.

    Args:
        data: a ``Data`` with ``edge_index``.
        num_neighbors: how many edges each node met in hop k keeps, from the seeds outwards; -1 for all.
        input_nodes: the seeds, as a boolean mask or as distinct ids; all nodes when ``None``.
        batch_size: how many seeds a batch has.
        shuffle: visit the seeds in a new random order every epoch.
        drop_last: leave out the last batch if it has fewer seeds.
        transform: what to apply to every batch.
        seed: what everything is drawn from, with the epoch; from torch's own generator when ``None``.
        options: those that change no batch are ignored with a warning. Sampling with replacement, by weight or by
            time, and disjoint or induced samples are refused.

    The first ``batch_size`` nodes of a batch are its seeds, in order; then come those of each hop. It has what PyG's
    batch has: every node- and edge-level attribute, ``n_id``, ``e_id``, ``input_id`` (the seeds' places in
    ``input_nodes``), ``batch_size``, and per hop ``num_sampled_nodes`` and ``num_sampled_edges``.

    >>> import torch
    >>> data = Data(x=torch.eye(6), edge_index=torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]))
    >>> loader = NeighborLoader(data, num_neighbors=[1, 1], batch_size=2, seed=0)
    >>> next(iter(loader)).n_id  # nodes 0 and 1 receive from 5 and 0, and node 5 from 4
    tensor([0, 1, 5, 4])
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        transform: Callable[[Data], Any] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(seed, options, _FIXED)
        self.source = compressed_data("NeighborLoader", data, with_edges=True)
        self.num_neighbors = whole_numbers("num_neighbors", num_neighbors)
        if any(count < -1 for count in self.num_neighbors):
            raise SamplerError(f"num_neighbors takes numbers from 0, or -1 for all, got {self.num_neighbors}")
        at_least(1, batch_size=batch_size)
        self.input_nodes = seeds_of(input_nodes, self.source.graph.num_nodes)
        self.batch_size, self.shuffle, self.drop_last, self.transform = batch_size, shuffle, drop_last, transform

    def __len__(self) -> int:
        full, left = divmod(len(self.input_nodes), self.batch_size)
        return full + (left > 0 and not self.drop_last)

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of this epoch, each made when it is needed."""
        count = len(self.input_nodes)
        order = generator(self.seed, epoch).permutation(count) if self.shuffle else np.arange(count)
        chunks = in_chunks(order, self.batch_size)

        def draw(step: int) -> Any:
            key = derived_seed(self.seed, epoch, step)
            return self._batch(chunks[step], key)

        return in_order(draw, len(self))

    def _batch(self, input_id: np.ndarray, key: int) -> Any:
        around = sample(*self.source.graph.topology, self.input_nodes[input_id], self.num_neighbors, key)
        batch = self.source.cut(around.nodes, around.indptr, around.indices, around.edges)
        batch.input_id = torch.from_numpy(input_id)
        batch.batch_size = len(input_id)
        batch.num_sampled_nodes = np.diff(around.met, prepend=0).tolist()
        batch.num_sampled_edges = np.diff(around.indptr[np.append(0, around.met[:-1])]).tolist()
        return batch if self.transform is None else self.transform(batch)


def seeds_of(input_nodes: Any, num_nodes: int) -> np.ndarray:
    """int64, the ids of the seeds, checked.

    Args:
        input_nodes: a boolean mask ``(N,)``, or distinct ids; all nodes when ``None``.
        num_nodes: N.

    >>> seeds_of(torch.tensor([False, True, True]), 3).tolist()
    [1, 2]
    """
    if input_nodes is None:
        return np.arange(num_nodes)
    given = torch.as_tensor(input_nodes).cpu()
    if given.dtype == torch.bool and given.shape == (num_nodes,):
        return given.nonzero().squeeze(1).numpy()
    if given.ndim != 1 or given.is_floating_point() or given.dtype == torch.bool:
        raise SamplerError(f"input_nodes is a mask of {num_nodes} nodes or a vector of ids, got {tuple(given.shape)}")
    seeds = given.to(torch.int64).numpy()
    at = first_outside(seeds, num_nodes)
    if at >= 0:
        raise SamplerError(f"input_nodes[{at}] is node {seeds[at]}: node ids run from 0 to {num_nodes - 1}")
    if len(np.unique(seeds)) < len(seeds):
        raise SamplerError("input_nodes has a node twice: give each once")
    return seeds
