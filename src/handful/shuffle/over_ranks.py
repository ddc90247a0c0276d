"""Training and exact inference on a graph in shards: ranks exchange edges and features once per epoch.

At the start of an epoch every rank splits all nodes into the same parts, and reads its own rows once. Each rank sends
the edges inside a part to the rank that computes the part. Shards contain consecutive nodes, so the edges from ranks 0,
1, … are the rows of the part in order. The batch has the same bytes as with one process. The rank that computes a part
trims the batch, and requests the needed feature rows from the other ranks. During the epoch, ranks exchange only
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from handful import ranks
from handful.adjacency import Adjacency
from handful.batch import Batch, Sample
from handful.errors import HandfulError
from handful.kernels import subgraph
from handful.kernels.subgraph import cut, members, row_blocks
from handful.nn.backbone import Stack
from handful.nn.network import Chunks
from handful.samplers.base import Deal, Sampler
from handful.shuffle.epoch import Trim, sample_of
from handful.shuffle.shards import ShardedGraph, all_rows

Survivors = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The arrays ``degree``, ``source`` and ``value`` of a part, as ``Cut.of`` returns them."""


def shard_batches(
    graph: ShardedGraph, sampler: Sampler, seed: int, epoch: int, owner: Callable[[int], int], trimmed: Trim
) -> Iterator[Batch | None]:
    """Yield, for each batch of an epoch, the batch if this rank computes it, and ``None`` otherwise.

    Args:
        graph: the graph, with the shard of this rank.
        sampler: a sampler whose batches are the parts of a partition.
        seed, epoch: as for ``Sampler.sample``.
        owner: a function from the index of a part to the rank that computes the part.
        trimmed: a function that trims a sample to the receptive field of its loss.
    """
    deal = sampler.deal(graph, seed, epoch)
    owners = [owner(p) for p in range(deal.parts)]
    parts = [[p for p in range(deal.parts) if owners[p] == rank] for rank in range(ranks.size())]
    nodes = (members(deal.part, p, p + 1)[0] for p in parts[ranks.rank()])
    samples = [sample_of(graph, *own, trimmed) for own in zip(nodes, send(graph, deal, parts), strict=True)]
    batches = iter([*with_rows(graph, samples, max(map(len, parts)))])
    for rank in owners:
        yield next(batches) if rank == ranks.rank() else None


def send(graph: ShardedGraph, deal: Deal, parts: Sequence[Sequence[int]]) -> list[Survivors]:
    """Send each kept edge of this rank's rows to the rank that computes the part of the edge. Return the edges of the
    parts that this rank computes. ``parts[r]`` lists the parts that rank r computes.
    """
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    values = None if graph.edge_weight is None else graph.edge_weight.numpy()
    cuts = [cut(graph.begin + lo, indptr[lo : hi + 1], indices, *deal, values) for lo, hi in row_blocks(indptr)]
    kinds: tuple[Any, ...] = (np.int32, indices.dtype, np.float32)
    leaving, lengths = [], []
    for theirs in parts:
        kept = [subgraph.joined([piece.of(p) for piece in cuts], indices, values) for p in theirs]
        lengths.append(torch.tensor([[len(array) for array in one] for one in kept], dtype=torch.int64).view(-1, 3))
        arrays = ([np.empty(0, kind), *(one[i] for one in kept)] for i, kind in enumerate(kinds))
        leaving.append([np.concatenate(some, dtype=some[0].dtype) for some in arrays])
    del cuts
    result = [lengths.numpy() for lengths in ranks.exchange(lengths)]
    arrived = []
    for i in range(len(kinds)):
        got = [one.numpy() for one in ranks.exchange([torch.from_numpy(out[i]) for out in leaving])]
        # The data of each rank are cut into parts. Then the pieces of each part are joined in the order of the ranks.
        pieces = [np.split(one, np.cumsum(lengths[:, i])[:-1]) for one, lengths in zip(got, result, strict=True)]
        arrived.append([np.concatenate(of_part) for of_part in zip(*pieces, strict=True)])
    return list(zip(*arrived, strict=True))[: len(parts[ranks.rank()])]


