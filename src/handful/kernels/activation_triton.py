"""The kernels of ``activation`` in Triton, for GPUs. The module has the same functions as ``activation_numba``.

Rows are summed in blocks of ``BLOCK`` rows, and then the sums of the blocks are added in order, so the result is the
same every time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from handful.kernels import hashing
from handful.kernels.aggregate_triton import triton_type
from handful.kernels.bfloat16 import wide_dtype

BLOCK = 256
"""The number of rows that are summed at once."""
ROWS, COLUMNS = 16, 128
"""The number of rows and the number of columns in the tile of a program."""


@triton.jit
def tile(x, rows, cols, n, width, WIDE: tl.constexpr):
    """Load the values at ``rows`` × ``cols``; 0 outside the matrix."""
    inside = (rows < n)[:, None] & (cols < width)[None, :]
    return tl.load(x + rows.to(tl.int64)[:, None] * width + cols[None, :], mask=inside, other=0.0).to(WIDE)


@triton.jit
def put(out, values, rows, cols, n, width):
    """Write a tile to ``out``, in the dtype of ``out``."""
    inside = (rows < n)[:, None] & (cols < width)[None, :]
    at = out + rows.to(tl.int64)[:, None] * width + cols[None, :]
    tl.store(at, values.to(out.dtype.element_ty), mask=inside)


@triton.jit
def column(columns, which, cols, width):
    """Load row ``which`` of a small ``(k, width)`` matrix, as one row that fits a tile."""
    return tl.load(columns + which * width + cols, mask=cols < width, other=0.0)[None, :]


@triton.jit
def passed(out, grad, rows, cols, n, width, SCALE: tl.constexpr, WIDE: tl.constexpr):
    """The gradient, propagated back through dropout and ReLU; 0 where the output is 0."""
    g = tile(grad, rows, cols, n, width, WIDE) * SCALE
    return tl.where(tile(out, rows, cols, n, width, WIDE) > 0, g, g * 0)


@triton.jit
def _columns_forward(x, columns, seed, out, n, width, RELU: tl.constexpr, LEAST: tl.constexpr, SCALE: tl.constexpr,
                     ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    z = tile(x, rows, cols, n, width, WIDE)
    if columns is not None:
        z = (z - column(columns, 0, cols, width)) * column(columns, 1, cols, width) + column(columns, 2, cols, width)
    result = z * factor(seed, rows, cols, LEAST, SCALE, WIDE)
    if RELU:
        result = tl.where(z <= 0, z * 0, result)
    put(out, result, rows, cols, n, width)


@triton.jit
def _columns_sums(x, out, grad, columns, sums, n, width, blocks, SCALE: tl.constexpr,
                  BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mean, rstd = column(columns, 0, cols, width), column(columns, 1, cols, width)
    plain, normed = tl.zeros([COLUMNS], WIDE), tl.zeros([COLUMNS], WIDE)
    for at in range(0, BLOCK, ROWS):
        rows = b * BLOCK + at + tl.arange(0, ROWS)
        g = passed(out, grad, rows, cols, n, width, SCALE, WIDE)
        plain += tl.sum(g, 0)
        normed += tl.sum(g * (tile(x, rows, cols, n, width, WIDE) - mean) * rstd, 0)
    tl.store(sums + b * width + cols, plain, mask=cols < width)
    tl.store(sums + (blocks + b) * width + cols, normed, mask=cols < width)


@triton.jit
def _columns_backward(x, out, grad, columns, grad_x, n, width,
                      SCALE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    result = passed(out, grad, rows, cols, n, width, SCALE, WIDE)
    if columns is not None:
        centred = tile(x, rows, cols, n, width, WIDE) - column(columns, 0, cols, width)
        result = column(columns, 1, cols, width) * result + column(columns, 2, cols, width) * centred
        result += column(columns, 3, cols, width)
    put(grad_x, result, rows, cols, n, width)


@triton.jit
def _rows_forward(x, affine, seed, moments, out, n, width, EPS: tl.constexpr, LEAST: tl.constexpr, SCALE: tl.constexpr,
                  ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    rows, cols = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (cols < width)[None, :]
    value = tile(x, rows, cols, n, width, WIDE)
    mean = tl.sum(value, 1) / width
    centred = tl.where(inside, value - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / width + EPS)
    tl.store(moments + rows, mean, mask=rows < n)
    tl.store(moments + n + rows, rstd, mask=rows < n)
    z = centred * rstd[:, None] * column(affine, 0, cols, width) + column(affine, 1, cols, width)
    z = tl.where(z <= 0, z * 0, z * factor(seed, rows, cols, LEAST, SCALE, WIDE))
    put(out, z, rows, cols, n, width)


@triton.jit
def _rows_backward(x, out, grad, weight, moments, grad_x, sums, n, width, blocks, SCALE: tl.constexpr,
                   BLOCK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    b, cols = tl.program_id(0).to(tl.int64), tl.arange(0, COLUMNS)
    slope = column(weight, 0, cols, width)
    plain, scaled = tl.zeros([COLUMNS], WIDE), tl.zeros([COLUMNS], WIDE)
    for at in range(0, BLOCK, ROWS):
        rows = b * BLOCK + at + tl.arange(0, ROWS)
        mean = tl.load(moments + rows, mask=rows < n, other=0.0)[:, None]
        rstd = tl.load(moments + n + rows, mask=rows < n, other=0.0)[:, None]
        g = passed(out, grad, rows, cols, n, width, SCALE, WIDE)
        normed = tl.where((cols < width)[None, :], (tile(x, rows, cols, n, width, WIDE) - mean) * rstd, 0.0)
        plain += tl.sum(g, 0)
        scaled += tl.sum(g * normed, 0)
        total, dot = tl.sum(g * slope, 1) / width, tl.sum(g * slope * normed, 1) / width
        put(grad_x, rstd * (g * slope - total[:, None] - normed * dot[:, None]), rows, cols, n, width)
    tl.store(sums + b * width + cols, plain, mask=cols < width)
    tl.store(sums + (blocks + b) * width + cols, scaled, mask=cols < width)


# -- how they are called ----------------------------------------------------------------------------------------------


def moments(x: Tensor) -> Tensor:
    """The mean and the biased variance of every column, float64 ``(2, F)``."""
    var, mean = torch.var_mean(x.to(wide_dtype(x)), 0, correction=0)
    return torch.stack([mean, var]).double()


def columns_forward(x: Tensor, columns: Tensor | None, relu: bool, p: float, seed: int) -> Tensor:
    """Compute ``z = (x - mean) · scale + bias``, then apply ReLU, if ``relu`` is true, and dropout to z.

    The rows of ``columns``, ``(3, F)``, are the mean, the scale and the bias. If ``columns`` is ``None``, z is x.
    """
    return _map(_columns_forward, x, x, columns, seed_of(seed, x), RELU=relu, **_drop(p))


def columns_sums(x: Tensor, out: Tensor, grad: Tensor, columns: Tensor, p: float) -> Tensor:
    """The sums of g and of g · ``(x - mean) · rstd`` over all rows, float64 ``(2, F)``.

    g is ``grad``, propagated back through dropout and ReLU. The rows of ``columns``, ``(2, F)``, are mean and rstd.
    """
    return _block_sums(_columns_sums, x, x.contiguous(), out, grad, columns, SCALE=hashing.scale(p)).sum(1)


def columns_backward(x: Tensor | None, out: Tensor, grad: Tensor, columns: Tensor | None, p: float) -> Tensor:
    """``scale · g + pull · (x - mean) + constant``, where g is ``grad``, propagated back through dropout and ReLU.

    Where ``out`` is 0, g is also zero. The rows of ``columns``, ``(4, F)``, are mean, scale, pull and constant. If
    ``columns`` is ``None``, the result is g, and ``x`` is not read.
    """
    return _map(_columns_backward, out, x, out, grad, columns, SCALE=hashing.scale(p))


def rows_forward(x: Tensor, affine: Tensor, eps: float, p: float, seed: int) -> tuple[Tensor, Tensor]:
    """Apply layer norm, ReLU and dropout. Also return the mean and the inverse standard deviation of every row."""
    result = x.new_empty(2, len(x), dtype=wide_dtype(x))
    return _map(_rows_forward, x, x, affine, seed_of(seed, x), result, whole=True, EPS=eps, **_drop(p)), result


def rows_backward(
    x: Tensor, out: Tensor, grad: Tensor, weight: Tensor, moments: Tensor, p: float
) -> tuple[Tensor, Tensor]:
    """The gradient of ``x``, and the gradients of the bias and the weight, float64 ``(2, F)``."""
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    given = x.contiguous(), out, grad, weight, moments, grad_x
    return grad_x, _block_sums(_rows_backward, x, *given, whole=True, SCALE=hashing.scale(p)).sum(1)


def _map(function: Any, x: Tensor, *args: Tensor | None, whole: bool = False, **options: Any) -> Tensor:
    """A new matrix with the shape and dtype of ``x``, which ``function`` fills tile by tile."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if x.numel():
        size = _tile(x, whole)
        grid = triton.cdiv(len(x), size["ROWS"]), triton.cdiv(x.shape[1], size["COLUMNS"])
        function[grid](*(arg if arg is None else arg.contiguous() for arg in args), out, *x.shape, **size, **options)
    return out


