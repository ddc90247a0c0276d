"""The mean-field neighbour: a node of the batch that stands in for the neighbours that a part lacks.

The features of the full graph are aggregated once, X_k = Âᵏ X. Let φ₁ be the first layer. It takes a row and the mean
of its neighbours, so φ₁(X_1, X_2)_v is φ₁ of the *mean* neighbour of v. A row that lacks neighbours in its part B takes
that as one more neighbour with weight λ:

    z_v = (Σ_{u ∈ N(v) ∩ B} w_vu·h_u + λ·h'_v) / (k_v + λ),    k_v = Σ_{u ∈ N(v) ∩ B} w_vu,    h'_v = φ₁(X_1, X_2)_v

- **First hop.** With ``first_hop="exact"`` every row takes X_1: h_v = φ₁(X_0, X_1)_v. With ``"sampled"`` the rows that
  the second layer computes take z_v of the same formula, with h = X_0 and h' = X_1 (``shrink``). X_1 is the exact mean,
  so the expectation of such a row is exact for every λ. The draw adds noise, which regularises.
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
from handful.kernels.gather import gather

ROUNDING = 1e-5
"""A row lacks nothing if the mass that it lacks is less than this share of its mass in the full graph."""
LEAST_SHARE = 0.05
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
    targets, device = sizes[1], real.device
    place = torch.full((2, real.num_sources), -1, device=device)  # where (level, row) is
    place[level, rows] = torch.arange(len(rows), device=device)
    served, own = place[1, rows[:targets]], level[:targets] == 0
    count = torch.where(own, real.degree[rows[:targets]], 0) + (served >= 0)
    indptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    indices = real.indices.new_empty(int(indptr[-1]))
    weight = torch.empty(len(indices), device=device)
    of_edge = real.target_of_edge
    begin = indptr[place[0, : real.num_targets]] - real.indptr[:-1]
    at = torch.arange(real.num_edges, device=device) + begin[of_edge]
    indices[at] = place[0, real.indices.long()].to(indices.dtype)
    weight[at] = real.weight * (1 - share)[of_edge]
    last = (served >= 0).nonzero().squeeze(1)
    at = indptr[last + 1] - 1
    indices[at] = served[last].to(indices.dtype)
    weight[at] = torch.where(own[last], share[rows[last]], 1.0)
    ends = indptr[torch.tensor(sizes[1:], device=device)].tolist()
    return tuple(
        replace(real, indptr=indptr[: t + 1], indices=indices[:e], num_sources=s, weight=weight[:e], offset=0)
        for s, t, e in zip(sizes, sizes[1:], ends, strict=False)
    )


def rows_with_hop(x: Tensor, rows: Tensor, level: Tensor, features: int) -> Tensor:
    """[X_k ‖ X_{k+1}] of every row and its level k, from ``x`` = [X_0 ‖ X_1 ‖ …] with ``features`` columns each.

    >>> x = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    >>> rows_with_hop(x, torch.tensor([1, 1]), torch.tensor([0, 1]), features=1)
    tensor([[10., 11.],
            [11., 12.]])
    """
    hops = x.shape[1] // features
    pairs = x.as_strided((max(0, len(x) * hops - 1), 2 * features), (features, 1))
    return gather(pairs, rows * hops + level)


def shrink(x: Tensor, level: Tensor, layers: Sequence[Adjacency], features: int) -> None:
    """Give the rows that the second layer computes the sampled first hop, shrunk to the exact one, in place.

    A stand-in's own half is X_1 of the row that it serves, so that the edges of the second layer give z_v of the first.

    Args:
        x: ``(rows, 2 features)``, [X_k ‖ X_{k+1}] of every row and its level k.
        level: ``(rows,)``.
        layers: of the sample with its stand-ins; the first has the edges of the second layer of the model.
        features: the columns of X.
    """
    rows = layers[0].num_targets
    around, shrunk = x[:rows, features:], layers[0].matmul(x[:, :features]).to(x.dtype)
    if len(layers) > 1:  # the second layer computes stand-ins, too, which keep theirs
        shrunk = torch.where(level[:rows, None] == 0, shrunk, around)
    around.copy_(shrunk)