def with_rows(graph: ShardedGraph, samples: Sequence[Sample], rounds: int) -> Iterator[Batch]:
    """Add features to the samples; the feature rows come from the ranks that own them. Every rank takes part in
    ``rounds`` exchanges.
    """
    assert graph.x is not None
    assert graph.y is not None
    none = torch.empty(0, dtype=torch.int64)
    for sample in [*samples, *[None] * (rounds - len(samples))]:
        x = fetch(graph.x, graph.cuts, none if sample is None else sample.nodes)
        if sample is not None:
            yield Batch(**vars(sample), x=x, y=graph.y[sample.nodes[sample.targets]])


def fetch(rows: Tensor, cuts: Sequence[int], nodes: Tensor) -> Tensor:
    """Get the rows of ``nodes``, int64 ids, from the ranks that own them. All ranks must call this function.

    Rank r owns the nodes ``cuts[r]`` to ``cuts[r + 1] - 1``; its ``rows`` are the rows of these nodes.
    """
    places = torch.bucketize(nodes, torch.tensor(cuts[1:-1]), right=True)
    order = torch.argsort(places, stable=True)
    count = torch.bincount(places, minlength=len(cuts) - 1).tolist()
    asked = [one - begin for one, begin in zip(torch.split(nodes[order], count), cuts[:-1], strict=True)]
    answers = ranks.exchange([rows[wanted] for wanted in ranks.exchange(asked)])
    out = rows.new_empty(len(nodes), *rows.shape[1:])
    out[order] = torch.cat(answers)
    return out


# -- inference --------------------------------------------------------------------------------------------------------


def check_model(model: nn.Module) -> None:
    """Raise an error if a model cannot be evaluated on a graph in shards."""
    if not isinstance(model, Stack):
        kind, others = type(model).__name__, "gcn, sage, gat or graphland-sage"
        raise HandfulError(f"a graph in shards is evaluated layer by layer, and {kind} cannot be: use {others}")


def infer_shards(model: nn.Module, graph: ShardedGraph, chunks: Chunks) -> Tensor:
    """The exact logits of this rank's own nodes, in evaluation mode and without gradients.

    The computation goes layer by layer, in chunks of rows. For each chunk, the needed rows of the previous layer come
    from the ranks that own these rows.
    """
    check_model(model)
    assert isinstance(model, Stack)
    assert graph.x is not None
    own = own_rows(graph)
    own = replace(own, source_degree=all_rows(own.own_degree_with_loops))
    rounds = int(ranks.largest(-(-len(graph.x) // chunks.rows))[0])
    known = model.knows_hop(graph.x)
    h = chunks.map_rows(model.first_layer if known else model.embed, graph.x)
    for i in range(int(known), model.depth):
        out: list[Tensor] = []
        for k in range(rounds):
            lo, hi = (min(end * chunks.rows, len(h)) for end in (k, k + 1))
            nodes, chunk = renumber(own.rows(lo, hi))
            below = fetch(h, graph.cuts, nodes)
            if hi > lo:
                out.append(model.layer(i, chunk, below))
        h = torch.cat(out)
    return chunks.map_rows(model.head, h)


def own_rows(graph: ShardedGraph) -> Adjacency:
    """The edges from all nodes to this rank's nodes."""
    edges = graph.indptr, graph.indices, graph.num_nodes, graph.edge_weight
    return Adjacency(*edges, has_loops=graph.has_loops, offset=graph.begin)


def renumber(rows: Adjacency) -> tuple[Tensor, Adjacency]:
    """Renumber the nodes of some rows. Return the nodes in their new order, and the edges with the new indices.

    In the new order, the targets come first, followed by all other sources.
    """
    assert rows.source_degree is not None
    first, count, sources = rows.offset, rows.num_targets, rows.indices.numpy()
    inside = (sources >= first) & (sources < first + count)
    others = np.unique(sources[~inside])
    number = np.where(inside, sources - first, count + np.searchsorted(others, sources)).astype(np.int32)
    nodes = torch.cat([torch.arange(first, first + count), torch.from_numpy(others.astype(np.int64))])
    degree = rows.source_degree[nodes]
    edges = replace(rows, indices=torch.from_numpy(number), num_sources=len(nodes), source_degree=degree, offset=0)
    return nodes, edges
