"""By how much two right computations of one number may differ: bounds that follow from the arithmetic.

With unit roundoff u, a sum of n terms in any order is off by at most n · u · Σ|terms| to first order (Higham, Accuracy
and Stability of Numerical Algorithms, ch. 3–4). Every bound here is such a sum, times what later steps amplify it by.
It is taken twice, once for each of the two computations.
"""

from __future__ import annotations

import torch
from torch import Tensor

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Unit roundoff: half the distance from 1 to the next number."""


def computed_in(dtype: torch.dtype) -> float:
    """Unit roundoff of the sums over numbers of this type: short floats are summed in float32."""
    return UNIT[torch.float64 if dtype == torch.float64 else torch.float32]


def stored_in(dtype: torch.dtype) -> float:
    """Unit roundoff of storing a result that was computed in a wider type; 0 where it was not."""
    return UNIT[dtype] if dtype in (torch.bfloat16, torch.float16) else 0.0


def size(t: Tensor) -> float:
    """The largest magnitude."""
    return float(t.detach().double().abs().max()) if t.numel() else 0.0


def assert_within(mine: Tensor, theirs: Tensor, bound: Tensor | float) -> None:
    """Hold the difference to ``bound``, entry by entry, and half a step of numbers near zero.

    Below the smallest normal number the steps of a type no longer shrink, so storing is not off by a share of it.
    """
    off = (mine.detach().double() - theirs.detach().double()).abs()
    kind = torch.finfo(mine.dtype if mine.is_floating_point() else torch.float64)
    step = kind.smallest_normal * kind.eps
    excess = off - bound - step / 2
    assert not (excess > 0).any(), f"off by {size(off):.3g}, {float(excess.max()):.3g} more than rounding explains"


def sum_bound(dtype: torch.dtype, terms: Tensor, n: int) -> Tensor:
    """Of sums of ``n`` products of up to four factors, whose magnitudes add up to ``terms``; stored as ``dtype``."""
    return 2 * ((n + 3) * computed_in(dtype) + stored_in(dtype)) * terms.double()


def norm_bounds(
    x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, mean: Tensor, var: Tensor, n: int, p: float
) -> list[float]:
    """Of max(0, (x - mean) · r · weight + bias) with r = 1/√(var + ε), and of its gradients by x, weight and bias.

    Mean and variance are of ``n`` entries. The mean is off by n · u · max|x|, and so is a centred value d; r amplifies
    that, without limit but ε where all entries are equal. A relative error ρ of r comes from the variance.
    """
    u, s, rows = computed_in(x.dtype), stored_in(x.dtype), len(x)
    r = float((var.detach().double() + 1e-5).rsqrt().max())
    h = r * size(x.detach().double() - mean.detach().double())
    off_d = (n + 2) * u * (size(x) + size(mean))
    rho = (n + 4) * u + 2 * r * off_d * h + (r * off_d) ** 2
    off_h = r * off_d + h * rho
    w, b, keep = size(weight), size(bias), 1.0 if p == 1.0 else 1 / (1 - p)
    g = size(grad) * keep
    out = keep * (w * off_h + (3 * u + s) * (w * h + b))
    whole = r * g * w * (2 + h * h)
    by_x = (rho + (n + 4) * u + s) * whole + r * g * w * 2 * h * off_h
    by_weight = rows * g * (off_h + (rows + 2) * u * h)
    return [2 * out, 2 * by_x, 2 * by_weight, 2 * rows * g * (rows + 2) * u]


def attention_bounds(
    x: Tensor, a_src: Tensor, a_dst: Tensor, grad: Tensor, n: int, k: int
) -> tuple[float, float, float, float]:
    """Of Σ_u α_vu x_u and its gradients by x, a_src and a_dst; rows have at most ``n`` sources, columns ``k`` targets.

    A score e is off by 2u·|e|, so exp(e - max) by a share of 4u·max|e| + u, and α, a quotient of it and a sum of n, by
    twice that and n · u. The gradient by a score is α (g·x - Σ α g·x): sums of ``channels`` and of n terms.
    """
    u, s, channels = computed_in(x.dtype), stored_in(x.dtype), x.shape[-1]
    scores = size(a_src) + size(a_dst)
    alpha = 2 * (4 * u * scores + u) + (n + 2) * u
    g, largest = size(grad), size(x)
    out = (alpha + (n + 2) * u + s) * largest
    by_x = k * g * (alpha + (k + 2) * u + s)
    by_score = 2 * channels * g * largest * (2 * alpha + (channels + n + 6) * u)
    by_src, by_dst = (terms * (by_score + (terms * u + s) * 2 * channels * g * largest) for terms in (k, n))
    return 2 * out, 2 * by_x, 2 * by_src, 2 * by_dst
