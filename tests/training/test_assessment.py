"""Per-class scores, confusions, calibration and thresholds against scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    roc_curve,
)

from handful import Graph, HandfulError
from handful.training.assessment import (
    Decision,
    assess_average,
    assessment,
    averaged,
    best_threshold,
    calibrate,
    interval,
)
from handful.training.metrics import METRICS


def labelled(y: object, **fields: object) -> Graph:
    n = len(y)  # type: ignore[arg-type]
    third = torch.arange(n) % 3
    masks = {name: third == k for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    return Graph.from_edge_index([[0], [1]], n, x=torch.zeros(n, 1), y=y, **masks, **fields)  # type: ignore[arg-type]


def test_two_classes_are_judged_by_the_one_that_is_named() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(600) > 0.1).astype(int)
    logits = torch.from_numpy(1.2 * y + rng.normal(size=600)).float()[:, None]
    graph = labelled(y, class_names=("fraud", "ok"))
    assert graph.positive == 0
    found = assessment(logits, graph, Decision("binary", 0, 0.3))
    test = graph.test_mask.numpy()
    fraud, p = (y == 0)[test], (1 - torch.sigmoid(logits[:, 0].double()).numpy())[test]
    assert found.metrics["average_precision"]["test"] == pytest.approx(average_precision_score(fraud, p))
    points = np.array(found.ranking)
    rates = np.stack(roc_curve(fraud, p, drop_intermediate=False)[:2], 1)
    assert {tuple(pair) for pair in points[:, :2]} <= {tuple(pair) for pair in rates}
    assert np.trapezoid(points[:, 1], points[:, 0]) == pytest.approx(roc_auc_score(fraud, p), abs=0.01)
    assert points[-1, 2] == pytest.approx(fraud.mean())
    ok = labelled(y, class_names=("fraud", "ok"), positive="ok")
    of_ok = assessment(logits, ok, Decision("binary")).metrics["average_precision"]["test"]
    assert of_ok == pytest.approx(average_precision_score(y[test], logits[test, 0]))
    assert of_ok > 0.9 > found.metrics["average_precision"]["test"]
    guess = np.where(p >= 0.3, 0, 1)
    assert found.metrics["accuracy"]["test"] == pytest.approx((guess == y[test]).mean())  # the metrics of the decisions
    assert found.metrics["f1"]["test"] == pytest.approx(f1_score(y[test], guess, pos_label=0))
    assert found.confusion == confusion_matrix(y[test], guess).tolist()
    precision, recall, f1, support = precision_recall_fscore_support(y[test], guess)
    for c, one in enumerate(found.classes):
        assert (one["precision"], one["recall"], one["f1"]) == pytest.approx((precision[c], recall[c], f1[c]))
        assert one["test"] == support[c]
    share, confidence = calibration_curve(fraud, p, n_bins=10)
    assert [b["share"] for b in found.calibration] == pytest.approx(share.tolist())
    assert [b["confidence"] for b in found.calibration] == pytest.approx(confidence.tolist())
    sure = [one["probability"] for one in found.mistakes]
    assert sure == sorted(sure, reverse=True)
    assert all((one["true"], one["predicted"]) in (("fraud", "ok"), ("ok", "fraud")) for one in found.mistakes)


def test_many_classes() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 300)
    logits = torch.from_numpy(np.eye(4)[y] + rng.normal(size=(300, 4)))
    graph = labelled(y)
    found, test = assessment(logits, graph, Decision.on(graph)), graph.test_mask.numpy()
    guess = logits.numpy()[test].argmax(1)
    assert found.confusion == confusion_matrix(y[test], guess).tolist()
    assert (found.positive, found.threshold) == (None, None)
    assert found.metrics["macro_f1"]["test"] == pytest.approx(f1_score(y[test], guess, average="macro"))
    wrong = {int(node) for node in np.flatnonzero(test)[guess != y[test]]}
    assert {one["node"] for one in found.mistakes} <= wrong
    assert 0 < found.calibration_error < 1


def test_numbers_and_labels() -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=90)
    numbers = labelled(y)
    found = assessment(torch.from_numpy(y[:, None] + 0.1), numbers, Decision("regression"))
    test = numbers.test_mask.numpy()
    assert found.metrics["mae"]["test"] == pytest.approx(0.1, abs=1e-5)
    assert found.metrics["r2"]["test"] == pytest.approx(r2_score(y[test], y[test] + 0.1))
    assert len(found.points) == 30
    assert abs(found.mistakes[0]["error"]) == pytest.approx(0.1, abs=1e-5)
    labels = rng.integers(0, 2, (90, 3)).astype(float)
    logits = torch.from_numpy(labels + rng.normal(size=(90, 3)))
    found = assessment(logits, labelled(labels, class_names=("a", "b", "c")), Decision("multilabel"))
    for k, one in enumerate(found.classes):
        expected = average_precision_score(labels[test, k], logits.numpy()[test, k])
        assert one["average_precision"] == pytest.approx(expected)
        assert one["train"] == labels[numbers.train_mask.numpy(), k].sum()
    assert found.confusion == []


def test_without_test_nodes_those_of_validation_are_judged() -> None:
    graph = labelled([0, 1, 2, 0, 1, 2]).replace(test_mask=None)
    assert assessment(torch.zeros(6, 3), graph, Decision.on(graph)).nodes == "val"
    with pytest.raises(HandfulError, match="threshold is a probability"):
        assessment(torch.zeros(6, 3), graph, Decision("multiclass", threshold=7))


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


@pytest.mark.parametrize("positive", [0, 1])
def test_metrics_are_those_of_the_decisions_also_by_f1_and_class_weights(positive: int) -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(900) < 0.3).astype(int)
    seeds = [torch.from_numpy(1.5 * y - 0.5 + rng.normal(size=900)).float()[:, None] for _ in range(3)]
    graph, weight = labelled(y, positive=positive), torch.tensor([0.7, 1.6])
    test = graph.test_mask.numpy()
    for by_f1 in (False, True):
        found, decision = assess_average(seeds, graph, by_f1, weight)
        guess = decision.pick(decision.values(averaged(seeds, decision)).numpy())[test]
        assert found.metrics["accuracy"]["test"] == pytest.approx((guess == y[test]).mean())
        assert found.metrics["f1"]["test"] == pytest.approx(f1_score(y[test], guess, pos_label=positive))
        nodes = graph.test_mask.nonzero().squeeze(1)
        low, high = interval(seeds, graph, METRICS["accuracy"], nodes, decision)
        assert low < found.metrics["accuracy"]["test"] < high


@pytest.mark.parametrize("classes", [2, 4])
def test_a_calibration_is_the_minimum_of_its_loss(classes: int) -> None:
    """The minimum is found by SciPy, without gradients of ours."""
    rng = np.random.default_rng(2)
    true = rng.normal(size=(900, classes)) + np.arange(classes)
    y = np.array([rng.choice(classes, p=np.exp(row) / np.exp(row).sum()) for row in true])
    models = [2.5 * (true + rng.normal(0, 0.3, true.shape)) - 2 * np.arange(classes) for _ in range(2)]
    if classes == 2:
        models = [np.diff(one, axis=1) for one in models]
    graph, outputs = labelled(y), [torch.from_numpy(one) for one in models]
    decision = calibrate(Decision.on(graph), outputs, graph)
    val = graph.val_mask.numpy()

    def loss(of: np.ndarray) -> float:
        made = []
        for one in models:
            logits = np.concatenate([np.zeros_like(one), one], axis=1) if classes == 2 else one
            logits = np.exp(of[0]) * logits[val] + of[1:]
            made.append(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))
        p = np.mean(made, axis=0)[np.arange(val.sum()), y[val]]
        return float(-np.log(p).sum() + (of**2).sum() / 2)

    best = minimize(loss, np.zeros(1 + classes)).fun
    found = np.array([np.log(decision.scale), *decision.bias])
    assert loss(found) == pytest.approx(best, rel=1e-5)
    assert best < loss(np.zeros(1 + classes)) - 10
    plain = assessment(averaged(outputs, Decision.on(graph)), graph, Decision.on(graph))
    result, chosen = assess_average(outputs, graph)
    assert chosen == decision
    assert result.calibration_error < 0.5 * plain.calibration_error  # type: ignore[operator]
    for weight in (None, torch.linspace(0.5, 2, classes)):
        result, decision = assess_average(outputs, graph, class_weight=weight)
        guess = decision.pick(decision.values(averaged(outputs, decision)).numpy())[graph.test_mask]
        assert result.metrics["accuracy"]["test"] == pytest.approx((guess == y[graph.test_mask]).mean())
        each = np.mean([decision.values(one).numpy() for one in outputs], axis=0)  # as predict averages
        assert np.allclose(decision.values(averaged(outputs, decision)).numpy(), each, atol=1e-6)
    broken = [torch.full_like(outputs[0], float("nan"))]
    assert calibrate(Decision.on(graph), broken, graph) == Decision.on(graph)


def test_a_class_without_training_nodes_is_measured_as_it_is_predicted() -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, 600)
    y[np.arange(600) % 3 == 0] %= 2  # no training node is of class 2
    graph, outputs = labelled(y, num_classes=3), [torch.from_numpy(rng.normal(size=(600, 3)) + np.eye(3)[y])]
    found, decision = assess_average(outputs, graph, class_weight=torch.tensor([1.2, 0.8, 0.0]))
    picked = decision.pick(decision.values(averaged(outputs, decision)).numpy())[graph.test_mask]
    right = (picked == y[graph.test_mask]).mean()
    assert found.metrics["accuracy"]["test"] == pytest.approx(right)
    assert np.trace(found.confusion) / np.sum(found.confusion) == pytest.approx(right)
    assert (picked == 2).any()


def test_if_all_nodes_are_positive_no_node_is_at_the_threshold() -> None:
    graph = labelled(np.ones(9, int), num_classes=2, positive=1)
    limit = best_threshold(torch.zeros(3, 1), graph)
    assert limit == pytest.approx(0.25)
    decision = replace(Decision.on(graph), threshold=limit)
    found = assessment(torch.zeros(9, 1), graph, decision)
    assert found.metrics["f1"]["test"] == found.classes[1]["f1"] == 1


def test_a_threshold_is_a_probability_and_one_class_needs_no_calibration() -> None:
    for threshold in (-1.0, 30.0, float("nan")):
        with pytest.raises(HandfulError, match="probability"):
            Decision("binary", threshold=threshold)
    graph = labelled([0] * 9, num_classes=1)
    assert calibrate(Decision.on(graph), [torch.zeros(9, 1)], graph) == Decision.on(graph)


def test_few_validation_nodes_calibrate_little() -> None:
    graph = labelled([0, 1, 2, 0, 1, 2])
    decision = calibrate(Decision.on(graph), [torch.zeros(6, 3)], graph)
    assert 0.5 < decision.scale < 2
    assert max(map(abs, decision.bias)) < 1
    none = graph.replace(val_mask=torch.zeros(6, dtype=torch.bool))
    assert calibrate(Decision.on(none), [torch.zeros(6, 3)], none) == Decision.on(none)
    assert calibrate(Decision("regression"), [torch.zeros(6, 1)], graph) == Decision("regression")


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
