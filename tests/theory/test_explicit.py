from __future__ import annotations

import numpy as np
import pytest
import torch

import handful as hf
from handful.batch import Batch
from handful.errors import HandfulError
from handful.samplers.random_node import RandomNodes
from handful.theory.explicit import VariancePenalty, variance_gradient
from handful.theory.implicit import implicit_terms
from handful.training.loop import batch_loss
from handful.training.module import seed_step


def small_graph(n: int = 80, seed: int = 0) -> hf.Graph:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = (rng.normal(size=(n, 4)) + y[:, None]).astype(np.float32)
    masks = {"train_mask": np.arange(n) < 50, "val_mask": (np.arange(n) >= 50) & (np.arange(n) < 65)}
    masks["test_mask"] = np.arange(n) >= 65
    return hf.Graph.from_edge_index(rng.integers(0, n, (2, 4 * n)), n, x=x, y=y, **masks).to_undirected()


def model_of(graph: hf.Graph, norm: str = "ln", dropout: float = 0.0, kind: type = hf.SAGE) -> torch.nn.Module:
    torch.manual_seed(3)
    return kind(graph.num_features, graph.num_outputs, hidden=5, layers=2, norm=norm, dropout=dropout)


def gradients(
    model: torch.nn.Module, items: list[tuple[Batch, int]], create_graph: bool = False
) -> list[list[torch.Tensor]]:
    out = []
    for batch, seed in items:
        seed_step(model, seed)
        out.append(torch.autograd.grad(batch_loss(model, batch), list(model.parameters()), create_graph=create_graph))
    return out


def variance(rows: list[list[torch.Tensor]]) -> torch.Tensor:
    stacked = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    return (stacked - stacked.mean(0)).square().sum(1).mean()


@pytest.mark.parametrize(("norm", "dropout"), [("none", 0.0), ("ln", 0.0), ("bn", 0.0), ("bn", 0.4)])
@pytest.mark.parametrize("kind", [hf.SAGE, hf.GCN])
def test_against_autograd_through_the_definition(norm: str, dropout: float, kind: type) -> None:
    """∇R of the identity with Hessian products against differentiating R itself through all gradients at once."""
    graph = small_graph()
    model = model_of(graph, norm, dropout, kind).double().train()
    items = [(batch, 10 + i) for i, batch in enumerate(RandomNodes(3).epoch(graph, 0, 0))]
    rows = gradients(model, items, create_graph=True)
    expected = variance(rows)
    slopes = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    mean = [torch.stack(g).mean(0).detach() for g in zip(*rows, strict=True)]
    value, found = variance_gradient(model, items, mean)
    assert value == pytest.approx(float(expected.detach()), rel=1e-9)
    for a, b in zip(found, slopes, strict=True):
        assert torch.allclose(a, torch.zeros_like(a) if b is None else b, rtol=1e-7, atol=1e-12)


def test_against_finite_differences() -> None:
    graph = small_graph()
    model = model_of(graph).double().train()
    items = [(batch, i) for i, batch in enumerate(RandomNodes(4).epoch(graph, 1, 0))]
    rows = gradients(model, items)
    _, found = variance_gradient(model, items, [torch.stack(g).mean(0) for g in zip(*rows, strict=True)])
    weight = next(model.parameters())
    for at in [(0, 0), (2, 1), (4, 3)]:
        values = []
        for nudge in (1e-6, -1e-6):
            with torch.no_grad():
                weight[at] += nudge
            values.append(float(variance(gradients(model, items))))
            with torch.no_grad():
                weight[at] -= nudge
        assert float(found[0][at]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-9)


@pytest.mark.slow
def test_penalised_training_has_less_variance_and_none_changes_nothing() -> None:
    graph = small_graph()
    options = {"epochs": 20, "lr": 0.5, "optimizer": "sgd", "update": "epoch", "seed": 1, "evaluate_every": 20}
    ends = {}
    for strength in (None, 0.0, 1.0):
        model = model_of(graph, dropout=0.2)
        penalty = [] if strength is None else [VariancePenalty(strength)]
        hf.fit(model, graph, RandomNodes(4), callbacks=penalty, **options)
        ends[strength] = model
        if penalty:
            assert len(penalty[0].history) == 20
    pairs = zip(ends[None].parameters(), ends[0.0].parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)
    plain, held = (implicit_terms(ends[s], graph, RandomNodes(4), 20) for s in (0.0, 1.0))
    assert held.R < 0.8 * plain.R


def test_the_penalty_is_of_the_loss_that_is_trained() -> None:
    """The same weights, batches and seeds, and R of the weighted loss: the penalty sees class weights."""
    graph = small_graph()
    weights = torch.tensor([5.0, 1.0, 0.1])
    model, penalty = model_of(graph).train(), VariancePenalty(0.1)
    items = [(batch, 0) for batch in RandomNodes(4).epoch(graph, 1, 0)]  # without dropout no seed is drawn
    losses = [batch_loss(model, batch, class_weight=weights) for batch, _ in items]
    rows = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    options = {"epochs": 1, "lr": 0.5, "optimizer": "sgd", "update": "epoch", "seed": 1}
    hf.fit(model, graph, RandomNodes(4), callbacks=[penalty], class_weight=weights, **options)
    assert penalty.history[0] == pytest.approx(float(variance(rows)), rel=1e-4)


def test_per_part_updates_are_refused() -> None:
    graph = small_graph()
    with pytest.raises(HandfulError, match="update='epoch'"):
        hf.fit(model_of(graph), graph, RandomNodes(2), callbacks=[VariancePenalty(0.1)], epochs=1)
