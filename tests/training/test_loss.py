"""Losses against torch's own, class weights against scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

import handful as hf
from graphs import make_graph
from handful.training.loss import balanced_weights, losses_of, node_loss, node_losses
from small import Last, assert_close_weights, small_sage, train_by_hand


def test_two_logits_and_their_difference_as_one_give_the_same_loss() -> None:
    logits, y = torch.randn(20, 2), torch.randint(0, 2, (20,))
    torch.testing.assert_close(node_loss(logits, y), node_loss(logits[:, 1:] - logits[:, :1], y))


def test_mean_or_weighted_sum() -> None:
    logits, y, weight = torch.randn(20, 5), torch.randint(0, 5, (20,)), torch.rand(20)
    torch.testing.assert_close(node_loss(logits, y), F.cross_entropy(logits, y))
    torch.testing.assert_close(node_loss(logits, y, weight), (node_losses(logits, y) * weight).sum())


def test_half_precision_logits_are_widened_first() -> None:
    logits, y = torch.randn(10, 3).bfloat16(), torch.randint(0, 3, (10,))
    assert node_loss(logits, y).dtype == torch.float32


def test_class_weights_are_those_of_torch() -> None:
    logits, y, share = torch.randn(30, 4), torch.randint(0, 4, (30,)), torch.tensor([0.5, 1.0, 2.0, 0.0])
    torch.testing.assert_close(node_loss(logits, y, class_weight=share), F.cross_entropy(logits, y, weight=share))
    weight = torch.rand(30)
    by_hand = sum(float(weight[v] * share[y[v]] * F.cross_entropy(logits[v], y[v])) for v in range(30))
    assert float(node_loss(logits, y, weight, share)) == pytest.approx(by_hand, rel=1e-5)


def test_class_weights_with_one_logit() -> None:
    logits, y, share = torch.randn(30, 1), torch.randint(0, 2, (30,)), torch.tensor([0.5, 3.0])
    two = torch.cat([torch.zeros_like(logits), logits], 1)
    torch.testing.assert_close(node_loss(logits, y, class_weight=share), F.cross_entropy(two, y, weight=share))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_balanced_weights_are_those_of_scikit_learn(classes: int) -> None:
    graph = make_graph(60, classes=classes)
    train = graph.train_nodes
    few = torch.cat([train[:9], train[(graph.y[train] == 1)]])  # a class that stands out
    graph = graph.replace(train_mask=few.unique())
    y = graph.y[graph.train_nodes].numpy()
    present = np.unique(y)
    expected = np.zeros(classes)
    expected[present] = compute_class_weight("balanced", classes=present, y=y)
    assert balanced_weights(graph).tolist() == pytest.approx(expected.tolist())


def unequal() -> hf.Graph:
    graph = make_graph(120)
    train = graph.train_nodes
    return graph.replace(train_mask=torch.cat([train[graph.y[train] == 0], train[:10]]).unique())


@pytest.mark.parametrize("given", ["balanced", [0.5, 1.0, 2.0, 4.0], torch.tensor([1.0, 0.0, 2.0, 1.0])], ids=str)
def test_training_with_class_weights_is_training_with_torchs(given: Any) -> None:
    graph, last = unequal(), Last()
    hf.fit(
        small_sage(graph, norm="none"), graph, hf.RandomNodes(2), epochs=3, lr=0.1, optimizer="sgd",
        class_weight=given, trim=False, callbacks=[last],
    )  # fmt: skip
    if isinstance(given, str):
        y = graph.y[graph.train_nodes].numpy()
        given = compute_class_weight("balanced", classes=np.arange(4), y=y)
    share = torch.as_tensor(given, dtype=torch.float32)

    def weighted(logits: Tensor, y: Tensor) -> Tensor:
        each = -logits.log_softmax(1).gather(1, y[:, None])[:, 0]
        return (share[y] * each).sum() / share[y].sum()

    model = small_sage(graph, norm="none")
    step = SGD(model.parameters(), lr=0.1)
    assert_close_weights(last.weights, train_by_hand(model, graph, hf.RandomNodes(2), step, epochs=3, loss=weighted))


def margins(logits: Tensor, y: Tensor) -> Tensor:
    """A loss that torch has, one value per node."""
    return F.multi_margin_loss(logits, y, reduction="none")


def test_training_with_ones_own_loss_is_training_with_it(graph: hf.Graph) -> None:
    last = Last()
    hf.fit(
        small_sage(graph, norm="none"), graph, hf.RandomNodes(2), epochs=3, lr=0.1, optimizer="sgd", loss=margins,
        trim=False, callbacks=[last],
    )  # fmt: skip
    model = small_sage(graph, norm="none")
    step, loss = SGD(model.parameters(), lr=0.1), F.multi_margin_loss
    assert_close_weights(last.weights, train_by_hand(model, graph, hf.RandomNodes(2), step, epochs=3, loss=loss))


def test_a_loss_must_give_a_value_for_every_node() -> None:
    logits, y = torch.randn(5, 3), torch.zeros(5, dtype=torch.long)
    for wrong in (F.cross_entropy, lambda logits, y: logits):
        with pytest.raises(hf.HandfulError, match=r"loss must give one value per node, shape \(5,\), got"):
            node_loss(logits, y, losses=wrong)


def test_several_numbers_count_alike_in_their_own_units() -> None:
    rng = np.random.default_rng(0)
    y = (rng.normal(size=(40, 2)) * [1, 1000] + [5, -3]).astype(np.float32)
    y[3, 0] = np.nan
    graph = hf.Graph.from_edge_index([[0], [1]], 40, x=np.zeros((40, 1), np.float32), y=y, train_mask=range(30))
    outputs = torch.from_numpy(rng.normal(size=(30, 2)).astype(np.float32))
    some = y[:30].astype(float)
    standard = (some - np.nanmean(some, 0)) / np.nanstd(some, 0)
    expected = np.nanmean((outputs.numpy() - standard) ** 2, 1)
    assert losses_of(graph)(outputs, torch.from_numpy(y[:30])).numpy() == pytest.approx(expected, rel=1e-4)
