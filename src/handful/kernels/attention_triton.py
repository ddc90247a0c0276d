"""The kernels of ``attention`` in Triton, for GPUs. The module has the same functions as ``attention_numba``.

A program computes one row for one head. The softmax takes one pass: when a larger score appears, the earlier sums are
scaled down. Long rows are split as in ``aggregate_triton``; the sums of the chunks are rescaled and added in order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate_triton import in_turn, long_rows, row_edges, triton_type
from handful.kernels.attention import SLOPE, Scores
from handful.kernels.bfloat16 import wide_dtype

_SLOPE = tl.constexpr(SLOPE)
EDGES = 16
"""The number of edges of a row that a program reads at a time."""


@triton.jit
def leaky(raw):
    """The leaky ReLU."""
    return tl.where(raw > 0, raw, raw * _SLOPE)


@triton.jit
def other_ends(indices, e, start, stop, own):
    """The nodes at the other end of the edges ``e``, and a mask of the valid edges.

    The edges ``start`` to ``stop - 1`` are valid, except for self-loops. Edge ``start - 1`` is also valid: it stands
    for the one self-loop of every row.
    """
    u = tl.load(indices + e, mask=(e >= start) & (e < stop), other=0).to(tl.int64)
    valid = (e < stop) & ((u != own) | (e < start))
    return tl.where(e < start, own, u), valid


@triton.jit
def _forward_rows(indptr, indices, x, a_src, a_dst, tails, stats, sums, out, kept, found, rows, heads, channels, first,
                  TAIL: tl.constexpr, SPLIT: tl.constexpr, CHUNK: tl.constexpr, EDGES: tl.constexpr,
                  CHANNELS: tl.constexpr, KEEP: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    program, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    v, start, stop = row_edges(indptr, tails, program, rows, TAIL, SPLIT, CHUNK)
    own, at, cols = v + first, program * heads + head, tl.arange(0, CHANNELS)
    inside = cols < channels
    target = tl.load(a_dst + v * heads + head)
    peak = leaky(tl.load(a_src + own * heads + head) + target)
    # Σ exp(score − largest) and Σ exp(score − largest) · row; each over all edges, and over edges with positive scores.
    total, above = peak * 0, peak * 0
    acc, positive = tl.zeros([CHANNELS], WIDE), tl.zeros([CHANNELS], WIDE)
    for lo in range(start if TAIL else start - 1, stop, EDGES):
        e = lo + tl.arange(0, EDGES)
        u, valid = other_ends(indices, e, start, stop, own)
        raw = tl.load(a_src + u * heads + head, mask=valid, other=0.0) + target
        score = tl.where(valid, leaky(raw), float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 0))
        down, share = tl.exp(peak - higher), tl.exp(score - higher)
        share_above = tl.where(raw > 0, share, share * 0)
        places = x + (u * heads + head)[:, None] * channels + cols[None, :]
        tile = tl.load(places, mask=valid[:, None] & inside[None, :], other=0.0).to(WIDE)
        acc = acc * down + tl.sum(share[:, None] * tile, 0)
        positive = positive * down + tl.sum(share_above[:, None] * tile, 0)
        total = total * down + tl.sum(share, 0)
        above = above * down + tl.sum(share_above, 0)
        peak = higher
    if TAIL:
        tl.store(stats + at * 3, peak)
        tl.store(stats + at * 3 + 1, total)
        tl.store(stats + at * 3 + 2, above)
        tl.store(sums + at * 2 * channels + cols, acc, mask=inside)
        tl.store(sums + (at * 2 + 1) * channels + cols, positive, mask=inside)
    else:
        if SPLIT:
            for tail in range(tl.load(tails + v), tl.load(tails + v + 1)):
                there = tail * heads + head
                theirs = tl.load(stats + there * 3)
                higher = tl.maximum(peak, theirs)
                down, up = tl.exp(peak - higher), tl.exp(theirs - higher)
                more = tl.load(sums + there * 2 * channels + cols, mask=inside, other=0.0)
                more_positive = tl.load(sums + (there * 2 + 1) * channels + cols, mask=inside, other=0.0)
                acc = acc * down + more * up
                positive = positive * down + more_positive * up
                total = total * down + tl.load(stats + there * 3 + 1) * up
                above = above * down + tl.load(stats + there * 3 + 2) * up
                peak = higher
        scale = 1.0 / total
        tl.store(out + at * channels + cols, (acc * scale).to(out.dtype.element_ty), mask=inside)
        if KEEP:
            tl.store(kept + at * channels + cols, (positive * scale).to(kept.dtype.element_ty), mask=inside)
        tl.store(found + at, peak)
        tl.store(found + rows * heads + at, scale)
        tl.store(found + 2 * rows * heads + at, above * scale)


@triton.jit
def _source_rows(indptr, indices, x, a_src, a_dst, grad, found, inner, tails, sums, scores, grad_x, grad_src, rows,
                 heads, channels, targets, first, TAIL: tl.constexpr, SPLIT: tl.constexpr, CHUNK: tl.constexpr,
                 EDGES: tl.constexpr, CHANNELS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    program, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    u, start, stop = row_edges(indptr, tails, program, rows, TAIL, SPLIT, CHUNK)
    own, at, cols = u - first, program * heads + head, tl.arange(0, CHANNELS)
    inside = cols < channels
    row = tl.load(x + (u * heads + head) * channels + cols, mask=inside, other=0.0).to(WIDE)
    source = tl.load(a_src + u * heads + head)
    acc, score = tl.zeros([CHANNELS], WIDE), source * 0
    is_target = (own >= 0) & (own < targets)
    for lo in range(start if TAIL else start - is_target.to(tl.int64), stop, EDGES):
        v, valid = other_ends(indices, lo + tl.arange(0, EDGES), start, stop, own)
        there = v * heads + head
        raw = source + tl.load(a_dst + there, mask=valid, other=0.0)
        peak = tl.load(found + there, mask=valid, other=0.0)
        alpha = tl.exp(tl.where(valid, leaky(raw) - peak, float("-inf")))
        alpha *= tl.load(found + targets * heads + there, mask=valid, other=0.0)
        places = grad + there[:, None] * channels + cols[None, :]
        g = tl.load(places, mask=valid[:, None] & inside[None, :], other=0.0).to(WIDE)
        dot = tl.sum(g * row[None, :], 1) - tl.load(inner + there, mask=valid, other=0.0)
        acc += tl.sum(alpha[:, None] * g, 0)
        score += tl.sum(alpha * tl.where(raw > 0, dot, dot * _SLOPE), 0)
    if TAIL:
        tl.store(sums + at * channels + cols, acc, mask=inside)
        tl.store(scores + at, score)
    else:
        if SPLIT:
            for tail in range(tl.load(tails + u), tl.load(tails + u + 1)):
                acc += tl.load(sums + (tail * heads + head) * channels + cols, mask=inside, other=0.0)
                score += tl.load(scores + tail * heads + head)
        tl.store(grad_x + at * channels + cols, acc.to(grad_x.dtype.element_ty), mask=inside)
        tl.store(grad_src + at, score)


def forward(indptr: Tensor, indices: Tensor, given: Scores, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return three tensors: the output, the positive part, and ``(3, targets, heads)`` statistics.

    The positive part is the part of the output that comes from edges with a positive score. It is empty unless
    ``keep``. The statistics are the largest score, 1 / Σ exp(score − largest), and the total attention weight of
    positive scores.
    """
    x, a_src, a_dst, first = given
    wide, (targets, heads), channels = wide_dtype(x), a_dst.shape, x.shape[2]
    out = x.new_empty(targets, heads, channels)
    positive = torch.empty_like(out) if keep else out[:0]
    found = x.new_empty(3, targets, heads, dtype=wide)
    if out.numel():
        tails, most = long_rows(indptr, len(indices))
        stats, sums = (x.new_empty(most, heads, *shape, dtype=wide) for shape in ((3,), (2, channels)))
        arrays = indptr, indices, *_wide(x, a_src, a_dst), tails, stats, sums
        args = *arrays, out, positive, found, targets, heads, channels, first
        in_turn(_forward_rows, most, targets, heads, *args, KEEP=keep, EDGES=EDGES, **_tile(x))
    return out, positive, found


