"""Estimators with scikit-learn's interface: ``NodeClassifier`` and ``NodeRegressor``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from handful.convert import from_pyg
from handful.datasets.files import read_graph
from handful.datasets.importer import import_tables
from handful.datasets.schema import Schema
from handful.datasets.splits import random_split, stratified_split
from handful.errors import HandfulError, needing
from handful.experiment import MODEL, Experiment
from handful.graph import MASKS, Graph, fingerprint
from handful.predict import Prediction, check_features, choose_nodes, predict
from handful.samplers import Sampler
from handful.settings import ENOUGH, QUICK, RECOMMENDED
from handful.training.assessment import Decision
from handful.training.fit import SEED
from handful.training.inference import embed
from handful.training.loss import balanced_weights

with needing("the estimators need scikit-learn: pip install 'handful[sklearn]'"):
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils import _safe_indexing
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data


@dataclass(eq=False, repr=False)
class _NodeEstimator:
    """The common base of the classifier and the regressor: parameters, conversion of inputs to graphs, training and
    scores.
    """

    model: str = MODEL
    _: KW_ONLY
    graph: Any = None
    hidden: int | None = None
    layers: int | None = None
    dropout: float | None = None
    options: Mapping[str, Any] | None = None
    sampler: str | Sampler = "rns"
    epochs: int | None = None
    lr: float | None = None
    weight_decay: float | None = None
    settings: Mapping[str, Any] | None = None
    validation: float = 0.2
    seeds: Sequence[int] = (SEED,)
    device: str = "cpu"

    def _train(self, graph: Graph) -> Self:
        """Train one model for each seed. For parameters that are ``None``, the defaults of `handful train` are used."""
        if graph.train_mask is None:
            shares, seed = (1 - self.validation, self.validation, 0.0), int(self.seeds[0])
            if is_classifier(self):
                graph = graph.replace(**stratified_split(graph.y, shares, seed))  # type: ignore[arg-type]
            else:
                graph = graph.replace(**random_split(graph.num_nodes, shares, seed, graph.labelled))
        own = ("graph", "settings", "validation")
        chosen = {f.name: v for f in fields(self) if f.name not in own and (v := getattr(self, f.name)) is not None}
        plain = self.sampler != "rns" or {"first_hop", "mean_field"} & {*(self.settings or {})}
        usual = {**QUICK, **({} if plain else RECOMMENDED), "label_features": "no", "patience": ENOUGH["patience"]}
        experiment = Experiment(**usual | dict(self.settings or {}) | chosen)
        if experiment.settings.label_features != "no":
            raise HandfulError("label_features need the labels of training also in predict: use fit, or an Experiment")
        self.runs_, self.experiment_ = experiment.run(graph=graph).runs, experiment
        self.models_: list[Any] = [run.model.to("cpu").eval() for run in self.runs_ if run.model is not None]
        self.n_features_in_ = graph.num_features
        self.schema_ = None if graph.schema is None else Schema.from_json(graph.schema)
        balanced = experiment.settings.class_weight == "balanced"
        self.decision_ = Decision.on(graph, balanced_weights(graph) if balanced else None)
        self.n_iter_ = max(run.epochs for run in self.runs_)
        self.seen_ = (graph.train_mask | graph.val_mask).numpy()  # type: ignore[operator]
        return self

    def __sklearn_clone__(self) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) for f in fields(self)})  # a graph is never copied

    def _to_train(self, X: Any, y: Any, **checks: Any) -> tuple[Graph, np.ndarray, Any]:
        """The graph to train on, the nodes that ``y`` labels, and ``y``. If ``X`` is an array, each row is a node
        without edges, and rows with an unknown label are removed.
        """
        self._identity: Any = None
        if self.graph is None and (graph := as_graph(X)) is not None:
            self._identity = identity(graph)
            return graph, np.arange(graph.num_nodes), y
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self.graph is not None:
            graph = self._bound().replace(**dict.fromkeys(MASKS))
            return graph, choose_nodes(graph, np.ravel(X)), y
        if not (known := is_known(y)).all():
            X, y = _safe_indexing(X, np.flatnonzero(known)), np.asarray(y)[known]
        array, y = validate_data(self, X, y, dtype=np.float32, **checks)
        if is_classifier(self):
            check_classification_targets(y)
        return without_edges(array), np.arange(len(array)), y

    def _bound(self, schema: Schema | None = None) -> Graph:
        """The parameter ``graph``, converted to a ``Graph``."""
        if (graph := as_graph(self.graph, schema)) is None:
            raise HandfulError(f"graph takes a graph or its path, got a {type(self.graph).__name__}")
        return graph

    def _to_predict(self, X: Any) -> tuple[Graph, np.ndarray]:
        """The graph that contains the nodes in ``X``, and the nodes to predict."""
        check_is_fitted(self)
        graph = as_graph(X, self.schema_) if self.graph is None else self._bound(self.schema_)
        if graph is None:
            graph = without_edges(validate_data(self, X, reset=False, dtype=np.float32))
        check_features(graph, self.n_features_in_, self.schema_)
        return graph, choose_nodes(graph, "all" if self.graph is None else np.ravel(X))

    def _mean(self, graph: Graph, nodes: np.ndarray) -> Prediction:
        """The predictions, averaged over the seeds: regression values, or class probabilities without the effect of the
        loss's class weights.
        """
        names = getattr(self, "classes_", None)
        return predict(self.models_, graph, nodes, self.decision_, names, sampler=self.experiment_.sampler)

    def _labels(self, graph: Graph) -> np.ndarray:
        """The labels of ``graph``, in the same form as the result of ``predict``."""
        classes = is_classifier(self)
        if graph.y is None or not (classes or graph.kind == "regression"):
            what = "labels" if classes else "numbers to predict"
            raise HandfulError(f"graph '{graph.name}' has no {what}: give them as y")
        return np.asarray(class_names(graph)[graph.y.numpy()]) if classes else graph.y.numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The predicted class of every node, ``(N,)``: the most probable one. If the loss has class weights, the
        probabilities are multiplied by them first.

        For a regression, the result is the predicted values, averaged over the seeds: float32 ``(N,)``, or ``(N,
        targets)`` for several targets.
        """
        return self._mean(*self._to_predict(X)).predicted

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy of a classifier, or the R² of a regressor, with respect to ``y``. If ``y`` is ``None``, the
        labels of the test nodes of ``X`` are used. If there are no test nodes, the labels of all nodes are used.

        Nodes without a label do not count. If ``X`` is the graph that was passed to ``fit``, nodes whose labels were
        used in fitting do not count. If ``X`` is an array, or contains ids of nodes in the parameter ``graph``, all
        labelled nodes of ``X`` count.
        """
        graph, nodes = self._to_predict(X)
        labels = self._labels(graph)[nodes] if y is None else _one_each(y, len(nodes), (1, 2))
        judged = graph.labelled.numpy()[nodes] if y is None else is_known(labels)
        if self.graph is None and y is None and graph.test_mask is not None and bool(graph.test_mask.any()):
            judged &= graph.test_mask.numpy()
        if self._identity is not None and identity(graph) == self._identity:
            judged &= ~self.seen_
        if not judged.any():
            bound = f"cross_val_score({type(self).__name__}(graph=graph), nodes, y)"
            raise HandfulError(f"graph '{graph.name}' has only the labels of fit: add test nodes, or use {bound}")
        measure = accuracy_score if is_classifier(self) else r2_score
        weight = None if sample_weight is None else np.asarray(sample_weight)[judged]
        return float(measure(labels[judged], self._mean(graph, nodes).predicted[judged], sample_weight=weight))

    def embed(self, X: Any) -> np.ndarray:
        """The embedding of every node, float32 ``(N, width)``: the input of the last layer, in the model of the first
        seed.
        """
        graph, nodes = self._to_predict(X)
        return np.asarray(embed(self.models_[0], graph, sampler=self.experiment_.sampler)[nodes])


def as_graph(X: Any, schema: Schema | None = None) -> Graph | None:
    """Convert ``X`` to a graph; the result is ``None`` for a plain array.

    Args:
        X: a ``Graph``; a PyG ``Data``; the path of a graph or of a folder of tables; or a pair of tables (edges,
            nodes), each a file, a table of pandas, polars or pyarrow, or a dictionary of columns.
        schema: the schema that encodes the tables; ``None`` to fit a new one.
    """
    if isinstance(X, Graph):
        return X
    if hasattr(X, "edge_index") or hasattr(X, "adj_t"):
        return from_pyg(X)
    if isinstance(X, str | Path):
        return read_graph(X, schema=schema)
    if isinstance(X, tuple) and len(X) == 2 and all(_is_table(one) for one in X):
        return import_tables(*X, schema=schema, split=None)
    return None


def identity(graph: Graph) -> tuple[str, str]:
    """The fingerprints of the edges and of the features of ``graph``."""
    return graph.checksum, fingerprint(graph.x)  # type: ignore[arg-type]


def _is_table(value: Any) -> bool:
    return isinstance(value, str | Path | Mapping) or hasattr(value, "__arrow_c_stream__")


def without_edges(x: np.ndarray) -> Graph:
    """A graph without edges, with one node per row."""
    return Graph.from_edge_index(np.zeros((2, 0), np.int64), len(x), x=x, name="rows")


def relabel(graph: Graph, **labels: Any) -> Graph:
    """Replace the labels of ``graph``, and remove nodes without a label from all masks."""
    fresh = graph.replace(**dict.fromkeys(MASKS), **labels)
    if graph.train_mask is None:
        return fresh
    return fresh.replace(**{name: getattr(graph, name) & fresh.labelled for name in MASKS})


class NodeClassifier(_NodeEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A node classifier with scikit-learn's interface.

    ``X`` is a ``Graph``, a PyG ``Data``, the path of a graph or of a folder of tables, a pair of tables (edges, nodes),
    or an array ``(N, features)``, each row of which is a node without edges. The schema that ``fit`` learns from tables
    also encodes the tables that are passed to other methods.

    If the parameter ``graph`` is given, ``X`` contains ids of nodes in this graph (or node indices, if the graph has no
    ids), and ``y`` contains the labels of these nodes. In this form, scikit-learn can split the nodes, as in
    ``GridSearchCV`` or ``cross_val_score(NodeClassifier(graph=graph), nodes, y)``. All other nodes are treated as
    unlabelled, and the graph keeps all edges.

    Args:
        graph: the graph that contains the nodes in ``X``; it has any of the forms of ``X`` above, except an array.
        model, hidden, layers, dropout, options: the model and its options, as for ``handful.Experiment``; ``None`` for
            the default of `handful train`.
        sampler: the source of batches. The default, with no ``first_hop`` or ``mean_field`` in ``settings``, is RNS
            with a mean-field neighbour, as in `handful train`.
        epochs, lr, weight_decay, settings: the training settings; ``settings`` is a dictionary of fields of
            ``handful.Settings``. By default, training stops early, as in `handful train`.
        validation: the fraction of the labelled nodes that is used for validation, if ``X`` has no split.
        seeds: the random seeds. One model is trained per seed, and the predictions of the models are averaged.
        device: the device for training.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8")
    >>> classifier = hf.NodeClassifier(hidden=16, layers=2, epochs=20, lr=0.01).fit(graph)
    >>> classifier.predict(graph).shape, classifier.score(graph) > 0.5
    ((300,), True)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the labelled nodes of ``X``. If ``y``, ``(N,)``, is given, it replaces the labels of ``X``.

        ``None`` and NaN are unknown labels.
        """
        graph, nodes, y = self._to_train(X, y)
        if y is not None:
            labels = _one_each(y, len(nodes))
            known, codes = is_known(labels), np.full(graph.num_nodes, -1)
            self.classes_, codes[nodes[known]] = np.unique(labels[known], return_inverse=True)
            graph = relabel(graph, y=codes, task="classification", num_classes=len(self.classes_), class_names=None)
        else:
            self._labels(graph)
            self.classes_ = class_names(graph)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_.tolist()}: a classifier needs two")
        return self._train(graph)

    def predict_proba(self, X: Any) -> np.ndarray:
        """float32 ``(N, classes)``: the probability of every class, averaged over the seeds."""
        return self._mean(*self._to_predict(X)).values[:, : len(self.classes_)]


