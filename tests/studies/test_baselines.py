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


def test_wide_sparse_features_keep_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sparse inputs of a linear model are those of a dense computation, and find what principal components lose."""
    rng = np.random.default_rng(3)
    monkeypatch.setattr(baselines, "COLUMNS", 8)
    graph = looped()
    x = np.where(rng.random((60, 40)) < 0.1, rng.random((60, 40)), 0).astype(np.float32)
    made = _Columns(graph.replace(x=x))
    own, near = (made.linear(which).toarray() for which in (False, True))
    mean = np.zeros((60, 60), np.float32)
    np.add.at(mean, tuple(graph.edge_index.numpy()[::-1]), graph.edge_weight.numpy())
    mean /= np.maximum(mean.sum(1, keepdims=True), 1e-12)
    fitted = graph.train_nodes.numpy()
    blocks = [one * np.sqrt(8 / one[fitted].var(0).sum()) for one in (x, mean @ x, mean @ (mean @ x))]
    assert np.allclose(own, blocks[0], atol=1e-4)
    assert np.allclose(near, np.hstack([*blocks, made.around.numpy()]), atol=1e-4)
    monkeypatch.setattr(baselines, "PRODUCTS", 10)
    assert torch.equal(made.linear(True), made.table(True))

    y = rng.integers(0, 2, 1000)
    words = rng.random((1000, 400)) < 0.02  # two rare words decide; 8 components do not hold them
    words[:, :2] |= np.eye(2, dtype=bool)[y]
    wide = hf.Graph.from_edge_index([[0], [1]], 1000, y=y, x=words.astype(np.float32) * np.r_[0.2, 0.2, np.ones(398)])
    wide = wide.replace(**hf.datasets.splits.random_split(1000, (0.5, 0.25, 0.25), 0))
    tests = {one.name: one.test for one in run_baselines(wide, METRICS["accuracy"])[0]}
    assert tests["logistic regression, own columns"] > 0.9


def test_both_directions_of_the_edges_are_a_baseline_of_a_directed_graph() -> None:
    """Edges begin at nodes without a training label, so that no label follows an edge."""
    nodes = np.arange(400)
    ends = np.stack([nodes[200:], nodes[:200]])
    masks = {"train_mask": nodes < 200, "val_mask": (nodes >= 200) & (nodes < 300), "test_mask": nodes >= 300}
    fields = {"x": np.zeros((400, 1)), "y": nodes % 2, **masks}
    graph = Graph.from_edge_index(ends, 400, **fields)
    metric = METRICS["accuracy"]
    found = {one.name: one for one in run_baselines(graph, metric)[0]}
    assert found["label propagation"].test == pytest.approx(0.5)
    assert found[baselines.BOTH].test == 1
    assert "--undirected" in say_added("SAGE", 0.6, 0.01, [*found.values()], metric)
    assert "--undirected" not in say_added("SAGE", 0.6, 0.6, [*found.values()], metric)  # within the noise
    assert baselines.BOTH not in [one.name for one in run_baselines(graph.to_undirected(), metric)[0]]


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


def test_a_rare_class_comes_with_the_metric_for_it() -> None:
    metric = METRICS["accuracy"]
    for share, rare in ((0.97, True), (0.6, False)):
        found = [Baseline("majority class", False, share, share, 0.0)]
        assert ("average_precision" in say_added("GraphSAGE", share, 0.01, found, metric)) == rare


def test_sparse_features_have_the_baselines_of_dense_ones() -> None:
    graph = make_graph(300, features=300)
    assert graph.x is not None
    kept = torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(0)) < 0.02
    full = graph.replace(x=torch.where(kept, 3 * graph.x, 0.0))
    assert full.x is not None
    thin = full.replace(x=full.x.to_sparse_csr())
    made, wanted = _Columns(thin), _Columns(full)
    for near in (False, True):
        np.testing.assert_allclose(made.linear(near).toarray(), wanted.linear(near).toarray(), rtol=1e-5, atol=1e-6)
        # The sign of a principal component is arbitrary.
        tables = [one.table(near)[:, :256].abs() for one in (made, wanted)]
        torch.testing.assert_close(*tables, rtol=1e-2, atol=1e-2)
    assert torch.equal(made._most_varied(40), wanted._most_varied(40))
    found, known = ({one.name: one for one in run_baselines(g, METRICS["accuracy"])[0]} for g in (thin, full))
    assert list(found) == list(known)
    for name in found:  # a tree may turn at a difference of rounding
        assert found[name].val == pytest.approx(known[name].val, abs=1e-6 if "regression" in name else 0.05)


@pytest.mark.parametrize("seed", range(4))
def test_principal_components_of_features_that_depend_on_each_other(seed: int) -> None:
    """There are fewer nodes than features, and many features are 0."""
    graph = make_graph(319, features=800)
    rng = torch.Generator().manual_seed(seed)
    assert graph.x is not None
    kept = (torch.rand(graph.x.shape, generator=rng) < 0.005) & (torch.rand(800, generator=rng) < 0.7)
    made = _Columns(graph.replace(x=torch.where(kept, graph.x, 0.0)))
    assert made.own.shape == (319, 256)
    assert bool(made.own.isfinite().all())
