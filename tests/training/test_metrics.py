"""The metrics against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torchmetrics
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from handful import Graph, HandfulError
from handful.graph import METRICS_OF
from handful.training.metrics import (
    METRICS,
    Metric,
    accuracy,
    average_precision,
    metric_of_record,
    own_metric,
    predict_classes,
    roc_auc,
)

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


def test_metrics_of_classes_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 4):
        y = rng.integers(0, classes, 80)
        logits = torch.from_numpy(rng.normal(size=(80, 1 if classes == 2 else classes)))
        guess = predict_classes(logits).numpy()
        truth = torch.from_numpy(y)
        assert np.isclose(METRICS["balanced_accuracy"](logits, truth), balanced_accuracy_score(y, guess))
        assert np.isclose(METRICS["macro_f1"](logits, truth), f1_score(y, guess, average="macro"))
    assert np.isclose(METRICS["f1"](torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([1, 0, 1])), 0.5)


def test_metrics_of_labels_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y, scores = rng.integers(0, 2, (50, 3)), rng.normal(size=(50, 3))
    labels, logits = torch.from_numpy(y).float(), torch.from_numpy(scores)
    assert np.isclose(METRICS["roc_auc"](logits, labels), roc_auc_score(y, scores))
    assert np.isclose(METRICS["average_precision"](logits, labels), average_precision_score(y, scores))
    assert np.isclose(METRICS["macro_f1"](logits, labels), f1_score(y, scores > 0, average="macro"))
    unknown = torch.full((50, 1), torch.nan)
    more = torch.cat([labels, unknown], 1), torch.cat([logits, logits[:, :1]], 1)
    assert METRICS["roc_auc"](more[1], more[0]) == METRICS["roc_auc"](logits, labels)  # a label that nobody has


def test_metrics_of_numbers_against_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=40).astype(np.float32)
    guess = y + rng.normal(size=40).astype(np.float32)
    truth, outputs = torch.from_numpy(y), torch.from_numpy(guess)[:, None]
    for name, judge in (("r2", r2_score), ("mae", mean_absolute_error), ("rmse", root_mean_squared_error)):
        assert np.isclose(METRICS[name](outputs, truth), judge(y, guess), rtol=1e-5)
    assert math.isnan(METRICS["r2"](outputs, torch.ones(40)))


def test_every_kind_of_labels_has_its_metrics() -> None:
    assert set(METRICS) == {name for names in METRICS_OF.values() for name in names}
    assert [METRICS[names[0]].higher_is_better for names in METRICS_OF.values()] == [True] * 4


def two_classes(positive: int) -> tuple[Graph, torch.Tensor]:
    y = torch.tensor([0, 1, 1, 0, 1, 1])
    graph = Graph.from_edge_index([[0], [1]], x=torch.zeros(6, 1), y=y, train_mask=[0], positive=positive)
    return graph, torch.tensor([[-2.0], [1.0], [0.5], [0.4], [-0.3], [2.0]])


def test_metrics_of_ones_own_get_probabilities_of_the_positive_class() -> None:
    for positive in (0, 1):
        graph, logits = two_classes(positive)
        nodes = torch.ones(6, dtype=torch.bool)
        seen = []

        def area(p: torch.Tensor, y: torch.Tensor, seen: list[object] = seen) -> float:
            seen.append((p, y))
            return float(roc_auc_score(y, p))

        expected = METRICS["roc_auc"].of(logits, graph, nodes)
        assert own_metric(area).of(logits, graph, nodes) == pytest.approx(expected)
        assert seen[0][0].shape == (6,)  # type: ignore[index]
        assert seen[0][1].sum() == (4 if positive else 2)  # type: ignore[index]
        theirs = own_metric(torchmetrics.AveragePrecision(task="binary"))
        for _ in range(2):  # it does not add up what it saw before
            assert theirs.of(logits, graph, nodes) == pytest.approx(
                METRICS["average_precision"].of(logits, graph, nodes)
            )


def test_a_metric_knows_its_direction() -> None:
    assert own_metric(torchmetrics.MeanAbsoluteError()).better(0.1, than=0.2)
    with pytest.raises(HandfulError, match="set its higher_is_better"):
        own_metric(torchmetrics.MeanMetric())
    with pytest.raises(HandfulError, match="metric takes a name, a function"):
        own_metric(3)
    graph, logits = two_classes(1)
    with pytest.raises(HandfulError, match=r"metric <lambda> cannot be computed from prediction \(6,\)"):
        own_metric(lambda p, y: p @ torch.ones(9)).of(logits, graph, torch.ones(6, dtype=torch.bool))


def test_a_metric_is_written_as_people_read_it() -> None:
    assert METRICS["roc_auc"].text(0.5) == "50.00"
    assert (METRICS["mae"].text({"mean": 3.14159, "ci95": 0.5}), METRICS["mae"].label("val")) == (
        "3.142 ± 0.5",
        "val MAE",
    )
    assert metric_of_record("mine", higher_is_better=False).better(1, than=2)


def test_several_numbers_are_averaged_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(5)
    y, guess = rng.normal(size=(50, 3)) * [1, 10, 100], rng.normal(size=(50, 3)) * [1, 10, 100]
    expected = {"r2": r2_score, "mae": mean_absolute_error, "rmse": root_mean_squared_error}
    for name, function in expected.items():
        found = METRICS[name](torch.from_numpy(guess), torch.from_numpy(y))
        assert found == pytest.approx(function(y, guess, multioutput="uniform_average"))
    y[:20, 1] = np.nan  # a number is judged by the nodes where it is known
    for name, function in expected.items():
        parts = [function(y[~np.isnan(y[:, k]), k], guess[~np.isnan(y[:, k]), k]) for k in range(3)]
        assert METRICS[name](torch.from_numpy(guess), torch.from_numpy(y)) == pytest.approx(np.mean(parts))
