from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import handful as hf
from handful.nn import MODELS, make_model, model_defaults
from handful.samplers.full import FullGraph
from handful.samplers.random_node import RandomNodes
from handful.theory.backward_error import flow, slope
from handful.theory.bias import bias_split
from handful.theory.implicit import (
    ImplicitWatch,
    Welford,
    epoch_steps,
    first_batches,
    full_loss,
    implicit_terms,
    modified_loss,
    regulariser_coefficients,
    without_dropout,
)
from handful.theory.memory import Coefficients, modified_field
from handful.training.loop import batch_loss
from handful.training.module import seed_step


def small_graph(n: int = 90, classes: int = 3, train: float = 0.6, seed: int = 0) -> hf.Graph:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    x = (rng.normal(size=(n, 5)) + y[:, None]).astype(np.float32)
    kind = rng.random(n)
    masks = {"train_mask": kind < train, "val_mask": (kind >= train) & (kind < 0.9), "test_mask": kind >= 0.9}
    graph = hf.Graph.from_edge_index(rng.integers(0, n, (2, 5 * n)), n, x=x, y=y, num_classes=classes, **masks)
    return graph.to_undirected().without_loops()


def model_of(graph: hf.Graph, norm: str = "bn", seed: int = 0, **options: object) -> hf.SAGE:
    torch.manual_seed(seed)
    return hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2, norm=norm, **options)


@given(st.integers(1, 30), st.integers(1, 6), st.floats(-1e4, 1e4), st.integers(0, 2**31))
@settings(max_examples=60)
def test_welford_against_stacking(count: int, width: int, shift: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(shift, 1, (count, width))
    running = Welford()
    for row in values:
        running.add(torch.from_numpy(row))
    # A mean of n float64 values by either way: n·2⁻⁵²·max|v|. A deviation d that is off by e moves d² by 2|d|e + e².
    off = 2 * count * 2.0**-52 * np.abs(values).max()
    assert np.abs(running.mean.numpy() - values.mean(0)).max() <= off
    deviation = values - values.mean(0)
    slack = (2 * np.abs(deviation) * off + off**2).sum(1).max()
    assert running.variance == pytest.approx((deviation**2).sum(1).mean(), rel=2 * count * 2.0**-52, abs=2 * slack)


@pytest.mark.parametrize("norm", ["bn", "ln", "none"])
def test_against_stacked_gradients(norm: str) -> None:
    graph = small_graph()
    model = model_of(graph, norm, dropout=0.5)
    found = implicit_terms(model, graph, RandomNodes(4), batches=10, seed=3)
    plain = model_of(graph, norm, dropout=0.0).train()
    losses, gradients = [], []
    for epoch in range(3):
        for batch in RandomNodes(4).epoch(graph, 3, epoch):
            plain.zero_grad()
            loss = batch_loss(plain, batch)
            loss.backward()
            losses.append(float(loss.detach()))
            gradients.append(torch.cat([p.grad.flatten() for p in plain.parameters()]).double())
    losses, stacked = np.array(losses[:10]), torch.stack(gradients[:10])
    assert found.mean_loss == pytest.approx(losses.mean(), rel=1e-6)
    assert found.loss_variance == pytest.approx(losses.var(), rel=1e-5)
    assert found.grad_norm_sq == pytest.approx(float(stacked.mean(0).square().sum()), rel=1e-5)
    assert pytest.approx(float((stacked - stacked.mean(0)).square().sum(1).mean()), rel=1e-5) == found.R
    whole = float(batch_loss(plain, next(FullGraph().epoch(graph, 0, 0))).detach())
    assert found.bias == pytest.approx(abs(whole - losses.mean()), abs=1e-6)


@pytest.mark.parametrize("norm", ["bn", "ln", "none"])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_part_is_the_full_graph(norm: str, classes: int) -> None:
    graph = small_graph(classes=classes)
    found = implicit_terms(model_of(graph, norm), graph, RandomNodes(1), batches=4)
    assert found.bias == pytest.approx(0, abs=1e-6)
    assert found.loss_variance == pytest.approx(0, abs=1e-12)
    assert pytest.approx(0, abs=1e-12) == found.R
    assert found.grad_norm_sq > 1e-4


def test_numbers_are_measured_by_their_squared_errors_and_labels_by_theirs() -> None:
    plain = small_graph()
    assert plain.x is not None
    numbers = plain.replace(y=900 + 50 * plain.x[:, 0], task="regression", num_classes=None)
    mean, spread = (float(f(numbers.y[numbers.train_nodes])) for f in (torch.mean, lambda y: y.std(correction=0)))
    labels = plain.replace(y=(plain.x[:, :2] > 0).long(), task="multilabel", num_classes=None)
    by_hand = {
        "regression": lambda out, y: F.mse_loss(out[:, 0], (y - mean) / spread),
        "multilabel": lambda out, y: F.binary_cross_entropy_with_logits(out, y),
    }
    for graph in (numbers, labels):
        model = model_of(graph, "ln", dropout=0.0).train()
        found = implicit_terms(model, graph, RandomNodes(3), batches=6, seed=3)
        losses, gradients = [], []
        for epoch in range(2):
            for batch in RandomNodes(3).epoch(graph, 3, epoch):
                loss = by_hand[graph.task](model(batch)[batch.targets], batch.y)
                losses.append(float(loss.detach()))
                gradients.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))]))
        stacked = torch.stack(gradients).double()
        assert found.mean_loss == pytest.approx(np.mean(losses), rel=1e-5)
        assert pytest.approx(float((stacked - stacked.mean(0)).square().sum(1).mean()), rel=1e-4) == found.R
        split = bias_split(model, graph, RandomNodes(3), batches=6, seed=3)
        assert split.total["mean"] == pytest.approx(np.mean(losses) - full_loss(model, graph), abs=1e-5)


