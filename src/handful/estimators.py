"""Estimators with the interface of scikit-learn: ``NodeClassifier`` and ``NodeRegressor``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from handful.convert import from_pyg
from handful.datasets.files import read_graph
from handful.datasets.importer import read_tables
from handful.datasets.schema import Schema
from handful.datasets.splits import random_split, stratified_split
from handful.errors import HandfulError
from handful.experiment import MODEL, Experiment
from handful.graph import MASKS, Graph
from handful.predict import Prediction, predict
from handful.samplers import Sampler
from handful.training.assessment import plain_threshold
from handful.training.fit import SEED
from handful.training.inference import embed
from handful.training.loss import balanced_weights

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise HandfulError("the estimators need scikit-learn: pip install 'handful[sklearn]'") from None


@dataclass(eq=False, repr=False)
class _NodeEstimator:
    """The common part of classifier and regressor: parameters, graph inputs, training and scores."""

    model: str = MODEL
    _: KW_ONLY
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
        """Train one model for each seed; parameters that are ``None`` have the defaults of ``Experiment``."""
        if graph.train_mask is None:
            shares, seed = (1 - self.validation, self.validation, 0.0), int(self.seeds[0])
            if is_classifier(self):
                graph = graph.replace(**stratified_split(graph.y, shares, seed))  # type: ignore[arg-type]
            else:
                graph = graph.replace(**random_split(graph.num_nodes, shares, seed, graph.labelled))
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("settings", "validation")}
        chosen = {name: value for name, value in named.items() if value is not None}
        experiment = Experiment(**dict(self.settings or {}) | chosen)
        self.runs_, self.sampler_ = experiment.run(graph=graph).runs, experiment.sampler
        self.models_: list[Any] = [run.model.to("cpu").eval() for run in self.runs_ if run.model is not None]
        self.n_features_in_ = graph.num_features
        self.schema_ = None if graph.schema is None else Schema.from_json(graph.schema)
        self.kind_, self.positive_ = graph.kind, int(graph.positive or 0)
        balanced = experiment.settings.class_weight == "balanced"
        self.class_weight_ = balanced_weights(graph).tolist() if balanced else None
        self.n_iter_ = max(run.epochs for run in self.runs_)
        return self

    def _to_train(self, X: Any, y: Any, **checks: Any) -> tuple[Graph, Any]:
        """The graph that ``X`` is, and ``y``; rows of an array become nodes without edges."""
        graph = as_graph(X)
        if graph is not None:
            return graph, y
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        array, y = validate_data(self, X, y, dtype=np.float32, **checks)
        if is_classifier(self):
            check_classification_targets(y)
        return without_edges(array), y

    def _to_predict(self, X: Any) -> Graph:
        check_is_fitted(self)
        schema = getattr(self, "schema_", None)
        graph = as_graph(X, schema)
        if graph is None:
            graph = without_edges(validate_data(self, X, reset=False, dtype=np.float32))
        if schema is not None and (graph.schema is None or schema.differences(Schema.from_json(graph.schema))):
            raise HandfulError(f"graph '{graph.name}' was not encoded as the one that was fitted: give its tables")
        if graph.num_features != self.n_features_in_:
            raise ValueError(
                f"X has {graph.num_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        return graph

    def _mean(self, X: Any) -> Prediction:
        """The mean over the seeds of probabilities, without the class weights of the loss, or of numbers."""
        graph = self._to_predict(X)
        how: dict[str, Any] = {"kind": self.kind_, "positive": self.positive_}
        if self.class_weight_ is not None:
            how["class_weight"] = self.class_weight_
            if self.kind_ == "binary":
                how["threshold"] = plain_threshold(0.5, self.class_weight_, self.positive_)
        return predict(self.models_, graph, np.arange(graph.num_nodes), sampler=self.sampler_, **how)

    def _labels(self, graph: Graph) -> np.ndarray:
        """The labels of ``graph``, in the form that ``predict`` returns."""
        raise NotImplementedError

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The accuracy, or R², on ``y``; without it, on the test nodes of ``X``, or on all its labelled nodes."""
        if y is not None:
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        graph = self._to_predict(X)
        labels = self._labels(graph)
        test = graph.test_mask is not None and bool(graph.test_mask.any())
        judged = (graph.test_mask if test else graph.labelled).numpy()  # type: ignore[union-attr]
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(labels[judged], self.predict(graph)[judged]))  # type: ignore[attr-defined]

    def embed(self, X: Any) -> np.ndarray:
        """float32 ``(N, width)``: what the last layer of the first seed's model gets of every node."""
        graph = self._to_predict(X)
        return embed(self.models_[0], graph, sampler=self.sampler_).numpy()


def as_graph(X: Any, schema: Schema | None = None) -> Graph | None:
    """``X`` as a graph; ``None`` if it is a plain array.

    Args:
        X: a ``Graph``; a PyG ``Data``; the path of a graph or of a folder of tables; or a pair of tables, edges and
            nodes, as files or as tables of pandas, polars or pyarrow.
        schema: the schema that encodes the tables; ``None`` to fit a new one.
    """
    if isinstance(X, Graph):
        return X
    if hasattr(X, "edge_index") or hasattr(X, "adj_t"):
        return from_pyg(X)
    if isinstance(X, str | Path):
        return read_graph(X, schema=schema)
    if isinstance(X, tuple) and len(X) == 2 and all(_is_table(one) for one in X):
        return read_tables(*X, schema=schema)
    return None