def _block_sums(function: Any, x: Tensor, *args: Tensor, whole: bool = False, **options: Any) -> Tensor:
    """Two sums for every block of rows and every column, float64 ``(2, blocks, F)``."""
    blocks = triton.cdiv(len(x), BLOCK)
    sums = x.new_zeros(2, blocks, x.shape[1], dtype=wide_dtype(x))
    if x.numel():
        size = _tile(x, whole)
        grid = blocks, triton.cdiv(x.shape[1], size["COLUMNS"])
        function[grid](*args, sums, *x.shape, blocks, BLOCK=BLOCK, **size, **options)
    return sums.double()


def _tile(x: Tensor, whole: bool) -> dict[str, Any]:
    """The shape of a tile: some columns or, if ``whole``, all columns. If the tile is wide, it has fewer rows."""
    columns = triton.next_power_of_2(x.shape[1] if whole else min(COLUMNS, x.shape[1]))
    rows = max(1, min(ROWS, ROWS * COLUMNS // columns))
    return {"ROWS": rows, "COLUMNS": columns, "WIDE": triton_type(wide_dtype(x))}


def _drop(p: float) -> dict[str, Any]:
    """The threshold and the scale of dropout, as arguments of the kernels."""
    return {"LEAST": hashing.threshold(p), "SCALE": hashing.scale(p)}


_GOLDEN = tl.constexpr(hashing.GOLDEN)
_MIX_A, _MIX_B = tl.constexpr(hashing.MIX[0]), tl.constexpr(hashing.MIX[1])
_WEYL = tl.constexpr(hashing.WEYL)
_MIX32_A, _MIX32_B = tl.constexpr(hashing.MIX32[0]), tl.constexpr(hashing.MIX32[1])


@triton.jit
def mix64(z):
    """The finaliser of SplitMix64."""
    z = (z ^ (z >> 30)) * _MIX_A
    z = (z ^ (z >> 27)) * _MIX_B
    return z ^ (z >> 31)


@triton.jit
def bits(seed, rows, cols):
    """uint32 ``(rows, cols)``: the random bits of ``hashing.column_bits``; ``seed`` points to an int64."""
    start = mix64(tl.load(seed).to(tl.uint64, bitcast=True))
    key = mix64(start + (rows.to(tl.uint64) + 1) * _GOLDEN)
    low, high = key.to(tl.uint32)[:, None], (key >> 32).to(tl.uint32)[:, None]
    z = cols.to(tl.uint32)[None, :] * _WEYL + low
    z = ((z ^ (z >> 16)) * _MIX32_A) ^ high
    z = (z ^ (z >> 15)) * _MIX32_B
    return z ^ (z >> 16)


@triton.jit
def factor(seed, rows, cols, LEAST: tl.constexpr, SCALE: tl.constexpr, WIDE: tl.constexpr):
    """The dropout factor of each element of a tile."""
    one = tl.full([rows.shape[0], cols.shape[0]], SCALE, WIDE)
    if LEAST > 0:
        one = tl.where(bits(seed, rows, cols) >= LEAST, one, one * 0)
    return one


def seed_of(seed: int, like: Tensor) -> Tensor:
    """Convert ``seed`` to a tensor, since Triton may compile a kernel again for another integer argument."""
    return torch.full((1,), hashing.signed(seed), dtype=torch.int64, device=like.device)
