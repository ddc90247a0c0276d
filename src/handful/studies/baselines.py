"""Baselines without a GNN: the majority class, label propagation, and scikit-learn models with and without the features
of neighbours.

Baselines use the same training nodes and the same metric as the GNN. The inputs of a node never include its own label.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial, reduce
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.convert import to_scipy
from handful.files import seal, write_json
from handful.finding import Table, text_table
from handful.graph import Graph
from handful.kernels.gather import gather
from handful.kernels.sparse import dense, is_sparse, scipy_rows, variances
from handful.predict import choose_nodes
from handful.random import generator
from handful.samplers.full import full_adjacency
from handful.training.first_hop import Aggregates
from handful.training.inference import outputs_of
from handful.training.metrics import Metric
from handful.training.record import read_json

BASELINES = "baselines.json"
NODES = 20_000
"""The maximum number of training nodes to which a scikit-learn model is fitted."""
COLUMNS = 256
"""The maximum number of input features. If there are more, they are replaced by this many principal components of the
``WIDEST`` features with the largest variance.
"""
WIDEST = 1024
LARGEST = 1 << 28
"""The maximum number of values in the feature matrix that includes the features of neighbours."""
THIN = 0.2
"""More than ``COLUMNS`` features stay as they are in linear models if at most this share of their values is not 0."""
PRODUCTS = 1 << 27
"""The maximum number of multiplications for the mean of such features over the neighbours."""
BOTH = "label propagation, both directions"
BOOSTED = 16_000_000
"""The maximum of training nodes × features × classes for gradient boosting, which takes about ten seconds then."""
ROUNDS = 30
"""The number of steps of label propagation."""
STRENGTHS = (1.0, 0.03)
"""The values of C for logistic regression, and of 1/α for ridge regression; the validation metric selects one of
them.
"""
RARE = " For a rare class, train with --metric average_precision -s class_weight=balanced -s threshold=f1."
"""The advice if more than 90% of the test nodes have the majority class."""
FLOOR = 1e-9
"""The minimum probability of a class. Smaller probabilities are replaced by this value."""


@dataclass(frozen=True)
class Baseline:
    """The result of a baseline: whether it uses the edges (``sees_graph``), its metrics, and its time in seconds."""

    name: str
    sees_graph: bool
    val: float
    test: float
    seconds: float


def run_baselines(graph: Graph, metric: Metric, balanced: bool = False) -> tuple[list[Baseline], list[str]]:
    """Run all baselines on a graph. Also return notes about baselines that were left out or used less data.

    Args:
        graph: a graph with features, labels and a split.
        metric: the metric of all baselines.
        balanced: whether the scikit-learn classifiers give all classes the same weight in the loss.

    >>> import handful as hf
    >>> from handful.training.metrics import METRICS
    >>> graph = hf.load("synthetic?nodes=300&degree=8&classes=3&features=8")
    >>> found, notes = run_baselines(graph, METRICS["accuracy"])
    >>> found[0].name, found[0].test < max(one.test for one in found)
    ('majority class', True)
    """
    made = _Columns(graph.require_training().to("cpu"))
    found, notes = [], list[str]()
    for name, sees_graph, make_outputs in _every(made, metric, notes, balanced):
        started = time.perf_counter()
        outputs = make_outputs()
        val, test = (metric.of(outputs[nodes], made.graph, nodes) for nodes in (made.val, made.test))
        found.append(Baseline(name, sees_graph, val, test, time.perf_counter() - started))
    return found, [*notes, *made.notes]


def kept_baselines(
    path: Path, graph: Graph, metric: Metric, class_weight: str = "none"
) -> tuple[list[Baseline], list[str]]:
    """Read the results of the baselines from the file ``path``. If the file does not exist, run the baselines and write
    it. ``class_weight`` is as in ``Settings``.
    """
    if not path.exists():
        found, notes = run_baselines(graph, metric, class_weight == "balanced")
        write_json(path, seal({"found": [asdict(one) for one in found], "notes": notes}))
    record = read_json(path)
    kept: list[Any] = [{name: nan if one is None else one for name, one in row.items()} for row in record["found"]]
    return [Baseline(**row) for row in kept], record["notes"]


def _every(
    made: _Columns, metric: Metric, notes: list[str], balanced: bool
) -> Iterator[tuple[str, bool, Callable[[], Tensor]]]:
    """For each baseline, yield its name, whether it uses the edges, and a function that computes its outputs."""
    graph = made.graph
    constant = {"regression": "mean", "multilabel": "share of each label"}.get(graph.kind, "majority class")
    yield constant, False, lambda: _outputs(prior(graph).expand(graph.num_nodes, -1), graph)
    yield "label propagation", True, lambda: _outputs(propagate_labels(graph), graph)
    if not graph.undirected:
        yield BOTH, True, lambda: _outputs(propagate_labels(graph.to_undirected()), graph)
    try:
        linear, boosted = _models(graph, balanced)
    except ImportError:
        notes.append("without linear models and gradient boosting: pip install 'handful[sklearn]'")
        return
    name = "logistic regression" if made.classes else "ridge regression"
    if made.classes and int(made.y[made.fitted].min()) == int(made.y[made.fitted].max()):
        return
    for near, which in ((False, "own columns"), (True, "own and neighbours' columns")):
        if near and not made.fits:
            notes.append("without neighbours' columns: they would take too much memory")
            return
        yield f"{name}, {which}", near, partial(_best, linear, made, metric, partial(made.linear, near))
        plain = not near and graph.num_features <= WIDEST
        width = graph.num_features if plain else min(COLUMNS, graph.num_features) * (3 if near else 1)
        if width * len(made.fitted) * graph.num_outputs > BOOSTED:
            notes.append(f"without gradient boosting of {which}: it would take minutes")
        elif made.y.ndim == 1:
            table = (lambda: dense(made.plain)) if plain else partial(made.table, near)
            yield f"gradient boosting, {which}", near, partial(_best, boosted, made, metric, table)


# -- columns ----------------------------------------------------------------------------------------------------------


class _Columns:
    """The input features of the baselines for all nodes, which are computed on first use."""

    def __init__(self, graph: Graph) -> None:
        assert graph.y is not None
        self.graph, self.y, self.notes = graph, graph.y, list[str]()
        nodes = graph.train_nodes
        if len(nodes) > NODES:
            nodes = nodes[torch.from_numpy(np.sort(generator(0).permutation(len(nodes))[:NODES]))]
            self.notes.append(f"fitted to {NODES:,} of {len(graph.train_nodes):,} training nodes")
        self.fitted = nodes
        self.val, self.test = (torch.from_numpy(choose_nodes(graph, split)) for split in ("val", "test"))
        self.classes = graph.kind in ("binary", "multiclass")
        y, known = targets(graph)
        filled = torch.where(known > 0, y, prior(graph))[nodes]
        self.goal = self.y[nodes] if self.classes else filled.squeeze(1)
        self.fits = 3 * min(COLUMNS, graph.num_features) * graph.num_nodes <= LARGEST

    def table(self, near: bool) -> Tensor:
        """The features of the nodes, float32 ``(N, columns)``. If ``near``, the features of their neighbours are
        included.
        """
        return self.with_neighbours if near else self.own

    def linear(self, near: bool) -> Any:
        """The inputs of a linear model: ``table(near)``; for wide features with many zeros, a sparse matrix of SciPy
        with all columns, unless it needs more than ``PRODUCTS`` multiplications.

        In the sparse matrix, each of x, A·x and A²·x is divided by a factor, so that its total variance is ``COLUMNS``,
        as in ``table``.
        """
        from scipy.sparse import csr_array, hstack
        from sklearn.preprocessing import normalize
        from sklearn.utils.sparsefuncs import mean_variance_axis

        x = self.plain
        held = x.values().numel() if is_sparse(x) else int(x.count_nonzero())
        if x.shape[1] <= COLUMNS or held > THIN * x.numel():
            return self.table(near)
        hops = [scipy_rows(x) if is_sparse(x) else csr_array(x.numpy())]
        mean = normalize(to_scipy(self.graph).T.tocsr(), "l1")
        for _ in range(2 if near else 0):
            if int(np.diff(hops[-1].indptr)[mean.indices].sum()) > PRODUCTS:
                return self.table(near)
            hops.append(mean @ hops[-1])
            if hops[-1].nnz > LARGEST // 8:
                return self.table(near)
        variances = [mean_variance_axis(one[self.fitted.numpy()], 0)[1].sum() for one in hops]
        scales = np.sqrt(COLUMNS / np.maximum(variances, 1e-12)).astype(np.float32)
        blocks = [one * scale for one, scale in zip(hops, scales, strict=True)]
        return hstack([*blocks, *([csr_array(self.around.numpy())] if near else [])], format="csr")

    @property
    def plain(self) -> Tensor:
        """The features of the nodes as they are, in float32; they may be sparse."""
        assert self.graph.x is not None
        return self.graph.x.to(torch.float32)

    @cached_property
    def own(self) -> Tensor:
        """The features of the nodes after ``_in_one_unit``. If there are more than ``COLUMNS`` features, the result is
        their principal components.
        """
        if self.graph.num_features <= COLUMNS:
            return self._in_one_unit(dense(self.plain))
        self.notes.append(f"{self.graph.num_features:,} columns as {COLUMNS} principal components")
        x = self._most_varied(min(WIDEST, self.graph.num_features))
        some = (x[self.fitted] - x[self.fitted].mean(0)).double()  # in float32, eigh does not always converge
        return self._in_one_unit(x @ torch.linalg.eigh(some.T @ some).eigenvectors[:, -COLUMNS:].float())

    def _most_varied(self, count: int) -> Tensor:
        """The ``count`` features with the largest variance, in their order, as a dense tensor."""
        x, spread = self.plain, variances(gather(self.plain, self.fitted))
        kept = spread.argsort(descending=True, stable=True)[:count].sort().values
        return torch.from_numpy(scipy_rows(x)[:, kept.numpy()].toarray()) if is_sparse(x) else x[:, kept]

    @cached_property
    def with_neighbours(self) -> Tensor:
        """The features x, A·x and A²·x, where A is the mean over neighbours; the degree; and the result of
        ``neighbour_labels``.
        """
        hops = outputs_of(Aggregates(self.own.shape[1], 2, "mean"), self.graph.replace(x=self.own))
        return torch.cat([*map(self._in_one_unit, hops.chunk(3, 1)), self.around], 1)

    @cached_property
    def around(self) -> Tensor:
        """The degree and the result of ``neighbour_labels``, float32 ``(N, 2 + K)``."""
        degree = torch.log1p(full_adjacency(self.graph).degree.to(torch.float32))[:, None]
        return torch.cat([self._in_one_unit(degree), *neighbour_labels(self.graph)], 1)

    def _in_one_unit(self, x: Tensor) -> Tensor:
        """Shift each column of ``x`` to mean 0, and divide all columns by the same factor, so that their mean variance
        is 1.
        """
        some = x[self.fitted]
        return (x - some.mean(0)) / some.var(0).mean().sqrt().clamp_min(1e-6)


def targets(graph: Graph) -> tuple[Tensor, Tensor]:
    """The labels of the training nodes, with a column for each class, label or regression target; and a mask of the
    known labels. Both are float32 ``(N, K)`` and 0 for all other nodes.
    """
    assert graph.y is not None
    y = graph.y
    if not y.is_floating_point():
        y = torch.nn.functional.one_hot(y.clamp_min(0), int(graph.num_classes or 1)).to(torch.float32)
    y = y.view(len(y), -1).to(torch.float32)
    known = graph.train_mask[:, None] & ~y.isnan()  # type: ignore[index]
    return torch.where(known, y, 0.0), known.to(torch.float32)


def prior(graph: Graph) -> Tensor:
    """The fraction of each class or label among the training nodes, float32 ``(1, K)``. For a regression, it is the
    mean target.
    """
    y, known = targets(graph)
    return y.sum(0, keepdim=True) / known.sum(0, keepdim=True).clamp_min(1)


def neighbour_labels(graph: Graph) -> tuple[Tensor, Tensor]:
    """The mean label of each node's neighbours that are training nodes, float32 ``(N, K)``; and the fraction of
    neighbours that are training nodes.

    Self-loops do not count. A node without such neighbours gets the mean label of all training nodes.

    >>> graph = Graph.from_edge_index([[0, 1], [1, 0]], x=torch.zeros(3, 1), y=[1, 0, 0], train_mask=[0, 1, 2])
    >>> neighbour_labels(graph)[0][:2]
    tensor([[1., 0.],
            [0., 1.]])
    """
    layer = full_adjacency(graph.without_loops())
    y, known = targets(graph)
    share = layer.mean(known)
    return torch.where(share > 0, layer.mean(y) / share.clamp_min(1e-12), prior(graph)), share[:, :1]


def propagate_labels(graph: Graph) -> Tensor:
    """Label propagation, float32 ``(N, K)``: the labels of training nodes are fixed, and all other nodes repeatedly
    take the mean over their neighbours.
    """
    layer = full_adjacency(graph)
    y, known = targets(graph)
    start = torch.where(known > 0, y, prior(graph))
    result, empty = start, (layer.degree == 0)[:, None]
    for _ in range(ROUNDS):
        result = torch.where((known > 0) | empty, start, layer.mean(result))
    return result


# -- models -----------------------------------------------------------------------------------------------------------


def _outputs(values: Tensor, graph: Graph) -> Tensor:
    """Convert probabilities to model outputs: log-probabilities of classes, or log-odds of labels. Regression values do
    not change.
    """
    if graph.kind == "regression":
        return values
    values = values.clamp(FLOOR, 1 - FLOOR)
    return torch.logit(values) if graph.kind == "multilabel" else values.log()


def _models(graph: Graph, balanced: bool) -> tuple[list[Any], list[Any]]:
    """The linear models, of which the validation metric selects one; and the gradient boosting model."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge

    few: dict[str, Any] = {"max_iter": 40, "learning_rate": 0.25, "max_bins": 63}
    if graph.kind in ("regression", "multilabel"):
        return [Ridge(1 / c) for c in STRENGTHS], [HistGradientBoostingRegressor(**few)]
    weight = "balanced" if balanced else None
    linear = [LogisticRegression(C=c, max_iter=200, tol=1e-3, class_weight=weight) for c in STRENGTHS]
    return linear, [HistGradientBoostingClassifier(**few, class_weight=weight)]


