"""The estimators: scikit-learn's own checks, and graphs, PyG data and tables in place of arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks

import handful as hf
from handful.cli.params import make_experiment, train_defaults
from handful.settings import ENOUGH

SMALL = {"hidden": 16, "layers": 2, "epochs": 30, "lr": 0.02, "dropout": 0.0, "sampler": "full"}


@pytest.mark.slow
@parametrize_with_checks([hf.NodeClassifier(**SMALL), hf.NodeRegressor(**SMALL | {"epochs": 100})])  # type: ignore[arg-type]
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [hf.NodeClassifier, hf.NodeRegressor])
def test_parameters_are_kept_and_cloned(kind: Any) -> None:
    given = kind(**SMALL, seeds=(1, 2))
    assert clone(given).get_params() == given.get_params()
    assert clone(given).set_params(hidden=4).hidden == 4
    with pytest.raises(NotFittedError):
        given.predict(np.zeros((2, 3)))


@pytest.fixture(scope="module")
def graph() -> hf.Graph:
    return hf.load("synthetic?nodes=300&degree=8&classes=3&features=8&signal=1")


def test_it_is_an_experiment(graph: hf.Graph) -> None:
    classifier = hf.NodeClassifier(**SMALL, seeds=(3, 4)).fit(graph)  # type: ignore[arg-type]
    asked = hf.Experiment(**SMALL, seeds=(3, 4), patience=ENOUGH["patience"])  # type: ignore[arg-type]
    models = [asked.make_model(graph, seed) for seed in asked.seeds]
    for seed, model in zip(asked.seeds, models, strict=True):
        hf.fit(model, graph, asked.sampler, asked.settings, seed=seed)
    mean = np.mean([hf.infer(model, graph).softmax(1).numpy() for model in models], axis=0)
    assert np.allclose(classifier.predict_proba(graph), mean, atol=1e-6)
    test = graph.test_mask.numpy()  # type: ignore[union-attr]
    assert classifier.score(graph) == (mean.argmax(1) == graph.y.numpy())[test].mean()  # type: ignore[union-attr]
    assert classifier.embed(graph).shape == (300, 16)


def test_its_defaults_are_those_of_train(graph: hf.Graph) -> None:
    usual = make_experiment("synthetic", {}, train_defaults({}))
    ours = hf.NodeClassifier(epochs=2).fit(graph).experiment_
    assert ours.options == usual.options
    assert ours.sampler == usual.sampler
    assert ours.settings == replace(usual.settings, epochs=2, label_features="no")
    chosen = hf.NodeClassifier(epochs=2, settings={"first_hop": "exact"}).fit(graph).experiment_.settings
    assert (chosen.first_hop, chosen.mean_field) == ("exact", 0.0)
    for model in ("gat", "graphland-sage"):  # without a mean field, and without options that the model lacks
        assert hf.NodeClassifier(model, epochs=1, hidden=8).fit(graph).predict(graph).shape == (300,)


def test_a_graph_of_pyg_and_labels_of_ones_own(graph: hf.Graph) -> None:
    data = hf.to_pyg(graph)
    names = np.array(["a", "b", "c"])[graph.y.numpy()].astype(object)  # type: ignore[union-attr]
    names[:50] = None
    del data.train_mask, data.val_mask, data.test_mask
    classifier = clone(hf.NodeClassifier(**SMALL)).fit(data, names)  # type: ignore[arg-type]
    assert classifier.classes_.tolist() == ["a", "b", "c"]
    assert set(classifier.predict(data)) <= {"a", "b", "c"}
    known = np.array([name is not None for name in names])
    assert (classifier.predict(data) == names)[known].mean() > 0.6


def test_tables_are_encoded_by_the_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.choice(["u", "v", "w"], 60)
    nodes = pa.table({"id": [f"n{i}" for i in range(60)], "kind": kind, "size": rng.normal(size=60), "label": kind})
    edges = pa.table({"source": [f"n{i}" for i in range(59)], "target": [f"n{i + 1}" for i in range(59)]})
    classifier = hf.NodeClassifier(**SMALL).fit((edges, nodes))  # type: ignore[arg-type]
    assert classifier.classes_.tolist() == ["u", "v", "w"]
    columns = hf.NodeClassifier(**SMALL).fit((edges.to_pydict(), nodes.to_pydict()))  # type: ignore[arg-type]
    assert columns.classes_.tolist() == ["u", "v", "w"]
    turned = nodes.select(["size", "kind", "id"]).slice(10, 30)
    inside = edges.slice(10, 29)
    first = classifier.predict((inside, turned))
    assert np.array_equal(first, classifier.predict((inside, nodes.slice(10, 30))))
    other = hf.datasets.importer.import_tables(inside, nodes.slice(10, 30))
    with pytest.raises(hf.HandfulError, match="is not as in training"):
        classifier.predict(other)


def test_it_can_be_searched_over() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = (x[:, 0] > 0).astype(int)
    search = GridSearchCV(hf.NodeClassifier(**SMALL), {"hidden": [4, 16]}, cv=2).fit(x, y)  # type: ignore[arg-type]
    assert search.best_score_ > 0.8


def test_mistakes(graph: hf.Graph) -> None:
    with pytest.raises(hf.HandfulError, match="has no labels: give them as y"):
        hf.NodeClassifier().fit(hf.Graph.from_edge_index([[0], [1]], x=np.eye(2, dtype=np.float32)))
    with pytest.raises(hf.HandfulError, match=r"y must have shape \(300,\)"):
        hf.NodeClassifier().fit(graph, [1, 2])


def test_numbers_are_learned(graph: hf.Graph) -> None:
    assert graph.x is not None
    number = (graph.x[:, 0] * 3 + 10).numpy().astype(float)
    number[:30] = np.nan
    regressor = hf.NodeRegressor(**SMALL | {"epochs": 150}).fit(
        graph.replace(y=None, class_names=None, num_classes=None), number
    )  # type: ignore[arg-type]
    known = ~np.isnan(number)
    assert np.corrcoef(regressor.predict(graph)[known], number[known])[0, 1] > 0.8
    with pytest.raises(hf.HandfulError, match="has no numbers to predict"):
        regressor.score(graph)


def test_balanced_weights_change_the_decision_and_not_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.15).astype(int)
    x = (y[:, None] + rng.normal(size=(600, 2))).astype(np.float32)
    how = {"hidden": 16, "layers": 1, "epochs": 60, "lr": 0.01}
    plain = hf.NodeClassifier(**how).fit(x, y)
    weighed = hf.NodeClassifier(**how, settings={"class_weight": "balanced"}).fit(x, y)
    assert weighed.predict_proba(x)[:, 1].mean() == pytest.approx(y.mean(), abs=0.05)
    assert weighed.predict(x).mean() > 1.5 * plain.predict(x).mean()
    share = weighed.decision_.class_weight[0] / sum(weighed.decision_.class_weight)
    assert np.array_equal(weighed.predict(x), weighed.predict_proba(x)[:, 1] >= np.float32(share))


@pytest.mark.parametrize("ids", [None, pytest.param("n", marks=pytest.mark.slow)])
def test_scikit_learn_splits_the_nodes_of_a_bound_graph(graph: hf.Graph, ids: str | None) -> None:
    names = None if ids is None else np.array([f"{ids}{i}" for i in range(300)])
    bound = hf.NodeClassifier(**SMALL, graph=graph.replace(ids=names))  # type: ignore[arg-type]
    assert graph.y is not None
    nodes = np.arange(300) if names is None else names
    y, folds = graph.y.numpy(), StratifiedKFold(2)
    scores = cross_val_score(bound, nodes, y, cv=folds)
    by_hand = []
    for train, test in folds.split(nodes, y):
        known = np.where(np.isin(np.arange(300), train), y, -1)
        plain = graph.replace(y=known, num_classes=3, train_mask=None, val_mask=None, test_mask=None)
        one = hf.NodeClassifier(**SMALL).fit(plain)  # type: ignore[arg-type]
        by_hand.append((one.predict(graph)[test] == y[test]).mean())
        assert set(np.flatnonzero(one.seen_)) <= set(train)
    assert scores == pytest.approx(by_hand)
    found = cross_validate(bound, nodes, y, cv=folds, return_train_score=True)
    assert found["test_score"] == pytest.approx(scores)
    assert clone(bound).graph is bound.graph
    search = GridSearchCV(bound, {"hidden": [4, 16]}, cv=folds).fit(nodes, y)
    assert search.best_params_["hidden"] in (4, 16)
    assert search.predict(nodes[:7]).shape == (7,)
    assert search.best_estimator_.embed(nodes[:7]).shape == (7, search.best_params_["hidden"])
    with pytest.raises(hf.HandfulError, match="no nodes of the graph"):
        search.predict([10**6])
    with pytest.raises(hf.HandfulError, match="graph takes a graph"):
        hf.NodeClassifier(graph=3).fit(nodes, y)


def test_a_score_never_counts_what_was_learned(graph: hf.Graph) -> None:
    assert graph.y is not None
    assert graph.test_mask is not None
    y, test = graph.y.numpy(), graph.test_mask.numpy()
    one = hf.NodeClassifier(**SMALL).fit(graph)  # type: ignore[arg-type]
    assert one.score(graph, y) == one.score(graph) == (one.predict(graph) == y)[test].mean()
    bare = graph.replace(train_mask=None, val_mask=None, test_mask=None)
    half = np.where(np.arange(300) < 150, y.astype(float), np.nan)
    two = hf.NodeClassifier(**SMALL).fit(bare, half)  # type: ignore[arg-type]
    assert two.score(bare) == two.score(bare, y) == (two.predict(bare) == y)[150:].mean()
    with pytest.raises(hf.HandfulError, match="cross_val_score"):
        two.score(bare, half)
    with pytest.raises(hf.HandfulError, match="y must have shape"):
        two.score(bare, half[:9])
    broken = clone(two)
    with pytest.raises(hf.HandfulError, match="y must have shape"):
        broken.fit(bare, half[:9])
    with pytest.raises(NotFittedError):
        broken.predict(bare)
    other = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8&signal=1&seed=5")
    other = other.replace(train_mask=None, val_mask=None, test_mask=None)
    assert two.score(other) == (two.predict(other) == other.y.numpy()).mean()  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [hf.NodeClassifier, hf.NodeRegressor])
def test_a_label_that_is_nan_is_unknown_also_beside_rows(kind: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = np.where(np.arange(120) < 90, (x[:, 0] > 0).astype(float), np.nan)
    some, all_ = kind(**SMALL).fit(x[:90], y[:90]), kind(**SMALL).fit(x, y)
    assert np.array_equal(some.predict(x), all_.predict(x))
    assert some.score(x, y) == pytest.approx(some.score(x[:90], y[:90]))


def test_several_numbers_are_learned(graph: hf.Graph) -> None:
    assert graph.x is not None
    y = graph.x[:, :2].numpy() * [3, 100] + 10
    y[:30, 1] = np.nan
    bare = graph.replace(train_mask=None, val_mask=None, test_mask=None)
    known = np.where(np.arange(300)[:, None] < 200, y, np.nan)
    found = hf.NodeRegressor(**SMALL | {"epochs": 150}).fit(bare, known)  # type: ignore[arg-type]
    assert found.predict(bare).shape == (300, 2)
    assert found.score(bare, y) == pytest.approx(r2_score(y[200:], found.predict(bare)[200:])) != 0
    assert found.score(bare, y) > 0.5