def backward_targets(grad: Tensor, out: Tensor, positive: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each target and head, inner = ⟨grad, out⟩, and the gradient of ``a_dst``.

    The gradient is (1 - slope)(⟨grad, positive⟩ - P·inner), where P is the total attention weight of positive scores.
    """
    whole, part = ((grad.to(rows.dtype) * one).sum(2) for one in (out, positive))
    return whole, (1 - SLOPE) * (part - rows[2] * whole)


def backward_sources(
    indptr: Tensor, indices: Tensor, given: Scores, grad: Tensor, rows: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of ``x`` and of ``a_src``. ``indptr`` and ``indices`` are the CSR of the reversed edges."""
    x, a_src, a_dst, first = given
    sources, heads, channels = x.shape
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    grad_src = x.new_empty(sources, heads, dtype=rows.dtype)
    if x.numel():
        tails, most = long_rows(indptr, len(indices))
        sums, scores = (x.new_empty(most, heads, *shape, dtype=rows.dtype) for shape in ((channels,), ()))
        arrays = indptr, indices, *_wide(x, a_src, a_dst), grad, rows, inner, tails, sums, scores
        args = *arrays, grad_x, grad_src, sources, heads, channels, len(a_dst), first
        in_turn(_source_rows, most, sources, heads, *args, EDGES=EDGES, **_tile(x))
    return grad_x, grad_src


def _wide(x: Tensor, *scores: Tensor) -> tuple[Tensor, ...]:
    """``x``, and the terms of the scores in the dtype of the sums; all are contiguous."""
    return x.contiguous(), *(score.to(wide_dtype(x)).contiguous() for score in scores)


def _tile(x: Tensor) -> dict[str, Any]:
    """The compile-time constants of the kernels."""
    return {"CHANNELS": triton.next_power_of_2(x.shape[2]), "WIDE": triton_type(wide_dtype(x))}
