from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.linalg import logm

from handful.samplers.random_node import RandomNodes
from handful.studies.laws import noisy_graph
from handful.theory.backward_error import smooth_losses
from handful.theory.implicit import variance_factor
from handful.theory.memory import (
    Coefficients,
    Memory,
    ahead_of,
    gradient,
    modified_field,
    run_epoch,
    settled_state,
    slopes_at,
)


def mean_epoch_map(curvatures: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """The mean over all orders of the map (w, v) → (w, v) of an epoch of heavy ball on ½·wᵀA_k·w: a matrix."""
    m, n, _ = curvatures.shape
    lr, one = alpha * (1 - beta), np.eye(n)
    steps = [np.block([[one - lr * a, -lr * beta * one], [a, beta * one]]) for a in curvatures]
    orders = list(permutations(range(m)))
    total = np.zeros((2 * n, 2 * n))
    for order in orders:
        whole = np.eye(2 * n)
        for k in order:
            whole = steps[k] @ whole
        total += whole
    return total / len(orders)


def effective_curvature(curvatures: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """−log of the mean map of an epoch on its slow subspace, per time mα: what w follows when momentum has settled.

    Orders are drawn anew for every epoch, and the map is linear: the mean of many epochs is a power of the mean map.
    """
    m, n, _ = curvatures.shape
    values, vectors = np.linalg.eig(mean_epoch_map(curvatures, alpha, beta))
    slow = np.argsort(np.abs(values - 1))[:n]
    top = vectors[:n, slow]
    return -np.real(logm(top @ np.diag(values[slow]) @ np.linalg.inv(top))) / (m * alpha)


@pytest.mark.parametrize("beta", [0.5, 0.9])
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_both_coefficients_against_the_exact_map_of_an_epoch(m: int, beta: float) -> None:
    """The first-order term of the effective curvature is 2a·H̄² + 2b·(mean A_k² − H̄²), over α."""
    rng = np.random.default_rng(m)
    curvatures = np.stack([(a := rng.normal(size=(2, 2))) @ a.T + np.eye(2) for _ in range(m)])
    mean = curvatures.mean(0)
    spread = np.mean([a @ a for a in curvatures], axis=0) - mean @ mean

    def first_order(alpha: float) -> np.ndarray:
        return (effective_curvature(curvatures, alpha, beta) - mean) / alpha

    found = 2 * first_order(5e-6) - first_order(1e-5)  # Richardson: the next order cancels
    basis = np.stack([mean @ mean, spread], axis=-1).reshape(-1, 2)
    (a, b), *_ = np.linalg.lstsq(basis, found.reshape(-1), rcond=None)
    right = Memory(beta).coefficients(1.0, m)
    assert 2 * right.mean == pytest.approx(a, rel=1e-3)
    assert 2 * right.spread == pytest.approx(b, rel=2e-2)
    assert a / (1 / 2) == pytest.approx((1 + beta) / (1 - beta), rel=1e-3)
    assert b / (1 / 2) == pytest.approx(variance_factor(m, beta), rel=2e-2)


def test_field_is_the_gradient_of_the_modified_loss() -> None:
    losses, w = smooth_losses(list(RandomNodes(3).epoch(noisy_graph(48, 0), 1, 0)), hidden=2, classes=3, seed=2)
    a, b = 0.3, 0.7

    def modified(at: torch.Tensor) -> float:
        each = torch.stack([gradient(f, at) for f in losses])
        mean = each.mean(0)
        spread = (each - mean).square().sum(1).mean()
        return float(torch.stack([f(at) for f in losses]).mean() + a * mean.square().sum() + b * spread)

    field = modified_field(losses, w, Coefficients(a, b))
    for i in range(0, len(w), 5):
        nudge = torch.zeros_like(w)
        nudge[i] = 1e-5
        assert float(field[i]) == pytest.approx(-(modified(w + nudge) - modified(w - nudge)) / 2e-5, abs=1e-7)


def test_adam_of_one_loss_penalises_the_perturbed_norm() -> None:
    """Cattaneo et al. (2024) with ε outside of the root: the norm is Σ(|g| − ε·log(1 + |g|/ε)), and by hand
    ẇ = −P∘[g + α/2·((1+β₁)/(1−β₁) − (1+β₂)/(1−β₂)·|g|/(|g|+ε))·∇norm]."""
    (loss,), w = smooth_losses(list(RandomNodes(1).epoch(noisy_graph(48, 0), 1, 0)), hidden=2, classes=3, seed=2)
    beta1, beta2, eps, step = 0.8, 0.95, 0.02, 0.3
    at = w.clone().requires_grad_()
    size = torch.autograd.grad(loss(at), at, create_graph=True)[0].abs()
    (slope,) = torch.autograd.grad((size - eps * torch.log1p(size / eps)).sum(), at)
    g = gradient(loss, w)
    size = size.detach()
    grown = (1 + beta1) / (1 - beta1) - (1 + beta2) / (1 - beta2) * size / (size + eps)
    expected = -(g + step / 2 * grown * slope) / (size + eps)
    memory = Memory(beta1, beta2, eps)
    assert torch.allclose(modified_field([loss], w, memory.coefficients(step, 1), memory), expected, rtol=1e-10)


def test_a_large_epsilon_makes_adam_heavy_ball() -> None:
    losses, w = smooth_losses(list(RandomNodes(3).epoch(noisy_graph(48, 0), 1, 0)), hidden=2, classes=3, seed=2)
    eps, step = 1e6, 0.1
    adam, ball = Memory(0.9, 0.99, eps), Memory(0.9)
    by = ball.coefficients(step, 3)
    found = eps * modified_field(losses, w, adam.coefficients(step * eps, 3), adam)
    # What is left of the metric is |g|/ε, times (1+β₂)/(1−β₂) in the memory of v.
    assert torch.allclose(found, modified_field(losses, w, by), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("memory", "kind", "options"), [
    (Memory(), torch.optim.SGD, {"lr": 0.1}),
    (Memory(0.9), torch.optim.SGD, {"lr": 0.1 * (1 - 0.9), "momentum": 0.9}),
    (Memory(0.9, 0.99, 1e-3), torch.optim.Adam, {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-3}),
])  # fmt: skip
def test_an_epoch_is_that_of_torch(memory: Memory, kind: type[torch.optim.Optimizer], options: dict) -> None:
    """After so many steps that torch's correction for a cold start is gone."""
    losses = [lambda w: torch.cos(w).sum(), lambda w: (w - 1).square().sum()]
    start = torch.tensor([0.3, -0.4], dtype=torch.float64)
    weights = start.clone().requires_grad_()
    optimizer = kind([weights], **options)
    order = [0, 1, 1, 0]
    if kind is torch.optim.Adam:
        zero = torch.zeros_like(start)
        optimizer.state[weights] = {"step": torch.tensor(1e6), "exp_avg": zero.clone(), "exp_avg_sq": zero.clone()}
    for k in order:
        optimizer.zero_grad()
        losses[k](weights).backward()
        optimizer.step()
    moments = torch.zeros_like(start)
    ours = run_epoch(losses, (start, moments, moments), 0.1, order, memory)
    assert torch.allclose(ours[0], weights.detach(), rtol=1e-9)


def test_a_settled_state_is_what_many_steps_leave() -> None:
    """Adam on one loss, far along: the moments are those of the formula, to second order in the step."""
    losses, memory, off = [lambda w: (torch.sin(w) + 2 * w).sum()], Memory(0.6, 0.8, 0.1), []
    for step in (1e-3, 5e-4):
        cold = (torch.tensor([0.2], dtype=torch.float64), *torch.zeros(2, 1, dtype=torch.float64))
        state = run_epoch(losses, cold, step, [0] * 200, memory)
        z = ahead_of(state, step, memory)
        found = settled_state(losses, z, step, memory)
        off.append([float((a - b).abs()) for a, b in zip(state[1:], found[1:], strict=True)])
    for coarse, fine in zip(*off, strict=True):
        assert coarse / fine == pytest.approx(4, rel=0.3)


def test_linear_losses_have_no_curvature() -> None:
    each, along, own = slopes_at([lambda w: w.sum(), lambda w: 3 * w.sum()], torch.ones(2), Memory())
    assert each.tolist() == [[1, 1], [3, 3]]
    assert along.abs().sum() == own.abs().sum() == 0
