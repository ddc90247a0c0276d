"""Trimming: each layer computes only the nodes that the loss depends on.

If a node is k hops from the nearest target, the loss does not depend on the outputs of the last k layers for this node.
If nodes are sorted by this distance, the nodes that a layer must compute come first. So all layers are slices of one
CSR.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import torch

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample
from handful.kernels.gather import gather
from handful.kernels.reach import edges_of_rows, reach, rows_among, with_all

S = TypeVar("S", bound=Sample)
WORTH = 0.9
"""If more than this fraction of the rows would remain, trimming is skipped: it would cost more than it saves."""


def trim(sample: S, depth: int, whole: int | None = None) -> S:
    """Trim ``sample`` to ``depth`` layers, each with only the nodes and edges that the targets depend on.

    Loss and gradients stay the same up to rounding. Dropout drops different elements, since its mask depends on the
    index of a node. The model must pass information between nodes only along edges. This excludes BatchNorm, whose
    statistics depend on all nodes. If ``whole`` is given, all nodes stay, and the first ``whole`` layers compute all
    nodes. The degrees of the nodes are those in the sample before trimming. The sample is returned unchanged if its
    layers are already rectangular, if it has no targets, or if trimming would remove almost nothing. On a GPU the host
    waits for the device once.
    """
    squares = whole or 0
    free = depth - squares
    if not sample.shared or len(sample.targets) == 0 or free < 1:
        return sample
    adj = sample.layers[0]
    if sample.hops is not None:
        last = len(sample.hops) - 1
        counts = [sample.hops[min(hop, last)] for hop in range(free + 1)]
        if whole is not None:
            counts[-1] = adj.num_targets
        order = place = torch.arange(counts[-1], device=adj.device)
        indptr, indices, weight = adj.indptr, adj.indices, adj.weight
        edges = indptr[torch.tensor(counts[:-1], device=adj.device)].tolist()
    else:
        result = reach(adj.indptr, adj.indices, sample.targets, free)
        result = result if whole is None else with_all(adj.indptr, result)
        order, counts, indptr, edges = result
        if sum(counts[:-1]) > WORTH * free * adj.num_targets:
            return sample
        indices, place = rows_among(adj.indptr, adj.indices, result)
        weight = None if adj.weight is None else adj.weight.index_select(0, edges_of_rows(adj.indptr, result))
    degree = None if adj.normalized else adj.degree_with_loops.index_select(0, order)

    def rectangle(sources: int, targets: int, count: int) -> Adjacency:
        return replace(
            adj,
            indptr=indptr[: targets + 1],
            indices=indices[:count],
            num_sources=sources,
            weight=None if weight is None else weight[:count],
            symmetric=adj.symmetric and sources == targets,  # if no node is added, the sample is a union of components
            source_degree=None if degree is None else degree[:sources],
        )

    layers = [rectangle(*sizes) for sizes in zip(counts[1:], counts, edges, strict=False)]
    layers += [rectangle(counts[-1], counts[-1], adj.num_edges)] * squares
    features = {"x": gather(sample.x, order)} if isinstance(sample, Batch) else {}
    return replace(
        sample,
        **features,
        nodes=sample.nodes.index_select(0, order),
        layers=tuple(reversed(layers)),
        targets=place.index_select(0, sample.targets).to(sample.targets.dtype),
        hops=None,
    )
