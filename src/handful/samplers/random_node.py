"""Random Node Sampling: every epoch splits the nodes at random into m parts, and a step trains on the subgraph of one
part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Sample, training_sample
from handful.errors import SamplerError
from handful.graph import Graph
from handful.kernels.subgraph import counts, of_rank
from handful.random import generator
from handful.samplers.base import Deal, Sampler, Size, check_options, register
from handful.samplers.induced import dealt_samples, induced_adjacency, induced_parts, part_dtype
from handful.settings import Range


@register("rns")
@dataclass(frozen=True)
class RandomNodes(Sampler):
    """Random Node Sampling (paper, Algorithm 1).

    At the start of an epoch V is split uniformly at random into ``parts`` blocks B_0, …, B_{m-1}. Step k trains on the
    induced subgraph G[B_k] with the mean loss over B_k ∩ V_train.

    Args:
        parts: m, the number of blocks. The sizes of blocks differ by at most one node, and every node is in one block.
        drop_last: whether blocks have exactly ⌊n/m⌋ nodes, as in the paper; an epoch then omits up to m - 1
            random nodes.
        stratify: whether every block has the same fraction of the training nodes of each class.
        fraction: if given, every step independently draws this fraction of the nodes, instead of a block; an epoch has
            ⌈1/fraction⌉ steps. Unlike 1/m, the fraction can be any number above 0 and up to 1.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> [sample.num_nodes for sample in RandomNodes(parts=3).sample(graph, seed=0, epoch=0)]
    [34, 33, 33]
    """

    parts: Size = 4
    drop_last: bool = False
    stratify: bool = False
    fraction: Annotated[float, Range(0, 1, open_low=True)] | None = None
    induces: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_options(self)
        if self.fraction is not None and (self.drop_last or self.stratify):
            raise SamplerError("fraction draws nodes independently: it goes with neither drop_last nor stratify")

    def share(self, graph: Graph) -> float:
        return 1 / self.parts if self.fraction is None else self.fraction

    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        if self.deals:
            return dealt_samples(graph, *self.deal(graph, seed, epoch))
        return (training_sample(graph, nodes, (edges,)) for nodes, edges in self.subgraphs(graph, seed, epoch))

    def subgraphs(self, graph: Graph, seed: int, epoch: int) -> Iterator[tuple[Tensor, Adjacency]]:
        """Yield the node ids and edges of each subgraph of an epoch. The graph needs neither features nor labels."""
        if self.fraction is None:
            yield from induced_parts(graph, *self.deal(graph, seed, epoch))
            return
        size = max(1, round(self.fraction * graph.num_nodes))
        for step in range(int(np.ceil(1 / self.fraction - 1e-9))):
            nodes = generator(seed, epoch, step).choice(graph.num_nodes, size, replace=False, shuffle=False)
            nodes.sort()
            yield torch.from_numpy(nodes).to(graph.device), induced_adjacency(graph, nodes)

    @property
    def deals(self) -> bool:
        return self.fraction is None

    def deal(self, graph: Graph, seed: int, epoch: int) -> Deal:
        if not self.deals:
            return super().deal(graph, seed, epoch)
        if self.parts > max(1, graph.num_nodes):
            raise SamplerError(f"cannot split {graph.num_nodes} nodes into {self.parts} parts: use fewer parts")
        rng = generator(seed, epoch)
        if self.stratify:
            part = deal_stratified(strata(graph), self.parts, rng, self.drop_last)
        else:
            part = deal(graph.num_nodes, self.parts, rng, self.drop_last)
        return Deal(part, self.parts)


def dealing(sampler: Sampler) -> RandomNodes:
    """Return ``sampler`` if it is ``rns``, the only sampler with a number of parts m.

    Raises:
        SamplerError: the sampler is not ``rns``.
    """
    if not isinstance(sampler, RandomNodes):
        raise SamplerError(f"only the sampler rns has parts to choose: '{sampler.name}' has none")
    return sampler


def deal(n: int, m: int, rng: np.random.Generator, drop_last: bool = False) -> np.ndarray:
    """Draw a uniformly random split of ``n`` nodes into ``m`` parts whose sizes differ by at most one; return the part
    of each node.

    Every node gets a random part; then random nodes of parts that are too large move to parts that are too small. All
    nodes have the same probabilities and the sizes are fixed, so all splits with these sizes are equally likely. This
    method is much faster than a permutation, and needs no memory besides the result. If ``drop_last``, all sizes
    are ⌊n/m⌋, and the remaining nodes get part ``m``.
    """
    part = rng.integers(0, m, n, dtype=part_dtype(m))
    size = np.full(m, n // m)
    if not drop_last:
        size[: n % m] += 1
    drawn = counts(part, m)
    none = np.empty(0, np.int64)
    ranks = [rng.choice(d, d - s, replace=False) if d > s else none for d, s in zip(drawn, size, strict=True)]
    surplus = of_rank(part, ranks)
    receivers = np.repeat(np.arange(m), np.maximum(size - drawn, 0))
    if drop_last:
        receivers = np.concatenate([receivers, np.full(n - m * (n // m), m)])
    if any(map(len, surplus)):
        part[rng.permutation(np.concatenate(surplus))] = receivers
    return part


def strata(graph: Graph) -> np.ndarray:
    """The class of each training node, and -1 for every other node."""
    graph.require_training()
    assert graph.y is not None
    assert graph.train_mask is not None
    if graph.kind not in ("binary", "multiclass"):
        raise SamplerError(f"stratified parts need classes, and the labels of {graph.name} are {graph.kind}")
    return torch.where(graph.train_mask, graph.y, -1).cpu().numpy()


def deal_stratified(stratum: np.ndarray, m: int, rng: np.random.Generator, drop_last: bool = False) -> np.ndarray:
    """Draw a random split into ``m`` parts. For each stratum, the numbers of its nodes in the parts differ by at most
    one.

    Return the part of each node.
    """
    kept = rng.permutation(len(stratum))[len(stratum) % m if drop_last else 0 :]
    part = np.full(len(stratum), m, part_dtype(m))
    round_robin = rng.permutation(m)[np.arange(len(kept)) % m]
    part[kept[np.argsort(stratum[kept], kind="stable")]] = round_robin
    return part
