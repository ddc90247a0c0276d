"""A test of the modified loss: an epoch of SGD follows the gradient flow of this loss, with an error of third order in
the step size.

The paper (Eq. "mini-batch-gnn-loss") states that an epoch of m SGD steps of size α, averaged over the order of its
batches, follows the gradient flow of the following loss for a time mα:

    L̃ = L̄ + α/4·‖∇L̄‖² + α/4·R = L̄ + α/(4m)·Σ_k ‖∇L̂_k‖².

The paper's appendix sets ε = mα and prints ε/(4m)·Σ_k ‖∇L̂_k‖², which is m times as large. At most one of these two
coefficients is correct: with the correct coefficient, the distance between SGD and the flow after an epoch is O(α³);
with any other coefficient, it is only O(α²). For SGD with momentum, the paper multiplies both terms by (1+β)/(1−β).
``theory.memory`` derives the factor of each term, and the flow of Adam; this module tests these results too.

Assumptions: the losses have bounded first, second and third derivatives (so the activation is smooth), and mα is small.
For Adam, also: over the averaging time of v, every component g_i of the gradient changes little compared with |g_i| +
ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from handful.batch import Batch
from handful.random import derive_seed, generator
from handful.theory import memory as of
from handful.theory.memory import SGD, Coefficients, Loss, Memory, modified_field

ALL_ORDERS_UP_TO = 4
STEPS = tuple(0.04 * 2.0**-k for k in range(7))


@dataclass(frozen=True)
class BackwardError:
    """``errors``: for each flow and step size, the distance between the flow and the optimiser's weights after an
    epoch. ``slopes``: for each flow, the slope of the error over the step size, in log–log axes.
    """

    errors: dict[str, list[float]]
    slopes: dict[str, float]


def batch_orders(m: int, seed: int = 0) -> Iterator[tuple[int, ...]]:
    """All m! orders of m batches if m is at most 4; otherwise, twelve random orders, each followed by its reverse.

    Of two batches, one comes first in an order, and the other comes first in its reverse. The second-order term of the
    expectation, ½·Σ_{k≠l} ∇f_k·f_l, depends only on which of two batches comes first. So the mean over an order and its
    reverse is exact to second order.

    >>> list(batch_orders(2)), len(list(batch_orders(10)))
    ([(0, 1), (1, 0)], 24)
    """
    if m <= ALL_ORDERS_UP_TO:
        yield from permutations(range(m))
        return
    rng = generator(seed, m)
    for _ in range(12):
        order = tuple(rng.permutation(m).tolist())
        yield from (order, order[::-1])


def mean_displacement(losses: Sequence[Loss], w: Tensor, step: float, memory: Memory = SGD) -> Tensor:
    """E[z_{t+m}] − z_t for z_t = ``w``, where the expectation is over the order of the batches. If there is no
    momentum, z is w.

    The optimiser starts with the mean moments that it would have after a long time on the flow. The deviations from
    these moments have mean zero and do not depend on the order of this epoch, so they do not change the mean to second
    order.

    >>> mean_displacement([lambda w: w.sum(), lambda w: 2 * w.sum()], torch.tensor([1.0]), 0.25)
    tensor([-0.7500])
    """
    if memory.beta1 and len(losses) > ALL_ORDERS_UP_TO:
        raise ValueError(f"with momentum all orders are needed: give {ALL_ORDERS_UP_TO} batches at most")
    start = of.settled_state(losses, w, step, memory)
    ends = [of.run_epoch(losses, start, step, order, memory) for order in batch_orders(len(losses))]
    return torch.stack([of.ahead_of(end, step, memory) for end in ends]).mean(0) - w


def flow(field: Callable[[Tensor], Tensor], w: Tensor, time: float, pieces: int = 8) -> Tensor:
    """Solve ẇ = field(w) from ``w``, and return w at ``time``. The classical Runge–Kutta method is used; its error,
    O(time⁵/pieces⁴), is negligible.

    >>> w = torch.ones(1, dtype=torch.float64)
    >>> abs(float(flow(lambda w: -w, w, 0.1)[0]) - float(np.exp(-0.1))) < 1e-10
    True
    """
    h = time / pieces
    for _ in range(pieces):
        a = field(w)
        b = field(w + h / 2 * a)
        c = field(w + h / 2 * b)
        d = field(w + h * c)
        w = w + h / 6 * (a + 2 * b + 2 * c + d)
    return w


def readings(m: int, step: float, memory: Memory = SGD) -> dict[str, Coefficients]:
    """The sets of coefficients to test: the correct coefficients, zeros, and the paper's coefficients.

    >>> readings(m=4, step=0.5)["appendix_coefficient"]
    Coefficients(mean=0.5, spread=0.5, second=0.0)
    """
    right = memory.coefficients(step, m)
    result = {"modified": right, "unmodified": Coefficients()}
    if memory == SGD:
        result["appendix_coefficient"] = Coefficients(m * right.mean, m * right.spread)
    elif memory.eps is None:
        result["one_factor"] = Coefficients(right.mean, right.mean)
        result["mean_alone"] = Coefficients(right.mean)
    return result


def slope(steps: Sequence[float], errors: Sequence[float]) -> float:
    """The exponent p in error ∝ αᵖ, fitted by least squares in log–log axes.

    >>> round(slope([1, 2, 4], [3, 24, 192]), 6)
    3.0
    """
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


def backward_error(losses: Sequence[Loss], w: Tensor, steps: Sequence[float], memory: Memory = SGD) -> BackwardError:
    """For each set of coefficients in ``readings``, measure the distance between the flow and the mean path of an
    optimiser, after one epoch.

    Args:
        losses: one loss per batch.
        w: the initial weights, float64.
        steps: the step sizes α; for heavy ball, α is lr/(1−β).
        memory: the moving averages of the optimiser; by default none, as for SGD.

    >>> smooth = [lambda w: torch.sin(w).sum(), lambda w: (w**2).sum(), lambda w: torch.exp(-w).sum()]
    >>> found = backward_error(smooth, torch.tensor([0.3, -0.2], dtype=torch.float64), STEPS)
    >>> {name: round(value) for name, value in found.slopes.items()}
    {'modified': 3, 'unmodified': 2, 'appendix_coefficient': 2}
    """
    m = len(losses)
    errors: dict[str, list[float]] = {}
    for step in steps:
        walked = mean_displacement(losses, w, step, memory)
        for name, by in readings(m, step, memory).items():
            flowed = flow(partial(modified_field, losses, by=by, memory=memory), w, m * step) - w
            errors.setdefault(name, []).append(float((walked - flowed).norm()))
    return BackwardError(errors, {name: slope(steps, values) for name, values in errors.items()})


def smooth_losses(batches: Sequence[Batch], hidden: int, classes: int, seed: int) -> tuple[list[Loss], Tensor]:
    """The loss function of each of ``batches``, and random initial weights. The model is a two-layer GraphSAGE with
    tanh, in float64.

    h = tanh(x·W₁ + mean(x)·W₂ + b), logits = h·W₃ + mean(h)·W₄ + c, mean cross-entropy over the batch's targets.

    >>> import handful as hf
    >>> ring = hf.Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 0], train_mask=range(3))
    >>> losses, w = smooth_losses(list(hf.RandomNodes(2).epoch(ring, 0, 0)), hidden=4, classes=2, seed=0)
    >>> len(losses), w.shape, bool(losses[0](w) > 0)
    (2, torch.Size([46]), True)
    """
    features = batches[0].x.shape[1]
    shapes = [(features, hidden), (features, hidden), (hidden,), (hidden, classes), (hidden, classes), (classes,)]
    sizes = [int(np.prod(shape)) for shape in shapes]
    rng = torch.Generator().manual_seed(derive_seed(seed))
    start = [torch.randn(s, generator=rng, dtype=torch.float64) / (s[0] if len(s) > 1 else 1.0) ** 0.5 for s in shapes]

    def loss_of(batch: Batch) -> Loss:
        first, last = batch.stack(2)
        x = batch.x.to(torch.float64)
        neighbours, x = first.mean(x), x[: first.num_targets]

        def loss(w: Tensor) -> Tensor:
            parts = [p.view(s) for p, s in zip(torch.split(w, sizes), shapes, strict=True)]
            h = torch.tanh(x @ parts[0] + neighbours @ parts[1] + parts[2])
            logits = h[: last.num_targets] @ parts[3] + last.mean(h) @ parts[4] + parts[5]
            return cross_entropy(logits[batch.targets], batch.y)

        return loss

    return [loss_of(batch) for batch in batches], torch.cat([p.flatten() for p in start])
