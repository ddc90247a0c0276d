"""GAT attention: edge scores, their softmax over each target's edges, and the weighted sum, without a tensor of edges.

    out[v] = Σ_u α_vu · x[u],   α_vu = softmax_u(leaky_relu(a_src[u] + a_dst[v])),   u over v and the sources of v

Every target attends to itself exactly once, whether or not the adjacency has its self-loop. Edge weights are not used,
not even those of ``normalized`` adjacencies (LADIES): attention weighs the edges itself.

The memory kept for the backward pass is O(N·heads + N·F): each row's largest score and its sum, and the part of the
output that came over edges with a positive score. The gradient of ``a_dst`` follows from that part alone, because
Σ_u ∂L/∂score_vu = 0 for a softmax. The other gradients take one pass over the reversed edges, which computes the scores
again.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from handful.kernels.bfloat16 import array, narrow, wide_dtype, widen
from handful.kernels.memory import empty
from handful.kernels.threads import kernel, over_rows
from handful.kernels.twin import twin_gradients


class LayerEdges(Protocol):
    """What attention needs of the edges of a layer; ``handful.adjacency.Adjacency`` has all of it."""

    @property
    def indptr(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...
    @property
    def num_sources(self) -> int: ...
    @property
    def num_targets(self) -> int: ...
    @property
    def edge_index(self) -> Tensor: ...
    @property
    def transposed(self) -> tuple[Tensor, Tensor, Tensor | None]: ...


def attention(adj: LayerEdges, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float = 0.2, first: int = 0) -> Tensor:
    """Attention by the fastest way on the device of ``x``; differentiable in ``x``, ``a_src`` and ``a_dst``.

    Args:
        adj: the edges, targets × sources.
        x: ``(sources, heads, channels)``.
        a_src: ``(sources, heads)``, what each source adds to the score of its edges.
        a_dst: ``(targets, heads)``, what each target adds to the score of its edges.
        slope: of the leaky ReLU for negative scores.
        first: which source the first target is; ``lo`` for a chunk ``adj.rows(lo, hi)``, 0 otherwise.

    Returns:
        ``(targets, heads, channels)`` in the type of ``x``.
    """
    _check(adj, x, a_src, a_dst, slope, first)
    if x.device.type != "cpu":
        return attention_torch(adj, x, a_src, a_dst, slope, first)
    return _Attention.apply(x, a_src, a_dst, adj, slope, first)  # type: ignore[no-any-return, no-untyped-call]


def attention_torch(
    adj: LayerEdges, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float = 0.2, first: int = 0
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


def _check(adj: LayerEdges, x: Tensor, a_src: Tensor, a_dst: Tensor, slope: float, first: int) -> None:
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


def _scalar(value: float, like: Tensor) -> Any:
    """``value`` in the type of ``like``, so that a kernel does not fall into float64."""
    return like.numpy().dtype.type(value)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, a_src: Tensor, a_dst: Tensor, adj: LayerEdges, slope: float, first: int) -> Tensor:
        wide, (_, heads, channels) = wide_dtype(x), x.shape
        keep = any(ctx.needs_input_grad[:3])
        out = empty((adj.num_targets, heads, channels), x)
        positive = empty((adj.num_targets if keep else 0, heads, channels), x)
        rows = torch.empty(3, adj.num_targets, heads, dtype=wide)  # largest score, 1 / sum, share of positive scores
        over_rows(
            _forward_rows,
            array(adj.indptr),
            array(adj.indices),
            array(x),
            array(a_src.to(wide)),
            array(a_dst.to(wide)),
            _scalar(slope, rows),
            first,
            array(out),
            array(positive),
            array(rows),
        )
        if keep:
            ctx.save_for_backward(x, a_src, a_dst, out, positive, rows)
        ctx.adj, ctx.slope, ctx.first = adj, slope, first
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, a_src, a_dst, out, positive, rows = ctx.saved_tensors
        adj, slope, first = ctx.adj, ctx.slope, ctx.first
        if torch.is_grad_enabled():  # create_graph=True: the function in plain torch can be differentiated again

            def twin(x: Tensor, a_src: Tensor, a_dst: Tensor) -> Tensor:
                return attention_torch(adj, x, a_src, a_dst, slope, first)

            return *twin_gradients(twin, (x, a_src, a_dst), grads[0]), None, None, None
        wide, grad = rows.dtype, array(grads[0])
        inner = torch.empty_like(rows[0])
        grad_dst = torch.empty_like(rows[0])
        indptr, indices, _ = adj.transposed
        own = np.arange(adj.num_targets + 1)
        over_rows(
            _target_terms,
            own,
            grad,
            array(out),
            array(positive),
            array(rows),
            _scalar(slope, rows),
            array(inner),
            array(grad_dst),
        )
        grad_x = empty(x.shape, x)
        grad_src = torch.empty_like(a_src, dtype=wide, memory_format=torch.contiguous_format)
        over_rows(
            _source_rows,
            array(indptr),
            array(indices),
            array(x),
            array(a_src.to(wide)),
            array(a_dst.to(wide)),
            _scalar(slope, rows),
            first,
            grad,
            array(rows),
            array(inner),
            array(grad_x),
            array(grad_src),
        )
        return grad_x, grad_src.to(a_src.dtype), grad_dst.to(a_dst.dtype), None, None, None


@kernel
def _forward_rows(
    lo: int,
    hi: int,
    indptr: Any,
    indices: Any,
    x: Any,
    a_src: Any,
    a_dst: Any,
    slope: Any,
    first: int,
    out: Any,
    positive: Any,
    rows: Any,
) -> None:
    heads, channels, one = x.shape[1], x.shape[2], a_src.dtype.type(1)
    keep = positive.shape[0] > 0
    acc = np.empty((2, heads, channels), a_src.dtype)  # over negative and over positive scores
    total = np.empty((2, heads), a_src.dtype)
    peak = np.empty(heads, a_src.dtype)
    for v in range(lo, hi):
        own = v + first
        acc[:] = 0
        total[:] = 0
        # The leaky ReLU is monotone: the largest score is the score of the largest a_src.
        for h in range(heads):
            peak[h] = a_src[own, h]
        for e in range(indptr[v], indptr[v + 1]):
            for h in range(heads):
                peak[h] = max(peak[h], a_src[indices[e], h])
        for h in range(heads):
            raw = peak[h] + a_dst[v, h]
            peak[h] = raw if raw > 0 else raw * slope
        for e in range(indptr[v] - 1, indptr[v + 1]):
            u = own if e < indptr[v] else np.int64(indices[e])
            if u == own and e >= indptr[v]:
                continue
            for h in range(heads):
                raw = a_src[u, h] + a_dst[v, h]
                sign = 1 if raw > 0 else 0
                share = math.exp((raw if raw > 0 else raw * slope) - peak[h])
                total[sign, h] += share
                for c in range(channels):
                    acc[sign, h, c] += share * widen(x[u, h, c])
        for h in range(heads):
            scale = one / (total[0, h] + total[1, h])
            rows[0, v, h] = peak[h]
            rows[1, v, h] = scale
            rows[2, v, h] = total[1, h] * scale
            for c in range(channels):
                out[v, h, c] = narrow((acc[0, h, c] + acc[1, h, c]) * scale, out)
            if keep:
                for c in range(channels):
                    positive[v, h, c] = narrow(acc[1, h, c] * scale, positive)


@kernel
def _target_terms(
    lo: int, hi: int, _: Any, grad: Any, out: Any, positive: Any, rows: Any, slope: Any, inner: Any, grad_dst: Any
) -> None:
    """⟨grad, out⟩ of each target and head, and the gradient of ``a_dst``: (1 - slope)(⟨grad, positive⟩ - P·inner)."""
    one = rows.dtype.type(1)
    for v in range(lo, hi):
        for h in range(out.shape[1]):
            whole = part = rows.dtype.type(0)
            for c in range(out.shape[2]):
                g = widen(grad[v, h, c])
                whole += g * widen(out[v, h, c])
                part += g * widen(positive[v, h, c])
            inner[v, h] = whole
            grad_dst[v, h] = (one - slope) * (part - rows[2, v, h] * whole)


@kernel
def _source_rows(
    lo: int,
    hi: int,
    indptr: Any,
    indices: Any,
    x: Any,
    a_src: Any,
    a_dst: Any,
    slope: Any,
    first: int,
    grad: Any,
    rows: Any,
    inner: Any,
    grad_x: Any,
    grad_src: Any,
) -> None:
    heads, channels, targets, one = x.shape[1], x.shape[2], a_dst.shape[0], a_src.dtype.type(1)
    acc = np.empty((heads, channels), a_src.dtype)
    row = np.empty((heads, channels), a_src.dtype)
    score = np.empty(heads, a_src.dtype)
    for u in range(lo, hi):
        acc[:] = 0
        score[:] = 0
        for h in range(heads):
            for c in range(channels):
                row[h, c] = widen(x[u, h, c])
        own = u - first
        start = indptr[u] - 1 if 0 <= own < targets else indptr[u]
        for e in range(start, indptr[u + 1]):
            v = own if e < indptr[u] else np.int64(indices[e])
            if v == own and e >= indptr[u]:
                continue
            for h in range(heads):
                raw = a_src[u, h] + a_dst[v, h]
                alpha = math.exp((raw if raw > 0 else raw * slope) - rows[0, v, h]) * rows[1, v, h]
                dot = rows.dtype.type(0)
                for c in range(channels):
                    g = widen(grad[v, h, c])
                    dot += g * row[h, c]
                    acc[h, c] += alpha * g
                score[h] += alpha * (dot - inner[v, h]) * (one if raw > 0 else slope)
        for h in range(heads):
            grad_src[u, h] = score[h]
            for c in range(channels):
                grad_x[u, h, c] = narrow(acc[h, c], grad_x)
