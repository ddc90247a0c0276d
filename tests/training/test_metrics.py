"""The metrics against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from handful.training.metrics import METRICS, Metric, accuracy, average_precision, roc_auc

cases = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=60)


@given(cases)
def test_average_precision_and_auc_with_ties(pairs: list[tuple[int, bool]]) -> None:
    score = torch.tensor([float(s) for s, _ in pairs])[:, None]
    y = torch.tensor([int(p) for _, p in pairs])
    if y.sum() in (0, len(y)):
        assert math.isnan(roc_auc(score, y))
        return
    assert np.isclose(average_precision(score, y), average_precision_score(y, score[:, 0]))
    assert np.isclose(roc_auc(score, y), roc_auc_score(y, score[:, 0]))
    two = torch.cat([torch.zeros_like(score), score], 1)
    assert np.isclose(average_precision(two, y), average_precision(score, y))


def test_accuracy_with_one_logit_and_with_many() -> None:
    y = torch.tensor([0, 1, 1, 0])
    assert accuracy(torch.tensor([[-1.0], [2.0], [-0.5], [-3.0]]), y) == 0.75
    assert accuracy(torch.tensor([[3.0, 1.0], [0.0, 1.0], [2.0, 1.0], [0.0, 1.0]]), y) == 0.5


def test_no_nodes_and_no_positives_are_nan() -> None:
    assert math.isnan(METRICS["accuracy"](torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)))
    assert math.isnan(average_precision(torch.randn(4, 1), torch.zeros(4, dtype=torch.long)))


def test_better_follows_the_direction_of_the_metric() -> None:
    up, down = Metric(accuracy), Metric(accuracy, higher_is_better=False)
    assert up.better(0.7, than=0.6)
    assert not up.better(0.6, than=0.6)
    assert down.better(0.5, than=0.6)
    assert not down.better(0.7, than=0.6)
    assert up.better(0.1, than=math.nan)
    assert not up.better(math.nan, than=0.1)