def test_the_model_is_left_as_it_was() -> None:
    graph = small_graph()
    model = torch.nn.Sequential(model_of(graph, "bn", dropout=0.4), torch.nn.Dropout(0.3))
    model.takes_batch = True
    model[0].eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    batch = next(FullGraph().epoch(graph, 0, 0))
    still = without_dropout(model)
    assert torch.equal(batch_loss(still, batch), batch_loss(still, batch))
    implicit_terms(model, graph, RandomNodes(3), batches=3)
    assert modes == [module.training for module in model.modules()]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert model[1].p == 0.3
    model.train()
    assert not torch.equal(batch_loss(model, batch), batch_loss(model, batch))


def test_batches_run_over_epochs_and_pass_over_those_without_a_step() -> None:
    graph = small_graph(60, train=0.05)
    batches = list(first_batches(graph, RandomNodes(20), 30, seed=1))
    assert len(batches) == 30
    assert all(len(batch.targets) for batch in batches)
    kept = [b.nodes.tolist() for e in range(20) for b in RandomNodes(20).epoch(graph, 1, e) if len(b.targets)]
    assert [b.nodes.tolist() for b in batches] == kept[:30]


def test_smaller_batches_have_more_variance() -> None:
    graph = small_graph(600)
    model = model_of(graph)
    few, many = (implicit_terms(model, graph, RandomNodes(m), batches=40) for m in (2, 20))
    assert many.R > 5 * few.R
    assert many.loss_variance > 5 * few.loss_variance


def test_modified_loss() -> None:
    graph = small_graph()
    terms = implicit_terms(model_of(graph), graph, RandomNodes(4), batches=8)
    expected = terms.mean_loss + 0.1 / 4 * terms.grad_norm_sq + 0.1 / 4 * terms.R
    assert modified_loss(terms, lr=0.1) == pytest.approx(expected)
    # With momentum the effective step is lr / (1 − β); the factor of Ghosh et al. is for the mean gradient alone.
    alpha, rho = 0.1 / (1 - 0.9), 2 / 12 * (3 * 0.1 + 2 * 0.19 + 0.271)
    grown = terms.mean_loss + alpha / 4 * (1 + 0.9) / (1 - 0.9) * terms.grad_norm_sq + alpha / 4 * rho * terms.R
    assert modified_loss(terms, lr=0.1, momentum=0.9, m=4) == pytest.approx(grown)
    with pytest.raises(ValueError, match="momentum"):
        regulariser_coefficients(0.1, 1.0)
    with pytest.raises(ValueError, match="give m"):
        modified_loss(terms, lr=0.1, momentum=0.9)


