"""Trimming: layers that compute only the nodes that the loss can still see.

A node k hops from the nearest target matters to all but the last k layers. Numbered by that distance, the nodes that a
layer must compute are a prefix, so that all layers are slices of one CSR.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from handful.adjacency import Adjacency
from handful.batch import Batch, gather
from handful.kernels.reach import edges_of_rows, reach, rows_among

WORTH = 0.9
"""Beyond this share of the rows left to compute, trimming costs more than it saves."""


def trim(batch: Batch, depth: int) -> Batch:
    """The batch with one rectangle for each of ``depth`` layers, holding only what ``batch.targets`` depend on.

    Loss and gradients stay the same but for rounding (and but for which elements dropout takes: its mask goes by a
    node's place), provided that no node matters to another save along an edge. BatchNorm breaks that: its statistics
    are those of all nodes. Degrees stay those of the sampled graph. A batch whose layers are rectangles already, one
    without targets, and one with next to nothing to cut is returned as it is.
    """
    if not batch.shared or len(batch.targets) == 0:
        return batch
    adj = batch.layers[0]
    order, counts = reach(adj.indptr, adj.indices, batch.targets, depth)
    if sum(counts[:-1]) > WORTH * depth * adj.num_targets:
        return batch
    indptr, indices, place = rows_among(adj.indptr, adj.indices, order, counts[-2])
    weight = None if adj.weight is None else adj.weight[edges_of_rows(adj.indptr, order[: counts[-2]], indptr)]
    degree = None if adj.normalized else adj.degree_with_loops[order]

    def rectangle(sources: int, targets: int) -> Adjacency:
        edges = int(indptr[targets])
        return replace(
            adj,
            indptr=indptr[: targets + 1],
            indices=indices[:edges],
            num_sources=sources,
            weight=None if weight is None else weight[:edges],
            symmetric=adj.symmetric and sources == targets,  # nothing new was reached: a union of components
            source_degree=None if degree is None else degree[:sources],
        )

    layers = [rectangle(sources, targets) for targets, sources in itertools.pairwise(counts)]
    return replace(
        batch,
        nodes=batch.nodes[order],
        x=gather(batch.x, order),
        layers=tuple(reversed(layers)),
        targets=place[batch.targets].to(batch.targets.dtype),
    )
