from __future__ import annotations

from functools import partial
from math import factorial

import numpy as np
import pytest
import torch

from handful.graph import Graph
from handful.samplers.random_node import RandomNodes
from handful.theory.backward_error import (
    backward_error,
    batch_orders,
    flow,
    mean_displacement,
    readings,
    smooth_losses,
)
from handful.theory.memory import Coefficients, Memory, modified_field


def tiny_graph(n: int = 48, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = (rng.normal(size=(n, 4)) + y[:, None]).astype(np.float32)
    edges = rng.integers(0, n, (2, 4 * n))
    return Graph.from_edge_index(edges, n, x=x, y=y, train_mask=rng.random(n) < 0.8).to_undirected().without_loops()


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(6, marks=pytest.mark.slow)])
def test_slopes_settle_which_coefficient_holds(parts: int) -> None:
    """Parts = 6 averages random orders and their reverses: exact to second order as well."""
    batches = list(RandomNodes(parts).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=4, classes=3, seed=2)
    found = backward_error(losses, w, [0.005, 0.0025])
    assert found.slopes["modified"] == pytest.approx(3, abs=0.1)
    assert found.slopes["unmodified"] == pytest.approx(2, abs=0.1)
    # With one batch there is nothing to choose: both coefficients are α/4.
    assert found.slopes["appendix_coefficient"] == pytest.approx(3 if parts == 1 else 2, abs=0.1)
    if parts > 1:
        assert found.errors["modified"][-1] < 0.05 * found.errors["unmodified"][-1]


def test_losses_are_those_of_the_graph() -> None:
    """The flat-vector losses against the same network written with a dense adjacency."""
    graph = tiny_graph(20)
    batch = next(iter(RandomNodes(1).epoch(graph, 0, 0)))
    (loss,), w = smooth_losses([batch], hidden=3, classes=3, seed=5)
    dense = torch.zeros(20, 20, dtype=torch.float64)
    dense[graph.edge_index[1], graph.edge_index[0]] = 1.0
    dense = dense / dense.sum(1, keepdim=True).clamp_min(1)
    shapes = [(4, 3), (4, 3), (3,), (3, 3), (3, 3), (3,)]
    a, b, c, d, e, f = (p.view(s) for p, s in zip(w.split([12, 12, 3, 9, 9, 3]), shapes, strict=True))
    x = graph.x.double()
    h = torch.tanh(x @ a + dense @ x @ b + c)
    logits = h @ d + dense @ h @ e + f
    expected = torch.nn.functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
    assert float(loss(w)) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.slow
def test_slopes_settle_what_momentum_multiplies() -> None:
    """Two coefficients hold to third order; one factor for both terms, or none for R, to second."""
    batches = list(RandomNodes(3).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=4, classes=3, seed=2)
    found = backward_error(losses, w, [1.25e-4, 6.25e-5], Memory(0.8))
    assert found.slopes["modified"] == pytest.approx(3, abs=0.1)
    for other in ("unmodified", "one_factor", "mean_alone"):
        assert found.slopes[other] == pytest.approx(2, abs=0.15), other
        assert found.errors["modified"][-1] < 0.1 * found.errors[other][-1]
    with pytest.raises(ValueError, match="4 batches at most"):
        mean_displacement(losses * 2, w, 0.1, Memory(0.8))


@pytest.mark.parametrize("eps", [1.0, pytest.param(0.01, marks=pytest.mark.slow), 1e-8])
def test_slopes_of_adam_on_the_whole_graph(eps: float) -> None:
    """The memory of v is ten steps: a step is a thousandth of ε or of the least gradient, 0.002."""
    (loss,), w = smooth_losses(list(RandomNodes(1).epoch(tiny_graph(), 1, 0)), hidden=4, classes=3, seed=2)
    steps = [max(eps, 0.002) * 1e-3 * 2.0**-k for k in range(4)]
    found = backward_error([loss], w, steps, Memory(0.8, 0.9, eps))
    assert found.slopes["modified"] == pytest.approx(3, abs=0.1)
    assert found.slopes["unmodified"] == pytest.approx(2, abs=0.1)


@pytest.mark.slow
def test_what_is_left_out_for_adam_with_batches_is_of_the_order_of_one_minus_beta2() -> None:
    """The fluctuation of v moves the flow itself: at small steps the distance is α times (1 − β₂) times a constant."""
    losses, w = smooth_losses(list(RandomNodes(3).epoch(tiny_graph(), 1, 0)), hidden=4, classes=3, seed=2)
    steps = [1e-7, 5e-8]
    near, far = (backward_error(losses, w, steps, Memory(0.8, beta2, 0.05)) for beta2 in (0.999, 0.99))
    for found in (near, far):
        assert found.slopes["modified"] == pytest.approx(1, abs=0.1)
    assert far.errors["modified"][-1] / near.errors["modified"][-1] == pytest.approx(10, rel=0.1)


def test_orders() -> None:
    assert len(set(batch_orders(4))) == factorial(4)
    many = list(batch_orders(7))
    assert all(sorted(order) == list(range(7)) for order in many)
    assert [order[::-1] for order in many[::2]] == many[1::2]


def test_displacement_of_quadratics_by_hand() -> None:
    """For L_k = a_k·w²/2 an epoch multiplies w by Π(1 − α·a_k), whatever the order."""
    losses = [lambda w, a=a: a * w.square().sum() / 2 for a in (1.0, 2.0, 3.0)]
    w = torch.ones(1, dtype=torch.float64)
    assert float(mean_displacement(losses, w, 0.1)) == pytest.approx(0.9 * 0.8 * 0.7 - 1)
    assert readings(3, 0.1)["modified"] == pytest.approx((0.025, 0.025, 0))
    assert readings(3, 0.1)["appendix_coefficient"] == pytest.approx((0.075, 0.075, 0))


def test_integrator_is_accurate_enough() -> None:
    batches = list(RandomNodes(3).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=4, classes=3, seed=2)
    field = partial(modified_field, losses, by=Coefficients(0.005, 0.005))
    ends = [flow(field, w, 0.06, pieces) for pieces in (8, 16)]
    off = (mean_displacement(losses, w, 0.02) - (ends[1] - w)).norm()
    assert float((ends[0] - ends[1]).norm()) < 1e-4 * float(off)
