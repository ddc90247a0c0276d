"""A test by measurement: an epoch of SGD follows the gradient flow of the modified loss, to third order in the step.

The paper (Eq. "mini-batch-gnn-loss") says that m steps of SGD with step α, averaged over the order of the batches,
follow for a time mα the gradient flow of

    L̃ = L̄ + α/4·‖∇L̄‖² + α/4·R = L̄ + α/(4m)·Σ_k ‖∇L̂_k‖².

Its appendix sets ε = mα and prints ε/(4m)·Σ_k ‖∇L̂_k‖², m times as much. Both cannot hold: with the right coefficient
the distance between the two shrinks as α³, with any other as α².

Assumptions: losses with bounded first, second and third derivatives (hence a smooth activation), and mα small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from handful.batch import Batch
from handful.random import derive_seed, generator

Loss = Callable[[Tensor], Tensor]
"""The loss of one batch as a function of all weights in one float64 vector."""

ALL_ORDERS_UP_TO = 4
STEPS = tuple(0.04 * 2.0**-k for k in range(7))


@dataclass(frozen=True)
class BackwardError:
    """How far an epoch of SGD ends from three gradient flows, for every step size; ``slopes`` are in log–log."""

    steps: tuple[float, ...]
    errors: dict[str, list[float]]
    slopes: dict[str, float]


def gradient(loss: Loss, w: Tensor, create_graph: bool = False) -> Tensor:
    """∇L(w).

    Args:
        loss: of one batch.
        w: float64, all weights in one vector.
        create_graph: whether the result can be differentiated again.

    >>> gradient(lambda w: w.square().sum(), torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    w = w if w.requires_grad else w.detach().requires_grad_()
    return torch.autograd.grad(loss(w), w, create_graph=create_graph)[0]


def batch_orders(m: int, seed: int = 0) -> Iterator[tuple[int, ...]]:
    """All m! orders of m batches if m is at most 4, else a dozen random ones, each followed by its reverse.

    In an order and its reverse every pair of batches occurs both ways round. The second-order term ½·Σ_{k≠l} ∇f_k·f_l
    of the expectation depends on nothing else: the mean over an order and its reverse is exact to that order.

    >>> list(batch_orders(2)), len(list(batch_orders(10)))
    ([(0, 1), (1, 0)], 24)
    """
    if m <= ALL_ORDERS_UP_TO:
        yield from permutations(range(m))
        return
    rng = generator(seed, m)
    for _ in range(12):
        order = tuple(rng.permutation(m).tolist())
        yield order
        yield order[::-1]


def sgd_epoch(losses: Sequence[Loss], w: Tensor, step: float, order: Sequence[int]) -> Tensor:
    """w after one step of size α on each batch: w_{t+1} = w_t − α·∇L̂_k(w_t), k in ``order``.

    >>> sgd_epoch([lambda w: w.sum(), lambda w: 2 * w.sum()], torch.tensor([1.0]), 0.25, order=(1, 0))
    tensor([0.2500])
    """
    for k in order:
        w = w - step * gradient(losses[k], w)
    return w


def mean_displacement(losses: Sequence[Loss], w: Tensor, step: float) -> Tensor:
    """E[w_{t+m}] − w_t over the order of the batches.

    >>> mean_displacement([lambda w: w.sum(), lambda w: 2 * w.sum()], torch.tensor([1.0]), 0.25)
    tensor([-0.7500])
    """
    ends = [sgd_epoch(losses, w, step, order) for order in batch_orders(len(losses))]
    return torch.stack(ends).mean(0) - w


def modified_field(losses: Sequence[Loss], w: Tensor, coefficient: float) -> Tensor:
    """−∇[L̄ + c·(1/m)·Σ_k ‖∇L̂_k‖²] at w; c = α/4 is the modified loss, c = 0 the plain one.

    >>> w = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> modified_field([lambda w: 0.5 * w.square().sum()], w, 0.25).tolist()  # ∇[½w² + ¼w²]
    [-1.5, -3.0]
    """
    w = w.detach().requires_grad_()
    field = torch.zeros_like(w)
    for loss in losses:
        slope = gradient(loss, w, create_graph=coefficient != 0)
        field = field - slope.detach()
        if coefficient != 0:
            field = field - coefficient * torch.autograd.grad(slope.square().sum(), w)[0]
    return (field / len(losses)).detach()


def flow(field: Callable[[Tensor], Tensor], w: Tensor, time: float, pieces: int = 8) -> Tensor:
    """w(time) of ẇ = field(w), by the classical Runge–Kutta method, with a negligible error of O(time⁵/pieces⁴).

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


def coefficients(m: int, step: float) -> dict[str, float]:
    """What multiplies (1/m)·Σ_k ‖∇L̂_k‖² in each reading of the paper.

    >>> coefficients(m=4, step=0.5)
    {'modified': 0.125, 'unmodified': 0.0, 'appendix_coefficient': 0.5}
    """
    return {"modified": step / 4, "unmodified": 0.0, "appendix_coefficient": m * step / 4}


def slope(steps: Sequence[float], errors: Sequence[float]) -> float:
    """The exponent p of error ∝ αᵖ, by least squares in log–log.

    >>> round(slope([1, 2, 4], [3, 24, 192]), 6)
    3.0
    """
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread of torch: tensors this small gain nothing from a second one.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def backward_error(losses: Sequence[Loss], w: Tensor, steps: Sequence[float] = STEPS) -> BackwardError:
    """The distance after one epoch between mean SGD and the flow of L̃, of L̄, and of L̃ with the appendix's coefficient.

    Args:
        losses: one per batch.
        w: float64, the weights to start from.
        steps: the step sizes.

    >>> smooth = [lambda w: torch.sin(w).sum(), lambda w: (w**2).sum(), lambda w: torch.exp(-w).sum()]
    >>> found = backward_error(smooth, torch.tensor([0.3, -0.2], dtype=torch.float64))
    >>> {name: round(value) for name, value in found.slopes.items()}
    {'modified': 3, 'unmodified': 2, 'appendix_coefficient': 2}
    """
    m = len(losses)
    errors: dict[str, list[float]] = {}
    with one_thread():
        for step in steps:
            walked = mean_displacement(losses, w, step)
            for name, c in coefficients(m, step).items():
                flowed = flow(partial(modified_field, losses, coefficient=c), w, m * step) - w
                errors.setdefault(name, []).append(float((walked - flowed).norm()))
    return BackwardError(tuple(steps), errors, {name: slope(steps, values) for name, values in errors.items()})


def smooth_losses(batches: Sequence[Batch], hidden: int, classes: int, seed: int) -> tuple[list[Loss], Tensor]:
    """The losses of ``batches`` for a two-layer GraphSAGE with tanh in float64, and random weights to start from.

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
