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

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from handful.adjacency import Adjacency, Hop
from handful.batch import Sample
from handful.kernels.stand_in import add_stand_ins

ROUNDING = 1e-5
"""A row lacks nothing if the mass that it lacks is less than this share of its mass in the full graph."""
LEAST_SHARE = 0.2
"""A row gets no stand-in where that would have a smaller share in it."""


class StandIns(NamedTuple):
    """A sample with its stand-ins."""

    sample: Sample
    rows: Tensor
    """int64, the row of the plain sample that each row is, or stands in for the neighbours of."""
    level: Tensor
    """int64, 0 for a row of the plain sample, 1 for a stand-in."""


def stand_in(sample: Sample, depth: int, hop: Hop, mean_field: float, mass: Tensor) -> StandIns:
    """Add stand-ins to the rows of ``sample`` that lack neighbours.

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
    real, known = edges[0].operator(hop)
    full = mass[sample.nodes[: real.num_targets]]
    lacking = (full - known > ROUNDING * full) & (mean_field >= LEAST_SHARE * (known + mean_field))
    chosen = lacking.nonzero().squeeze(1)
    ends = [real.num_sources, *(layer.num_targets for layer in edges), 0]  # s_1 = t_0, t_1, …, t_{L-1}, t_L
    rows, level, sizes = _number_rows(chosen, ends)
    share = torch.where(lacking, mean_field / (known + mean_field), 0.0)  # of the stand-in in the row that it serves
    layers = _layers(real, share, rows, level, sizes)
    return StandIns(Sample(sample.nodes[rows], layers, sample.targets, sample.target_weight), rows, level)


def _number_rows(chosen: Tensor, ends: Sequence[int]) -> tuple[Tensor, Tensor, list[int]]:
    """Row and level of every node of the batch, those that are needed longest first; how many enter layer 1, 2, …, L.

    Row v enters layers 1 to i for the largest i with v < t_{i-1}, and the stand-in of row v for the largest with
    v < t_i.
    """
    device, last = chosen.device, len(ends) - 2
    counts = torch.searchsorted(chosen, torch.tensor(ends, device=device)).tolist()
    rows, sizes = [torch.arange(ends[last], device=device), chosen[:0]], [ends[last]]
    for i in range(last, 0, -1):
        rows += [torch.arange(ends[i], ends[i - 1], device=device), chosen[counts[i + 1] : counts[i]]]
        sizes.append(sizes[-1] + len(rows[-2]) + len(rows[-1]))
    level = torch.cat([torch.full_like(block, i % 2) for i, block in enumerate(rows)])
    return torch.cat(rows), level, sizes[::-1]


def _layers(real: Adjacency, share: Tensor, rows: Tensor, level: Tensor, sizes: list[int]) -> tuple[Adjacency, ...]:
    """The layers over the numbered rows: edges among rows of the sample, one from a stand-in to the row that it serves,
    and one from each stand-in to itself."""
    assert real.weight is not None
    edges = real.indptr, real.indices, real.weight
    indptr, indices, weight = add_stand_ins(edges, rows, level, sizes[1], share)
    ends = indptr[torch.tensor(sizes[1:], device=real.device)].tolist()
    return tuple(
        replace(real, indptr=indptr[: t + 1], indices=indices[:e], num_sources=s, weight=weight[:e], offset=0)
        for s, t, e in zip(sizes, sizes[1:], ends, strict=False)
    )
