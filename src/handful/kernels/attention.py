"""GAT attention: edge scores, their softmax over each target's edges, and the weighted sum. No tensor has a row per
edge.

    out[v] = Σ_u α_vu · x[u],   α_vu = softmax_u(leaky_relu(a_src[u] + a_dst[v])),   u over v and the sources of v

Every target attends to itself exactly once, whether or not the adjacency has this self-loop. Edge weights are not
used, not even the weights of ``normalized`` adjacencies (LADIES): attention computes its own weights.

The backward pass needs O(N·heads + N·F) of memory: the largest score and the sum of each row, and the part of the
output that comes from edges with a positive score. This part gives the gradient of ``a_dst``, because Σ_u ∂L/∂score_vu
= 0 for a softmax. One pass over the reversed edges computes the scores again and gives the other gradients. The kernels
are in ``attention_numba`` and ``attention_triton``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.dispatch import Fused, Saved, loops

if TYPE_CHECKING:
    from handful.adjacency import Adjacency

SLOPE = 0.2
"""The slope of the leaky ReLU for negative scores."""


def attention(adj: Adjacency, x: Tensor, a_src: Tensor, a_dst: Tensor, first: int = 0) -> Tensor:
    """Compute attention by the fastest implementation for the device of ``x``.

    The result is differentiable in ``x``, ``a_src`` and ``a_dst``.

    Args:
        adj: the edges, as a matrix of targets × sources.
        x: ``(sources, heads, channels)``.
        a_src: ``(sources, heads)``, the term of each source in the scores of its edges.
        a_dst: ``(targets, heads)``, the term of each target in the scores of its edges.
        first: the index of the first target among the sources: ``lo`` for a chunk ``adj.rows(lo, hi)``, 0 otherwise.

    Returns:
        ``(targets, heads, channels)``, with the dtype of ``x``.
    """
    shapes, heads = [tuple(one.shape) for one in (x, a_src, a_dst)], x.shape[1:2]
    if x.ndim != 3 or shapes != [(adj.num_sources, *x.shape[1:]), (adj.num_sources, *heads), (adj.num_targets, *heads)]:
        edges = f"({adj.num_sources} sources, heads, channels), (sources, heads), ({adj.num_targets} targets, heads)"
        raise ValueError(f"x, a_src and a_dst must be {edges}; got {shapes}")
    if not 0 <= first <= adj.num_sources - adj.num_targets:
        raise ValueError(f"targets {first} to {first + adj.num_targets} are not among {adj.num_sources} sources")
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in (x, a_src, a_dst))
    return _Attention(adj, first, trained)(x, a_src, a_dst)


def attention_torch(adj: Adjacency, x: Tensor, a_src: Tensor, a_dst: Tensor, first: int = 0) -> Tensor:
    """``attention`` in plain torch, for any device and for second derivatives. This version needs O(E·F) of memory."""
    wide = wide_dtype(x)
    sources, targets = adj.edge_index
    own = torch.arange(adj.num_targets, device=x.device)
    other = sources != targets + first
    sources, targets = torch.cat([sources[other], own + first]), torch.cat([targets[other], own])
    score = leaky_relu(a_src.to(wide)[sources] + a_dst.to(wide)[targets], SLOPE)
    index = targets[:, None].expand_as(score)
    peak = torch.zeros_like(a_dst, dtype=wide).scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    share = (score - peak[targets]).exp()
    alpha = share / torch.zeros_like(peak).index_add(0, targets, share)[targets]
    out = torch.zeros(adj.num_targets, *x.shape[1:], dtype=wide, device=x.device)
    return out.index_add(0, targets, alpha[..., None] * x.to(wide)[sources]).to(x.dtype)


class Scores(NamedTuple):
    """The arguments of ``attention``: the rows that are summed, and the two terms of the scores."""

    x: Tensor
    a_src: Tensor
    a_dst: Tensor
    first: int


@dataclass(frozen=True)
class _Attention(Fused):
    kernel = "attention"
    adj: Adjacency
    first: int
    trained: bool

    def twin(self, x: Tensor, a_src: Tensor, a_dst: Tensor) -> Tensor:
        return attention_torch(self.adj, x, a_src, a_dst, self.first)

    def forward(self, x: Tensor, a_src: Tensor, a_dst: Tensor) -> tuple[Tensor, Saved]:
        given = Scores(x, a_src, a_dst, self.first)
        kept = loops("attention", x.device).forward(self.adj.indptr, self.adj.indices, given, self.trained)
        return kept[0], (x, a_src, a_dst, *kept)

    def backward(self, grad: Tensor, saved: tuple[Tensor, ...], needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        x, a_src, a_dst, out, positive, rows = saved
        ops, given = loops("attention", x.device), Scores(x, a_src, a_dst, self.first)
        inner, grad_dst = ops.backward_targets(grad, out, positive, rows)
        grad_x, grad_src = ops.backward_sources(*self.adj.transposed[:2], given, grad, rows, inner)
        return grad_x, grad_src.to(a_src.dtype), grad_dst.to(a_dst.dtype)
