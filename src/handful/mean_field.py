"""The mean-field neighbour: a node of the batch that stands in for the neighbours that a part lacks.

The features of the full graph are aggregated once, X_k = Âᵏ X. Let φ₁ be the first layer. It takes a row and the mean
of its neighbours, so φ₁(X_1, X_2)_v is φ₁ of the *mean* neighbour of v. A row that lacks neighbours in its part B takes
that as one more neighbour with weight λ:

    z_v = (Σ_{u ∈ N(v) ∩ B} w_vu·h_u + λ·h'_v) / (k_v + λ),    k_v = Σ_{u ∈ N(v) ∩ B} w_vu,    h'_v = φ₁(X_1, X_2)_v

- **First hop.** With ``first_hop="exact"`` every row takes X_1: h_v = φ₁(X_0, X_1)_v. With ``"sampled"`` the rows that
  the second layer computes take z_v of the same formula, with h = X_0 and h' = X_1 (``gather_hops``). X_1 is the exact
  mean, so the expectation of such a row is exact for every λ. The draw adds noise, which regularises.
- **Later layers.** The mean neighbour is its own neighbour: h'_v ← φ_i(h'_v, h'_v). (A chain of stand-ins with X_3,
  X_4, … is no better and takes more rows with every layer: docs/survey.md.)

Stand-ins are nodes and edges of the batch like all others, so every backbone, device and execution runs them as it is.
Evaluation is exact and has none.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from handful.adjacency import Adjacency, Hop, inverse
from handful.batch import Sample
from handful.kernels.stand_in import StandIns, add_stand_ins

ROUNDING = 1e-5
"""A row lacks nothing if the mass that it lacks is less than this share of its mass in the full graph."""
LEAST_SHARE = 0.2
"""A row gets no stand-in where that would have a smaller share in it."""


def stand_in(sample: Sample, depth: int, hop: Hop, mean_field: float, mass: Tensor) -> tuple[Sample, StandIns]:
    """``sample`` with stand-ins for the rows that lack neighbours; and which row is what.

    Rows are numbered by the layer up to which they are needed, so that the targets of a layer are the first of its
    sources, and all layers are slices of one CSR.

    Args:
        sample: induced by nodes; one square, or one rectangle for each layer but the first.
        depth: L, the layers of the model; the first needs no edges.
        hop: how its layers aggregate.
        mean_field: λ.
        mass: float ``(N,)``, the mass of every node of the graph (``Adjacency.mass``).
    """
    edges = sample.stack(depth - 1)
    # A mean needs no weights of edges: every edge of a row has the same factor.
    first, known = (edges[0], edges[0].mass(hop)) if hop == "mean" else edges[0].operator(hop)
    full, total = mass.index_select(0, sample.nodes[: first.num_targets]), known + mean_field
    lacking = (full - known > ROUNDING * full) & (mean_field >= LEAST_SHARE * total)
    share = torch.where(lacking, mean_field / total, 0.0)  # of the stand-in in the row that it serves
    scale = inverse(torch.where(lacking, total, known)) if hop == "mean" else 1 - share
    ends = [first.num_sources, *(layer.num_targets for layer in edges), 0]  # s_1 = t_0, t_1, …, t_{L-1}, t_L
    result = add_stand_ins((first.indptr, first.indices, first.weight), scale, share, ends)
    layers = tuple(
        Adjacency(result.indptr[: t + 1], result.indices[:e], s, result.weight[:e], normalized=True)
        for (s, t), e in zip(pairwise(result.sizes), result.indptr[result.sizes[1:]].tolist(), strict=True)
    )
    return Sample(sample.nodes.index_select(0, result.rows), layers, sample.targets, sample.target_weight), result
