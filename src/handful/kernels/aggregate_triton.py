"""The product of ``aggregate`` in Triton, for GPUs.

A program sums one row for a block of columns, many edges at a time. A row of more than ``CHUNK`` edges is split into
chunks. All chunks except the first are called tails; separate programs sum them. The program of the row adds the sums
of the tails in order, so the result does not depend on which program runs first. An upper bound of the total number of
tails follows from the number of edges, so the host does not wait for the device.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels.aggregate import Scaled
from handful.kernels.bfloat16 import wide_dtype
from handful.kernels.csr import starts_torch

CHUNK = 1024
"""The maximum number of edges of a row that one program sums."""
EDGES = 16
"""The number of edges that a program reads at a time."""
COLUMNS = 128
"""The maximum number of columns that a program sums."""


@triton.jit
def row_of_tail(tails, tail, rows):
    """Find the row of ``tail`` by bisection: the last row whose first tail is at or before ``tail``."""
    lo = rows * 0
    hi = rows - 1
    while lo < hi:
        mid = (lo + hi + 1) // 2
        before = tl.load(tails + mid) <= tail
        lo = tl.where(before, mid, lo)
        hi = tl.where(before, hi, mid - 1)
    return lo


@triton.jit
def row_edges(indptr, tails, at, rows, TAIL: tl.constexpr, SPLIT: tl.constexpr, CHUNK: tl.constexpr):
    """The row of program ``at``, and the start and end of the edges that the program sums: a tail, or the first chunk
    of the row. If the program has no tail to sum, it gets no edges, and its sums are never read.
    """
    v = row_of_tail(tails, at, rows) if TAIL else at
    start, stop = tl.load(indptr + v), tl.load(indptr + v + 1)
    if TAIL:
        start += (at - tl.load(tails + v) + 1) * CHUNK
    if SPLIT:
        stop = tl.minimum(stop, start + CHUNK)
    return v, start, stop


@triton.jit
def _spmm_rows(
    indptr, indices, weight, left, right, bias, x, stride, base, base_stride, tails, sums, out, rows, width,
    TAIL: tl.constexpr, SPLIT: tl.constexpr, CHUNK: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = cols < width
    v, start, stop = row_edges(indptr, tails, at, rows, TAIL, SPLIT, CHUNK)
    acc = tl.zeros([COLUMNS], WIDE)
    for lo in range(start, stop, EDGES):
        e = lo + tl.arange(0, EDGES)
        valid = e < stop
        u = tl.load(indices + e, mask=valid, other=0).to(tl.int64)
        places = x + u[:, None] * stride + cols[None, :]
        tile = tl.load(places, mask=valid[:, None] & inside[None, :], other=0.0).to(WIDE)
        if weight is not None:
            tile *= tl.load(weight + e, mask=valid, other=0.0)[:, None]
        if right is not None:
            tile *= tl.load(right + u, mask=valid, other=0.0)[:, None]
        acc += tl.sum(tile, 0)
    if TAIL:
        tl.store(sums + at * width + cols, acc, mask=inside)
    else:
        if SPLIT:
            for tail in range(tl.load(tails + v), tl.load(tails + v + 1)):
                acc += tl.load(sums + tail * width + cols, mask=inside, other=0.0)
        if left is not None:
            acc *= tl.load(left + v)
        if bias is not None:
            acc += tl.load(bias + cols, mask=inside, other=0.0)
        if base is not None:
            acc += tl.load(base + v * base_stride + cols, mask=inside, other=0.0).to(WIDE)
        tl.store(out + v * width + cols, acc.to(out.dtype.element_ty), mask=inside)


def spmm(a: Scaled, x: Tensor, base: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The product on a GPU. No tensor of size edges × features is made."""
    indptr, indices, *scales = a
    rows, width = len(indptr) - 1, x.shape[1]
    out = x.new_empty(rows, width)
    if rows and width:
        wide = wide_dtype(x)
        weight, left, right, bias = (None if t is None else t.to(wide) for t in (*scales, bias))
        x, base = by_row(x), None if base is None else by_row(base)
        tile = {"EDGES": EDGES, "COLUMNS": min(COLUMNS, triton.next_power_of_2(width)), "WIDE": triton_type(wide)}
        tails, most = long_rows(indptr, len(indices))
        given = indptr, indices, weight, left, right, bias, x, x.stride(0), base, 0 if base is None else base.stride(0)
        sums = x.new_empty(most, width, dtype=wide)
        blocks = triton.cdiv(width, tile["COLUMNS"])
        in_turn(_spmm_rows, most, rows, blocks, *given, tails, sums, out, rows, width, **tile)
    return out


def in_turn(kernel: Any, tails: int, rows: int, columns: int, *args: Any, **options: Any) -> None:
    """Run ``kernel`` for the tails of all rows, if ``tails`` is positive. Then run it for the rows, which add the sums
    of their tails.
    """
    for tail, count in [(True, tails)] * (tails > 0) + [(False, rows)]:
        kernel[(count, columns)](*args, TAIL=tail, SPLIT=tails > 0, CHUNK=CHUNK, **options)


def long_rows(indptr: Tensor, edges: int) -> tuple[Tensor | None, int]:
    """The index of the first tail of every row, int64 ``(rows + 1,)``, and an upper bound of the total number of tails;
    ``None`` and 0 if no row can have a tail.
    """
    most = edges // CHUNK
    if most == 0:
        return None, 0
    return starts_torch((indptr.diff() - 1).clamp_min_(0).div_(CHUNK, rounding_mode="floor")), most


def by_row(x: Tensor) -> Tensor:
    """``x`` with contiguous rows. The result may still be some columns of a wider matrix."""
    return x if x.stride(1) == 1 else x.contiguous()


def triton_type(dtype: torch.dtype) -> Any:
    """The Triton dtype of sums: float64 for float64, else float32."""
    return tl.float64 if dtype == torch.float64 else tl.float32