def _is_table(value: Any) -> bool:
    return isinstance(value, str | Path) or hasattr(value, "__arrow_c_stream__")


def without_edges(x: np.ndarray, **fields: Any) -> Graph:
    """A graph without edges, with one node per row."""
    return Graph.from_edge_index(np.zeros((2, 0), np.int64), len(x), x=x, name="rows", **fields)


def relabel(graph: Graph, **labels: Any) -> Graph:
    """``graph`` with other labels; nodes without a label are in no mask."""
    fresh = graph.replace(**dict.fromkeys(MASKS), **labels)
    if graph.train_mask is None:
        return fresh
    return fresh.replace(**{name: getattr(graph, name) & fresh.labelled for name in MASKS})


class NodeClassifier(_NodeEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A node classifier with the interface of scikit-learn.

    ``X`` is a ``Graph``, a PyG ``Data``, the path of a graph or of a folder of tables, a pair of tables (edges, nodes),
    or an array ``(N, features)``, whose rows are then nodes without edges. Another graph of tables is encoded by the
    schema of the first.

    Args:
        model, hidden, layers, dropout, options: the model; see ``handful.Experiment``. ``None`` for its own defaults.
        sampler: the source of batches.
        epochs, lr, weight_decay, settings: how to train; ``settings`` are fields of ``handful.Settings`` by name.
        validation: the share of the labelled nodes for validation, if ``X`` has no split.
        seeds: one model for each; their probabilities are averaged.
        device: the device for training.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8")
    >>> classifier = hf.NodeClassifier(hidden=16, layers=2, epochs=20, lr=0.01).fit(graph)
    >>> classifier.predict(graph).shape, classifier.score(graph) > 0.5
    ((300,), True)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the labelled nodes of ``X``; ``y`` ``(N,)`` has their labels, instead of those of ``X``.

        ``None`` and NaN are unknown labels.
        """
        graph, y = self._to_train(X, y)
        if y is not None:
            self.classes_, codes = _encoded(y, graph.num_nodes)
            names = {"num_classes": len(self.classes_), "class_names": None}
            graph = relabel(graph, y=codes, task="classification", **names)
        else:
            self._labels(graph)
            self.classes_ = class_names(graph)
        if len(self.classes_) < 2:
            raise ValueError(f"the labels have one class, {self.classes_.tolist()}: a classifier needs two")
        return self._train(graph)

    def predict_proba(self, X: Any) -> np.ndarray:
        """float32 ``(N, classes)``: the mean over the seeds of the probability of every class."""
        values = self._mean(X).values
        return values[:, : len(self.classes_)]

    def predict(self, X: Any) -> np.ndarray:
        """``(N,)``: the most probable class of every node, by the class weights of the loss where it has some."""
        best = self._mean(X).best
        return np.asarray(self.classes_[best])

    def _labels(self, graph: Graph) -> np.ndarray:
        if graph.y is None:
            raise HandfulError(f"graph '{graph.name}' has no labels: give them as y")
        return np.asarray(class_names(graph)[graph.y.numpy()])


class NodeRegressor(_NodeEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A node regressor with the interface of scikit-learn; the arguments are those of ``NodeClassifier``.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8")
    >>> number = graph.x[:, 0].numpy()
    >>> hf.NodeRegressor(hidden=16, layers=2, epochs=30, lr=0.01).fit(graph, number).predict(graph).shape
    (300,)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on the labelled nodes of ``X``; ``y`` ``(N,)`` has their numbers, instead of those of ``X``.

        A number that is NaN is unknown.
        """
        graph, y = self._to_train(X, y, y_numeric=True, ensure_min_samples=2)
        if y is not None:
            graph = relabel(graph, y=np.asarray(y, np.float32), task="regression")
        else:
            self._labels(graph)
        return self._train(graph)

    def predict(self, X: Any) -> np.ndarray:
        """float32 ``(N,)``: the mean over the seeds of the number of every node."""
        return np.asarray(self._mean(X).values[:, 0])

    def _labels(self, graph: Graph) -> np.ndarray:
        if graph.y is None or graph.kind != "regression":
            raise HandfulError(f"graph '{graph.name}' has no numbers to predict: give them as y")
        return graph.y.numpy()


def class_names(graph: Graph) -> np.ndarray:
    """The names of the classes; their numbers, if they have no names."""
    return np.array(graph.class_names or range(graph.num_classes or 0))


def _encoded(y: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels in order, and the place of each among them, -1 where it is unknown."""
    labels = np.asarray(y)
    if labels.shape != (count,):
        raise HandfulError(f"y must have shape ({count},), one label per node, got {labels.shape}")
    known = np.array([one is not None and one == one for one in labels.tolist()], bool)
    classes, places = np.unique(labels[known], return_inverse=True)
    codes = np.full(count, -1)
    codes[known] = places
    return classes, codes