def _best(models: Sequence[Any], made: _Columns, metric: Metric, inputs: Callable[[], Any]) -> Tensor:
    """Fit all models to ``inputs()``, and return the outputs of the model with the best validation metric."""
    table = inputs()
    found = [_fitted(model, made, table) for model in models]
    values = [metric.of(outputs[made.val], made.graph, made.val) for outputs in found]
    best = reduce(lambda i, j: j if metric.better(values[j], than=values[i]) else i, range(len(found)))
    return found[best]


def _fitted(model: Any, made: _Columns, table: Any) -> Tensor:
    """Fit a model, and return its outputs. Classes without training nodes get the probability ``FLOOR``."""
    from threadpoolctl import threadpool_limits

    x, kind = table.numpy() if isinstance(table, Tensor) else table, np.float32 if made.classes else np.float64
    x = x.astype(kind, copy=False)
    # More threads do not make such small models faster; on a busy machine, they make them slower.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on convergence: a baseline may stop early
        model.fit(x[made.fitted.numpy()], made.goal.numpy())
        values = torch.from_numpy(model.predict_proba(x) if made.classes else model.predict(x)).to(torch.float32)
    if not made.classes:
        return _outputs(values.view(len(values), -1), made.graph)
    result = torch.zeros(len(values), int(made.graph.num_classes or 2))
    result[:, model.classes_] = values
    return _outputs(result, made.graph)


