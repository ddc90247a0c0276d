"""From outputs to probabilities and classes, against scikit-learn and the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from handful import Graph
from handful.training.decision import Decision, best_threshold


def test_one_logit_is_two_classes() -> None:
    logits = torch.tensor([[2.0], [-1.0]])
    values = Decision("binary").values(logits)
    assert torch.allclose(values[:, 1], logits[:, 0].sigmoid())
    assert torch.allclose(values.sum(1), torch.ones(2))


@pytest.mark.parametrize("positive", [0, 1])
def test_class_weights_change_the_probabilities_and_not_the_decision(positive: int) -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 1)))
    graph = Graph.from_edge_index([[0], [1]], y=[0, 1], positive=positive)
    decision = Decision.on(graph, torch.tensor([0.6, 3.0]))
    values = decision.values(logits)
    odds = logits.exp()[:, 0] * 0.6 / 3.0
    assert torch.allclose(values[:, 1], odds / (1 + odds))
    assert np.array_equal(decision.pick(values.numpy()), (logits[:, 0] > 0).numpy())


def test_of_many_classes_the_weighted_one_is_picked() -> None:
    logits = torch.from_numpy(np.random.default_rng(1).normal(size=(200, 3)))
    decision = Decision("multiclass", class_weight=(0.5, 1.0, 4.0))
    values = decision.values(logits)
    assert np.array_equal(decision.pick(values.numpy()), logits.argmax(1).numpy())
    assert (values.argmax(1) != logits.argmax(1)).any()


def test_the_threshold_has_the_best_f1_on_validation() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(300) < 0.2).astype(int)
    logits = torch.from_numpy(np.round(y + rng.normal(size=300), 1)).float()[:, None]
    val = np.arange(300) % 3 == 1
    graph = Graph.from_edge_index([[0], [1]], 300, y=y, val_mask=val, train_mask=~val)
    p = torch.sigmoid(logits.double()).numpy()[val, 0]
    best = max(f1_score(y[val], p >= t) for t in np.unique(p))
    assert f1_score(y[val], p >= best_threshold(logits[val], graph)) == best > f1_score(y[val], p >= 0.5)
    none = graph.replace(y=np.zeros(300, int), num_classes=2, positive=1)
    assert best_threshold(logits[val], none) == 0.5
