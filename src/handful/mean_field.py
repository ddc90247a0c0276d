"""The mean-field neighbour ("stand-in"): an extra node in a batch that replaces a node's neighbours outside the part.

The features of the full graph are aggregated once, X_k = Âᵏ X. Let φ₁ be the first layer. The inputs of φ₁ are a
node's row and the mean of its neighbours' rows, so φ₁(X_1, X_2)_v is the output for the *mean* neighbour of v. If some
neighbours of v are not in the part B of v, the aggregation of v includes this output as one more neighbour, with weight
λ:

    z_v = (Σ_{u ∈ N(v) ∩ B} w_vu·h_u + λ·h'_v) / (k_v + λ),    k_v = Σ_{u ∈ N(v) ∩ B} w_vu,    h'_v = φ₁(X_1, X_2)_v

- **First hop.** If ``first_hop`` is ``exact``, every row uses X_1: h_v = φ₁(X_0, X_1)_v. If ``first_hop`` is
  ``sampled``, the rows that the second layer computes use z_v instead of X_1, by the same formula with h = X_0 and
  h' = X_1 (``gather_hops``).
  X_1 is the exact mean, so the expectation of z_v is exact for every λ. The noise of the sampling regularises the
  model.
- **Later layers.** The mean neighbour is its own neighbour: h'_v ← φ_i(h'_v, h'_v). (A chain of stand-ins with X_3,
  X_4, … is not better, and needs more rows per layer: docs/survey.md.)

Stand-ins are ordinary nodes and edges of the batch, so every backbone, device and execution mode supports them.
Evaluation is exact and uses no stand-ins.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from handful.adjacency import Adjacency, Hop, inverse
from handful.batch import Sample
from handful.kernels.stand_in import StandIns, add_stand_ins

ROUNDING = 1e-5
"""A row counts as complete if the weights of its missing edges are at most this fraction of the sum of its weights in
the full graph.
"""
LEAST_SHARE = 0.2
"""A row gets no stand-in if the stand-in would have less than this fraction of the row's total weight."""


def stand_in(sample: Sample, depth: int, hop: Hop, mean_field: float, mass: Tensor) -> tuple[Sample, StandIns]:
    """Add a stand-in to ``sample`` for each row with missing neighbours. Return the new sample, and the ``StandIns``
    that map its rows to the rows of ``sample``.

    Rows are sorted by the number of layers that need them, in descending order. So the targets of a layer are its first
    sources, and all layers are slices of one CSR.

    Args:
        sample: a sample with all edges between its nodes. It has either one square adjacency, or one rectangular
            adjacency for each layer of the model except the first.
        depth: L, the number of layers of the model. The first layer needs no edges.
        hop: the aggregation of the layers.
        mean_field: the weight λ of a stand-in.
        mass: float ``(N,)``, the divisor of ``hop`` for every node of the graph (``Adjacency.mass``).
    """
    edges = sample.stack(depth - 1)
    # A mean needs no edge weights: all edges of a row have the same factor.
    first, known = (edges[0], edges[0].mass(hop)) if hop == "mean" else edges[0].operator(hop)
    full, total = mass.index_select(0, sample.nodes[: first.num_targets]), known + mean_field
    lacking = (full - known > ROUNDING * full) & (mean_field >= LEAST_SHARE * total)
    share = torch.where(lacking, mean_field / total, 0.0)  # the weight of the stand-in in its row
    scale = inverse(torch.where(lacking, total, known)) if hop == "mean" else 1 - share
    ends = [first.num_sources, *(layer.num_targets for layer in edges), 0]  # s_1 = t_0, t_1, …, t_{L-1}, t_L
    result = add_stand_ins((first.indptr, first.indices, first.weight), scale, share, ends)
    layers = tuple(
        Adjacency(result.indptr[: t + 1], result.indices[:e], s, result.weight[:e], normalized=True)
        for (s, t), e in zip(pairwise(result.sizes), result.indptr[result.sizes[1:]].tolist(), strict=True)
    )
    return Sample(sample.nodes.index_select(0, result.rows), layers, sample.targets, sample.target_weight), result