# -- tables and text --------------------------------------------------------------------------------------------------


def best_of(found: Sequence[Baseline], metric: Metric) -> Baseline:
    """The baseline with the best validation metric. If there are no validation nodes, it is the baseline with the best
    test metric.
    """
    judged = "test" if found[0].val != found[0].val else "val"
    return reduce(lambda best, o: o if metric.better(getattr(o, judged), than=getattr(best, judged)) else best, found)


def baseline_table(found: Sequence[Baseline], metric: Metric) -> Table:
    """Make a table of the results, with a row per baseline."""
    rows = [[one.name, metric.text(one.val), metric.text(one.test), f"{one.seconds:.1f}"] for one in found]
    unit = " (%)" if metric.percent else ""
    return text_table("Without a GNN", ["baseline", f"val{unit}", f"test{unit}", "seconds"], rows)


def say_added(name: str, test: float, half: float, found: Sequence[Baseline], metric: Metric) -> str:
    """Describe, in sentences, how much a GNN gains over the best baseline, and how much the graph adds to the features.

    Args:
        name: the name of the GNN.
        test: the test metric of the GNN.
        half: the half-width of the GNN's 95% confidence interval. Smaller differences count as zero.
        found: the baselines.
        metric: the metric of the GNN and the baselines.
    """
    majority, best = found[0], best_of(found, metric)
    blind = best_of([one for one in found if not one.sees_graph], metric)

    def above(value: float, other: float) -> float:
        return value - other if metric.higher_is_better else other - value

    if above(test, majority.test) <= 0:
        advice = RARE * (metric.name == "accuracy" and majority.test > 0.9)
        majority_test = metric.with_unit(majority.test)
        return f"{name} is no better than the {majority.name} ({majority_test}): do not use it.{advice}"
    gain = above(test, best.test)
    adds = f"adds {metric.apart(gain)} to" if gain > 0 else f"is {metric.apart(gain)} worse than"
    seeing = best_of([one for one in found if one.sees_graph] or [blind], metric)
    graph = max(above(test, blind.test), above(seeing.test, blind.test))
    by_name = {one.name: one.test for one in found}
    more = above(by_name[BOTH], by_name["label propagation"]) if BOTH in by_name else 0.0
    advice = f" Use {best.name} instead of {name}." * (gain < -half)
    if more > half:
        advice = f" Both directions of edges add {metric.apart(more)} to label propagation: import with --undirected."
    return (
        f"{name} ({metric.with_unit(test)}) {'adds nothing to' if abs(gain) <= half else adds} the best baseline, "
        f"{best.name} ({metric.with_unit(best.test)} in {max(1, round(best.seconds))} s). "
        f"The graph adds {metric.apart(graph) if graph > half else 'nothing'} to {blind.name} "
        f"({metric.with_unit(blind.test)}).{advice}"
    )
