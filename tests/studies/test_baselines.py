"""Baselines: no label reaches its own row, every task has them, and the sentence says what is added."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score

import handful as hf
from graphs import make_graph, make_numbers
from handful.graph import Graph
from handful.studies import baselines
from handful.studies.baselines import (
    Baseline,
    _Columns,
    best_of,
    kept_baselines,
    neighbour_labels,
    prior,
    propagate_labels,
    run_baselines,
    say_added,
)
from handful.training.metrics import METRICS


def looped(seed: int = 0) -> Graph:
    """A directed graph with weights, loops, and nodes without edges or labels."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 50, (2, 200))
    ends[1, :20] = ends[0, :20]
    y = rng.integers(-1, 3, 60)
    train = (y >= 0) & (rng.random(60) < 0.6)
    val = (y >= 0) & ~train
    fields = {"edge_weight": rng.random(200), "x": rng.normal(size=(60, 5)), "y": y, "num_classes": 3}
    return Graph.from_edge_index(ends, 60, **fields, train_mask=train, val_mask=val)


def test_a_label_never_reaches_its_own_row() -> None:
    graph = looped()
    before = _Columns(graph).with_neighbours
    for node in graph.train_nodes.tolist():
        y = graph.y.clone()
        y[node] = (y[node] + 1) % 3
        other = graph.replace(y=y, num_classes=3)
        after = _Columns(other).with_neighbours
        own = neighbour_labels(graph)[1][node] > 0  # else it is the mean of all
        assert not own or torch.equal(after[node], before[node])
        fed = graph.without_loops()
        receivers = fed.edge_index[1][fed.edge_index[0] == node]
        if len(receivers):
            assert not torch.equal(after[receivers], before[receivers])


def test_mean_labels_of_neighbours_by_hand() -> None:
    graph = looped()
    found, share = neighbour_labels(graph)
    source, target = graph.without_loops().edge_index
    weight = graph.without_loops().edge_weight
    for node in range(60):
        near = [(int(u), float(w)) for u, w in zip(source[target == node], weight[target == node], strict=True)]
        known = [(int(graph.y[u]), w) for u, w in near if graph.train_mask[u]]
        sums = [sum(w for c, w in known if c == k) for k in range(3)]
        mean = np.array(sums) / sum(sums) if known else prior(graph)[0].numpy()
        assert np.allclose(found[node], mean, atol=1e-5)
        assert np.isclose(float(share[node]), sum(sums) / max(sum(w for _, w in near), 1e-9), atol=1e-5)


def test_labels_are_propagated_along_a_path() -> None:
    ends = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph.from_edge_index(ends, 4, x=np.zeros((4, 1)), y=[0, 0, 1, 1], train_mask=[0, 2], test_mask=[1, 3])
    assert torch.allclose(propagate_labels(graph), torch.tensor([[1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]]))


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "roc_auc"])
def test_the_majority_is_that_of_scikit_learn(metric: str) -> None:
    graph = make_graph(300, classes=2)
    found, notes = run_baselines(graph, METRICS[metric])
    assert notes == []
    assert len(found) == 6
    assert all(0 <= one.test <= 1 for one in found)
    y, train, test = graph.y.numpy(), graph.train_mask.numpy(), graph.test_mask.numpy()
    if metric == "accuracy":
        dummy = DummyClassifier().fit(y[train][:, None], y[train])
        assert np.isclose(found[0].test, dummy.score(y[test][:, None], y[test]))