class NodeRegressor(_NodeEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A node regressor with scikit-learn's interface; the arguments are those of ``NodeClassifier``.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8")
    >>> number = graph.x[:, 0].numpy()
    >>> hf.NodeRegressor(hidden=16, layers=2, epochs=30, lr=0.01).fit(graph, number).predict(graph).shape
    (300,)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the labelled nodes of ``X``. If ``y``, ``(N,)``, is given, it replaces the labels of ``X``.

        If ``X`` is a graph, ``y`` may have the shape ``(N, targets)``. NaN is an unknown value.
        """
        graph, nodes, y = self._to_train(X, y, y_numeric=True, ensure_min_samples=2)
        if y is not None:
            numbers = np.full((graph.num_nodes, *np.shape(y)[1:]), np.nan, np.float32)
            numbers[nodes] = _one_each(y, len(nodes), (1, 2))
            graph = relabel(graph, y=numbers, task="regression")
        else:
            self._labels(graph)
        return self._train(graph)


def class_names(graph: Graph) -> np.ndarray:
    """The names of the classes, or the class indices if classes have no names."""
    return np.array(graph.class_names or range(graph.num_classes or 0))


def is_known(y: Any) -> np.ndarray:
    """bool ``(n,)``: whether each label is neither ``None`` nor NaN. If nodes have several regression targets, all of
    them must be known.

    >>> is_known(["a", None, float("nan")])
    array([ True, False, False])
    """
    labels = np.asarray(y, object)
    known = np.array([one is not None and one == one for one in labels.ravel().tolist()], bool)
    return np.asarray(known.reshape(len(labels), -1).all(1))


def _one_each(y: Any, count: int, dimensions: tuple[int, ...] = (1,)) -> np.ndarray:
    labels = np.asarray(y)
    if labels.ndim not in dimensions or len(labels) != count:
        raise HandfulError(f"y must have shape ({count},), one label per node, got {labels.shape}")
    return labels
