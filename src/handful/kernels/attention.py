"""GAT attention: edge scores, their softmax over each target's edges, and the weighted sum, without a tensor of edges.

    out[v] = Σ_u α_vu · x[u],   α_vu = softmax_u(leaky_relu(a_src[u] + a_dst[v])),   u over v and the sources of v

Every target attends to itself exactly once, whether or not the adjacency has its self-loop. Edge weights are not used,
not even those of ``normalized`` adjacencies (LADIES): attention computes the weights of edges.

The memory kept for the backward pass is O(N·heads + N·F): each row's largest score and its sum, and the part of the
output that came over edges with a positive score. The gradient of ``a_dst`` follows from that part alone, because
Σ_u ∂L/∂score_vu = 0 for a softmax. The other gradients take one pass over the reversed edges, which computes the scores
again. The loops are in ``attention_numba`` and ``attention_triton``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.dispatch import loops, twin_gradients

if TYPE_CHECKING:
    from handful.adjacency import Adjacency


def attention(adj: Adjacency, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float = 0.2, first: int = 0) -> Tensor:
    """Attention by the fastest way on the device of ``x``; differentiable in ``x``, ``a_src`` and ``a_dst``.

    Args:
        adj: the edges, targets × sources.
        x: ``(sources, heads, channels)``.
        a_src: ``(sources, heads)``, the term of each source in the scores of its edges.
        a_dst: ``(targets, heads)``, what each target adds to the score of its edges.
        slope: of the leaky ReLU for negative scores.
        first: which source the first target is; ``lo`` for a chunk ``adj.rows(lo, hi)``, 0 otherwise.

    Returns:
        ``(targets, heads, channels)`` in the type of ``x``.
    """
    _check(adj, x, a_src, a_dst, slope, first)
    if loops("attention", x.device) is None:
        return attention_torch(adj, x, a_src, a_dst, slope, first)
    return _Attention.apply(x, a_src, a_dst, adj, slope, first)  # type: ignore[no-any-return, no-untyped-call]


def attention_torch(
    adj: Adjacency, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float = 0.2, first: int = 0
) -> Tensor:
    """The same in plain torch, for any device and to be differentiated twice; memory is O(E·F)."""
    wide = wide_dtype(x)
    sources, targets = adj.edge_index
    own = torch.arange(adj.num_targets, device=x.device)
    other = sources != targets + first
    sources, targets = torch.cat([sources[other], own + first]), torch.cat([targets[other], own])
    score = leaky_relu(a_src.to(wide)[sources] + a_dst.to(wide)[targets], slope)
    index = targets[:, None].expand_as(score)
    peak = torch.zeros_like(a_dst, dtype=wide).scatter_reduce(0, index, score.detach(), "amax", include_self=False)
    share = (score - peak[targets]).exp()
    alpha = share / torch.zeros_like(peak).index_add(0, targets, share)[targets]
    out = torch.zeros(adj.num_targets, *x.shape[1:], dtype=wide, device=x.device)
    return out.index_add(0, targets, alpha[..., None] * x.to(wide)[sources]).to(x.dtype)


def _check(adj: Adjacency, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float, first: int) -> None:
    if slope < 0:
        raise ValueError(f"slope must not be negative, got {slope}")
    if x.ndim != 3 or len(x) != adj.num_sources:
        raise ValueError(f"x must be ({adj.num_sources} sources, heads, channels), got {tuple(x.shape)}")
    if a_src.shape != x.shape[:2] or a_dst.shape != (adj.num_targets, x.shape[1]):
        raise ValueError(
            f"a_src must be {tuple(x.shape[:2])} and a_dst {(adj.num_targets, x.shape[1])}, "
            f"got {tuple(a_src.shape)} and {tuple(a_dst.shape)}"
        )
    if not 0 <= first <= adj.num_sources - adj.num_targets:
        raise ValueError(f"targets {first} to {first + adj.num_targets} are not among {adj.num_sources} sources")


class Scores(NamedTuple):
    """The arguments of ``attention``: the parts of the scores, and the rows to weight."""

    x: Tensor
    a_src: Tensor
    a_dst: Tensor
    slope: float
    first: int


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, a_src: Tensor, a_dst: Tensor, adj: Adjacency, slope: float, first: int) -> Tensor:
        keep = any(ctx.needs_input_grad[:3])
        ops = loops("attention", x.device)
        out, positive, rows = ops.forward(adj.indptr, adj.indices, Scores(x, a_src, a_dst, slope, first), keep)
        if keep:
            ctx.save_for_backward(x, a_src, a_dst, out, positive, rows)
        ctx.adj, ctx.slope, ctx.first = adj, slope, first
        return out  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, a_src, a_dst, out, positive, rows = ctx.saved_tensors
        adj, slope, first = ctx.adj, ctx.slope, ctx.first
        if torch.is_grad_enabled():  # create_graph=True: the function in plain torch can be differentiated again
            plain = partial(attention_torch, adj, slope=slope, first=first)
            return *twin_gradients(plain, (x, a_src, a_dst), grads[0]), None, None, None
        ops, grad = loops("attention", x.device), grads[0].contiguous()
        inner, grad_dst = ops.backward_targets(grad, out, positive, rows, slope)
        given = Scores(x, a_src, a_dst, slope, first)
        grad_x, grad_src = ops.backward_sources(*adj.transposed[:2], given, grad, rows, inner)
        return grad_x, grad_src.to(a_src.dtype), grad_dst.to(a_dst.dtype), None, None, None
