"""The flows that SGD, heavy ball and Adam follow, to second order in the step size.

All three optimisers follow the same rule, with the effective step size α (lr/(1−β) for heavy ball, lr for Adam):

    m ← β₁·m + (1−β₁)·g,    v ← β₂·v + (1−β₂)·g²,    w ← w − α·P∘m,    P = 1/(√v + ε), or 1 without a metric.

If every epoch draws a new random order of its m batches, the path averaged over these orders follows

    ẇ = −P∘[ḡ + 2a·H̄F + 2b·(mean_k(H_k·P∘g_k) − H̄F) − 2c·(F/√s)∘mean_k(g_k∘H_kF)],    F = P∘ḡ,    s = mean_k g_k²

    a = α/4·(1+β₁)/(1−β₁),    b = α/4·ρ(m, β₁),    c = α/4·(1+β₂)/(1−β₂).

If P = 1, this is the gradient flow of L̄ + a·‖∇L̄‖² + b·R. The coordinate z = w − α·β₁/(1−β₁)·m moves by −α·g_t(w_t)
per step, and the earlier steps of the epoch have moved w_t by −α·Σ_{l<t} (1 − β₁^{t−l})·g_l. For two batches k ≠ l of
the same epoch, E[H_k g_l] = H̄ḡ − (mean_k(H_k g_k) − H̄ḡ)/(m − 1), which gives ρ. The orders of earlier epochs are
independent, and contribute only to H̄ḡ.

For Adam, v is replaced by its mean, which is s at earlier weights. If there is one batch, this replacement is exact,
and the flow equals that of Cattaneo, Klusowski and Shigida (2024), with ε outside the root. The dependence of m and v
on earlier gradients is treated as in Cattaneo and Shigida (2025). If there are several batches, the fluctuation of v is
ignored, which gives an error of order 1 − β₂ in the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.functional import vhp

from handful.theory.implicit import adam_metric, regulariser_coefficients

Loss = Callable[[Tensor], Tensor]
"""The loss of one batch, as a function of a float64 vector of all weights."""


class Coefficients(NamedTuple):
    """a, b and c of the flow: the coefficients of ‖∇L̄‖², of R, and of the term from the moving average v."""

    mean: float = 0.0
    spread: float = 0.0
    second: float = 0.0


@dataclass(frozen=True)
class Memory:
    """The moving averages of an optimiser: none for SGD, ``beta1`` for heavy ball, ``beta1`` and ``beta2`` for Adam. If
    ``eps`` is ``None``, there is no preconditioner P.

    >>> Memory(0.5).coefficients(step=1.0, m=2)
    Coefficients(mean=0.75, spread=0.125, second=0.0)
    """

    beta1: float = 0.0
    beta2: float = 0.0
    eps: float | None = None

    def metric(self, second: Tensor) -> Tensor:
        """The preconditioner P for these second moments."""
        return torch.ones_like(second) if self.eps is None else adam_metric(second, self.eps)

    def coefficients(self, step: float, m: int) -> Coefficients:
        """The coefficients of the flow, if an epoch has m batches."""
        mean, spread = regulariser_coefficients(step * (1 - self.beta1), self.beta1, m)
        return Coefficients(mean, spread, 0.0 if self.eps is None else step / 4 * (1 + self.beta2) / (1 - self.beta2))


SGD = Memory()


def gradient(loss: Loss, w: Tensor) -> Tensor:
    """∇L(w).

    >>> gradient(lambda w: w.square().sum(), torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    at = w.detach().requires_grad_()
    return torch.autograd.grad(loss(at), at)[0]


def slopes_at(losses: Sequence[Loss], w: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
    """Compute three arrays ``(m, n)`` at ``w``, for m losses and n weights: g_k, H_k·F, and H_k·(P∘g_k). P is the
    preconditioner of ``memory``.

    >>> found = slopes_at([lambda w: w.square().sum()], torch.tensor([3.0]), Memory())
    >>> [float(value) for value in found]
    [6.0, 12.0, 12.0]
    """
    each = torch.stack([gradient(loss, w) for loss in losses])
    metric = memory.metric(each.square().mean(0))
    force = (metric * each.mean(0)).expand_as(each)
    along, own = (
        torch.stack([vhp(loss, w, vector)[1] for loss, vector in zip(losses, vectors, strict=True)])  # type: ignore[no-untyped-call]
        for vectors in (force, metric * each)
    )
    return each, along, own


def modified_field(losses: Sequence[Loss], w: Tensor, by: Coefficients, memory: Memory = SGD) -> Tensor:
    """The velocity ẇ of the flow at w. If there is no preconditioner, ẇ = −∇[L̄ + a·‖∇L̄‖² + b·R].

    >>> w = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> modified_field([lambda w: 0.5 * w.square().sum()], w, Coefficients(0.25)).tolist()  # ∇[½w² + ¼w²]
    [-1.5, -3.0]
    """
    each, along, own = slopes_at(losses, w, memory)
    mean, second, curve = each.mean(0), each.square().mean(0), along.mean(0)
    metric = memory.metric(second)
    slope = mean + 2 * by.mean * curve + 2 * by.spread * (own.mean(0) - curve)
    if by.second:
        # |ḡ| ≤ √s: if s is 0, ḡ is 0 too.
        share = mean / second.sqrt().clamp_min(torch.finfo(w.dtype).tiny)
        slope = slope - 2 * by.second * metric * share * (each * along).mean(0)
    return -metric * slope


State = tuple[Tensor, Tensor, Tensor]
"""The state of an optimiser: the weights, and the first and second moments of the gradients."""


def settled_state(losses: Sequence[Loss], z: Tensor, step: float, memory: Memory) -> State:
    """The mean state of an optimiser that has followed the flow to ``z`` for a long time, to first order in the step
    size.

    The weights k steps ago were z + α·(k + β₁/(1−β₁))·F.

    >>> still = settled_state([lambda w: w.sum()], torch.tensor([1.0]), 0.1, Memory(0.5))
    >>> [round(float(value), 6) for value in still[:2]]  # z is ahead of w by α·β/(1−β)·F
    [1.1, 1.0]
    """
    each, along, _ = slopes_at(losses, z, memory)
    ahead = memory.beta1 / (1 - memory.beta1)
    first = each.mean(0) + step * (1 / (1 - memory.beta1) + ahead) * along.mean(0)
    moved = step * (1 / (1 - memory.beta2) + ahead) * 2 * (each * along).mean(0)
    second = (each.square().mean(0) + moved).clamp_min(0)
    return z + step * ahead * memory.metric(second) * first, first, second


def run_epoch(losses: Sequence[Loss], state: State, step: float, order: Sequence[int], memory: Memory) -> State:
    """Take one step on each batch, in the given ``order``.

    >>> start = torch.tensor([1.0]), torch.zeros(1), torch.zeros(1)
    >>> run_epoch([lambda w: w.sum(), lambda w: 2 * w.sum()], start, 0.25, (1, 0), Memory())[0]
    tensor([0.2500])
    """
    w, first, second = state
    for k in order:
        slope = gradient(losses[k], w)
        first = memory.beta1 * first + (1 - memory.beta1) * slope
        second = memory.beta2 * second + (1 - memory.beta2) * slope.square()
        w = w - step * memory.metric(second) * first
    return w, first, second


def ahead_of(state: State, step: float, memory: Memory) -> Tensor:
    """z = w − α·β₁/(1−β₁)·P∘m, the coordinate that moves by −α·P∘g per step.

    >>> ahead_of((torch.tensor([1.0]), torch.tensor([2.0]), torch.zeros(1)), 0.1, Memory(0.5))
    tensor([0.8000])
    """
    w, first, second = state
    return w - step * memory.beta1 / (1 - memory.beta1) * memory.metric(second) * first