def test_what_tells_the_class_is_found() -> None:
    """Features that tell it are found without the graph; of features of neighbours alone the graph is needed."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 800)
    pairs = np.arange(800).reshape(-1, 2).T
    graph = hf.Graph.from_edge_index(pairs, 800, y=y, x=rng.normal(size=(800, 3))).to_undirected()
    graph = graph.replace(**hf.datasets.splits.random_split(800, (0.5, 0.25, 0.25), 0))
    told = rng.normal(size=(800, 3)).astype(np.float32)
    told[:, 0] += 4 * y
    own = {one.name: one.test for one in run_baselines(graph.replace(x=told), METRICS["accuracy"])[0]}
    assert own["logistic regression, own columns"] > 0.9
    partner = told[np.arange(800) ^ 1]
    near = {one.name: one.test for one in run_baselines(graph.replace(x=partner), METRICS["accuracy"])[0]}
    assert near["logistic regression, own columns"] < 0.6
    assert near["logistic regression, own and neighbours' columns"] > 0.9


def test_numbers_and_several_labels() -> None:
    numbers, _ = run_baselines(make_numbers(), METRICS["r2"])
    assert numbers[0].name == "mean"
    assert numbers[0].test <= 0  # the mean of other nodes is no better than that of the test nodes
    assert max(one.test for one in numbers) > 0.5
    several = make_graph(200, classes=3)
    y = torch.nn.functional.one_hot(several.y, 3).float()
    y[::7, 1] = torch.nan
    found, _ = run_baselines(several.replace(y=y, task="multilabel", class_names=None), METRICS["roc_auc"])
    assert [one.name for one in found][-1].startswith("ridge regression, own and neighbours'")
    assert found[-1].test > found[0].test


def test_wide_and_large_graphs_are_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NODES", 50), ("COLUMNS", 3)):
        monkeypatch.setattr(baselines, name, value)
    found, notes = run_baselines(make_graph(300), METRICS["accuracy"])
    assert "50 of" in notes[0]
    assert "3 principal components" in notes[1]
    assert len(found) == 6
    monkeypatch.setattr(baselines, "LARGEST", 10)
    fewer, notes = run_baselines(make_graph(300), METRICS["accuracy"])
    assert len(fewer) == 4
    assert "memory" in notes[0]


def test_gradient_boosting_that_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "BOOSTED", 10)
    found, notes = run_baselines(make_graph(100), METRICS["accuracy"])
    assert not any("boosting" in one.name for one in found)
    assert ["gradient boosting" in note for note in notes] == [True, True]


def test_balanced_classes_are_those_of_scikit_learn() -> None:
    graph = make_graph(300, classes=2)
    y, x, train, test = (getattr(graph, name).numpy() for name in ("y", "x", "train_mask", "test_mask"))
    rare = train & ((y == 0) | (np.arange(300) % 5 == 0))
    graph = graph.replace(train_mask=torch.from_numpy(rare))
    plain, balanced = (
        {one.name: one.test for one in run_baselines(graph, METRICS["balanced_accuracy"], on)[0]}
        for on in (False, True)
    )
    few = {"max_iter": 40, "learning_rate": 0.25, "max_bins": 63, "class_weight": "balanced"}
    guess = HistGradientBoostingClassifier(**few).fit(x[rare], y[rare]).predict(x[test])
    assert balanced["gradient boosting, own columns"] == pytest.approx(balanced_accuracy_score(y[test], guess))
    assert plain != balanced


def test_what_is_kept_is_not_trained_again(tmp_path: Path) -> None:
    graph, path = make_graph(100), tmp_path / "baselines.json"
    graph = graph.replace(test_mask=torch.zeros(100, dtype=torch.bool))
    first = kept_baselines(path, graph, METRICS["accuracy"])
    assert str(kept_baselines(path, graph, METRICS["accuracy"])) == str(first)  # to the second, and with its NaN
    assert best_of(first[0], METRICS["accuracy"]) is not None


def test_without_scikit_learn_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn.ensemble", "sklearn.linear_model", "threadpoolctl"):
        monkeypatch.setitem(sys.modules, name, None)
    found, notes = run_baselines(make_graph(100), METRICS["accuracy"])
    assert [one.name for one in found] == ["majority class", "label propagation"]
    assert "handful[sklearn]" in notes[0]


def test_the_sentence_says_what_is_added_also_when_it_is_nothing() -> None:
    metric = METRICS["accuracy"]
    some = [
        Baseline("majority class", False, 0.3, 0.3, 0.0),
        Baseline("trees", False, 0.9, 0.9, 1.0),
        Baseline("near", True, 0.95, 0.94, 2.0),
    ]
    assert best_of(some, metric) is some[2]
    assert "adds 2.00 points to" in say_added("SAGE", 0.96, 0.01, some, metric)
    assert "adds nothing to" in say_added("SAGE", 0.945, 0.01, some, metric)
    assert "4.00 points worse" in say_added("SAGE", 0.90, 0.01, some, metric)
    assert "no better than the majority class" in say_added("SAGE", 0.3, 0.01, some, metric)
    assert "The graph adds nothing to trees" in say_added("SAGE", 0.905, 0.05, some, metric)
    errors = [Baseline("mean", False, 5.0, 5.0, 0.0), Baseline("near", True, 3.0, 3.0, 0.0)]
    assert "adds 1 of MAE" in say_added("SAGE", 2.0, 0.1, errors, METRICS["mae"])
