from __future__ import annotations

from math import factorial

import numpy as np
import pytest
import torch

from handful.graph import Graph
from handful.samplers.random_node import RandomNodes
from handful.theory.backward_error import (
    backward_error,
    batch_orders,
    coefficients,
    flow,
    gradient,
    mean_displacement,
    modified_field,
    one_thread,
    smooth_losses,
)


def tiny_graph(n: int = 48, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = (rng.normal(size=(n, 4)) + y[:, None]).astype(np.float32)
    edges = rng.integers(0, n, (2, 4 * n))
    return Graph.from_edge_index(edges, n, x=x, y=y, train_mask=rng.random(n) < 0.8).to_undirected().without_loops()


@pytest.mark.parametrize("parts", [1, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_slopes_settle_which_coefficient_holds(parts: int) -> None:
    """Parts = 6 averages random orders and their reverses: exact to second order as well."""
    batches = list(RandomNodes(parts).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=4, classes=3, seed=2)
    found = backward_error(losses, w, [0.02 * 2.0**-k for k in range(4)])
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


def test_field_is_the_gradient_of_the_modified_loss() -> None:
    batches = list(RandomNodes(3).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=2, classes=3, seed=2)
    c = 0.3

    def modified(at: torch.Tensor) -> float:
        return sum(float(f(at)) + c * float(gradient(f, at).square().sum()) for f in losses) / 3

    field = modified_field(losses, w, c)
    for i in range(0, len(w), 5):
        nudge = torch.zeros_like(w)
        nudge[i] = 1e-5
        assert float(field[i]) == pytest.approx(-(modified(w + nudge) - modified(w - nudge)) / 2e-5, abs=1e-7)


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
    assert coefficients(3, 0.1) == pytest.approx({"modified": 0.025, "unmodified": 0, "appendix_coefficient": 0.075})


def test_integrator_is_accurate_enough() -> None:
    batches = list(RandomNodes(3).epoch(tiny_graph(), 1, 0))
    losses, w = smooth_losses(batches, hidden=4, classes=3, seed=2)
    with one_thread():
        ends = [flow(lambda at: modified_field(losses, at, 0.005), w, 0.06, pieces) for pieces in (8, 16)]
        off = (mean_displacement(losses, w, 0.02) - (ends[1] - w)).norm()
    assert float((ends[0] - ends[1]).norm()) < 1e-4 * float(off)