def test_steps_of_an_epoch_are_batches_with_targets() -> None:
    graph = small_graph(60, train=0.05)
    assert epoch_steps(graph, RandomNodes(20), 1) == sum(
        len(batch.targets) > 0 for batch in RandomNodes(20).epoch(graph, 1, 0)
    )


def test_the_terms_in_the_metric_of_adam() -> None:
    graph = small_graph()
    model = model_of(graph, "ln", dropout=0.0)
    each: list[torch.Tensor] = []
    found = implicit_terms(model, graph, RandomNodes(3), batches=6, seed=3, on_batch=lambda _, g: each.append(g))
    stacked = torch.stack(each).double()
    metric = 1 / (stacked.square().mean(0).sqrt() + 1e-8)
    assert found.adam_norm == pytest.approx(float((metric * stacked.mean(0).square()).sum()), rel=1e-9)
    assert found.adam_R == pytest.approx(float((metric * stacked.var(0, correction=0)).sum()), rel=1e-9)
    one = implicit_terms(model, graph, FullGraph(), batches=2, on_batch=lambda _, g: each.append(g))
    # ḡ²/(|ḡ| + ε) is |ḡ| but for ε at most.
    assert one.adam_norm == pytest.approx(float(each[-1].double().abs().sum()), abs=1e-8 * len(each[-1]), rel=1e-9)


@pytest.mark.parametrize("beta", [0.5, 0.8])
def test_momentum_factor_by_measurement(beta: float) -> None:
    """A heavy-ball step that starts on the modified flow leaves it at third order; without the factor, at second."""
    losses = [lambda w: (torch.sin(w) + torch.exp(0.3 * w)).sum() + w.prod()]
    w = torch.tensor([0.4, -0.3], dtype=torch.float64)
    steps = [0.02 * 2.0**-k for k in range(4)]
    errors: dict[str, list[float]] = {"right": [], "plain": []}
    for step in steps:
        for name, factor in (("right", beta), ("plain", 0.0)):
            lr = step * (1 - beta)
            right = regulariser_coefficients(lr, beta, 1) if factor else regulariser_coefficients(step)
            field = partial(modified_field, losses, by=Coefficients(*right))
            before, after = flow(field, w, -step), flow(field, w, step)
            walked = w + lr * modified_field(losses, w, Coefficients()) + beta * (w - before)
            errors[name].append(float((walked - after).norm()))
    assert slope(steps, errors["right"]) == pytest.approx(3, abs=0.1)
    assert slope(steps, errors["plain"]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("name", [*MODELS])
def test_nothing_is_drawn_without_dropout(name: str) -> None:
    """Each rate that a backbone takes, at a half: the losses of two steps differ outside, and are the same inside."""
    graph = small_graph()
    batch = next(FullGraph().epoch(graph, 0, 0))
    rates = [option for option in model_defaults(name) if "dropout" in option]
    for rate in rates:
        options = {**dict.fromkeys(rates, 0.0), rate: 0.5}
        model = make_model(name, graph.num_features, graph.num_outputs, hidden=8, layers=2, **options).train()

        def step(seed: int, model: torch.nn.Module = model) -> torch.Tensor:
            seed_step(model, seed)
            torch.manual_seed(seed)
            return batch_loss(model, batch)

        assert not torch.equal(step(1), step(2)), rate
        still = without_dropout(model)
        assert torch.equal(step(1, still), step(2, still)), rate


def test_a_watch_does_not_disturb_training() -> None:
    graph = small_graph()
    options = {"epochs": 4, "lr": 0.01, "seed": 5}
    watched, alone = model_of(graph, dropout=0.5), model_of(graph, dropout=0.5)
    watch = ImplicitWatch(every=2, batches=6)
    hf.fit(watched, graph, RandomNodes(3), callbacks=[watch], **options)
    hf.fit(alone, graph, RandomNodes(3), **options)
    assert [epoch for epoch, _ in watch.history] == [0, 2, 4]
    assert all(
        torch.equal(a, b) for a, b in zip(watched.state_dict().values(), alone.state_dict().values(), strict=True)
    )
    fresh = model_of(graph, dropout=0.5)
    assert watch.history[0][1].full_loss == pytest.approx(full_loss(fresh, graph))
    assert watch.history[-1][1].full_loss < watch.history[0][1].full_loss
