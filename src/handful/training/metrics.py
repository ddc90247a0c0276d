"""Metrics by name, tested against scikit-learn; and user-defined metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.errors import HandfulError, explaining, require_kind
from handful.graph import Graph, Kind
from handful.vocabulary import number, spaced

Value = Callable[[Tensor, Tensor], float]
"""A function that computes a metric from outputs ``(n, outputs)`` and labels."""


def predict_classes(logits: Tensor) -> Tensor:
    """int64 ``(n,)``: the class with the largest logit. If there is one logit per node, the class is 1 if the logit is
    positive, and 0 otherwise.

    >>> predict_classes(torch.tensor([[-1.0], [2.0]])), predict_classes(torch.tensor([[0.2, 0.8], [0.9, 0.1]]))
    (tensor([0, 1]), tensor([1, 0]))
    """
    return (logits.squeeze(1) > 0).to(torch.int64) if logits.shape[1] == 1 else logits.argmax(1)


def probabilities(outputs: Tensor, kind: Kind) -> Tensor:
    """Convert the outputs of a model to probabilities: ``(n,)`` for two classes (the probability of class 1), ``(n,
    classes)`` for more classes, and ``(n, labels)`` for a multi-label task. For a regression, return the predicted
    values, ``(n,)`` or ``(n, targets)``.

    >>> probabilities(torch.zeros(1, 1), "binary"), probabilities(torch.zeros(1, 2), "multiclass")
    (tensor([0.5000]), tensor([[0.5000, 0.5000]]))
    """
    if kind == "regression":
        return outputs.squeeze(1)
    if kind == "multilabel":
        return outputs.sigmoid()
    if kind == "binary":
        return (outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]).sigmoid()
    return outputs.softmax(1)


def by_column(function: Value, outputs: Tensor, y: Tensor) -> list[float]:
    """Apply ``function`` to each column of ``y`` (a label or a regression target) separately, over the nodes where the
    value is known.
    """
    columns = enumerate(zip([~column.isnan() for column in y.T], y.T, strict=True))
    return [function(outputs[here, k : k + 1], one[here]) if bool(here.any()) else np.nan for k, (here, one) in columns]


def over_columns(function: Value) -> Value:
    """Extend ``function`` to several labels or regression targets: the result is the mean over these columns. NaN
    values are left out.
    """

    @wraps(function)
    def mean(outputs: Tensor, y: Tensor) -> float:
        if y.ndim == 1:
            return function(outputs, y)
        values = np.array(by_column(function, outputs, y))
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    return mean


# -- classes ----------------------------------------------------------------------------------------------------------


def accuracy(logits: Tensor, y: Tensor) -> float:
    """The fraction of nodes with a correct prediction; see ``predict_classes``.

    >>> accuracy(torch.tensor([[0.2, 0.8], [0.9, 0.1]]), torch.tensor([1, 1]))
    0.5
    """
    return float((predict_classes(logits) == y).double().mean())


def confusion(guess: Tensor, y: Tensor, classes: int) -> Tensor:
    """int64 ``(classes, classes)``: entry ``[i, j]`` is the number of nodes of class i that are predicted as class j.

    >>> confusion(torch.tensor([1, 1, 0]), torch.tensor([0, 1, 0]), 2)
    tensor([[1, 1],
            [0, 1]])
    """
    return torch.bincount(y * classes + guess, minlength=classes * classes).view(classes, classes)


def class_scores(table: Tensor) -> dict[str, Tensor]:
    """``precision``, ``recall`` and ``f1`` = 2·TP / (2·TP + FP + FN) of every class, from a confusion matrix. A score
    is NaN if its denominator is 0.

    >>> class_scores(torch.tensor([[1, 1], [0, 1]]))["recall"]
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    hit, is_class, taken = table.diagonal().double(), table.sum(1).double(), table.sum(0).double()
    return {"precision": hit / taken, "recall": hit / is_class, "f1": 2 * hit / (is_class + taken)}


def _scored(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    guess, y = predict_classes(logits), y.long()
    return class_scores(confusion(guess, y, 1 + max(1, int(guess.max()), int(y.max()))))


def balanced_accuracy(logits: Tensor, y: Tensor) -> float:
    """The mean recall over the classes that occur in ``y``.

    >>> balanced_accuracy(torch.tensor([[1.0], [1.0], [1.0], [-1.0]]), torch.tensor([1, 1, 1, 1]))
    0.75
    """
    return float(_scored(logits, y)["recall"].nanmean())


def f1(logits: Tensor, y: Tensor) -> float:
    """2·TP / (2·TP + FP + FN) of the positive class; 0 if no node is positive and no node is predicted as positive."""
    return float(_scored(logits, y)["f1"][1].nan_to_num(0.0))


def macro_f1(outputs: Tensor, y: Tensor) -> float:
    """The mean F1 of all classes that are present or predicted. In a multi-label task, it is the mean over labels."""
    return float(_scored(outputs, y)["f1"].nanmean()) if y.ndim == 1 else over_columns(f1)(outputs, y)


def curve(score: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every distinct score, highest first: the score, the number of positive nodes with at least this score, and
    the number of all nodes with at least this score.

    >>> curve(np.array([0.9, 0.3, 0.9]), np.array([True, True, False]))
    (array([0.9, 0.3]), array([1, 2]), array([2, 3]))
    """
    order = np.argsort(-score, kind="stable")
    score, hits = score[order], np.cumsum(positive[order])
    last_of_tie = np.append(score[1:] != score[:-1], True)[: len(score)]
    return score[last_of_tie], hits[last_of_tie], np.flatnonzero(last_of_tie) + 1


def _curve(logits: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    score = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    return curve(score.double().cpu().numpy(), y.cpu().numpy() == 1)[1:]


@over_columns
def average_precision(logits: Tensor, y: Tensor) -> float:
    """Σ_k (recall_k - recall_{k-1}) · precision_k over the distinct scores, highest first; NaN if there are no positive
    nodes.

    In a multi-label task, the result is the mean over the labels with at least one positive node.
    """
    hits, taken = _curve(logits, y)
    return float(np.sum(np.diff(hits, prepend=0) * hits / taken) / hits[-1]) if hits[-1:].any() else float("nan")


@over_columns
def roc_auc(logits: Tensor, y: Tensor) -> float:
    """The probability that a positive node has a higher score than a negative node; a tie counts as one half. The
    result is NaN if there are no positive or no negative nodes.

    In a multi-label task, it is the mean over the labels that have both positive and negative nodes.
    """
    hits, taken = _curve(logits, y)
    rise, run = np.diff(hits, prepend=0), np.diff(taken - hits, prepend=0)
    pairs = int(rise.sum()) * int(run.sum())
    return float(np.sum(run * (hits - rise / 2))) / pairs if pairs else float("nan")


# -- numbers ----------------------------------------------------------------------------------------------------------


@over_columns
def r2(outputs: Tensor, y: Tensor) -> float:
    """1 − Σ(y − ŷ)² / Σ(y − ȳ)², where ȳ is the mean of y; NaN if all values of y are equal. For several regression
    targets, the result is the mean over the targets.

    >>> r2(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 2.0, 3.0]))
    1.0
    """
    total = float((y.double() - y.double().mean()).square().sum())
    return 1 - float(_errors(outputs, y).square().sum()) / total if total > 0 else float("nan")


@over_columns
def mae(outputs: Tensor, y: Tensor) -> float:
    """The mean absolute error, in the unit of ``y``. For several regression targets, it is the mean over them."""
    return float(_errors(outputs, y).abs().mean())


@over_columns
def rmse(outputs: Tensor, y: Tensor) -> float:
    """The root mean squared error, in the unit of ``y``. For several regression targets, it is the mean over them."""
    return float(_errors(outputs, y).square().mean().sqrt())


def _errors(outputs: Tensor, y: Tensor) -> Tensor:
    return outputs[:, 0].double() - y.double()


# -- metrics ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A metric: a function of outputs and labels, with its name and its properties.

    Args:
        function: a function of a model's outputs ``(n, outputs)`` and the labels. Outputs are logits. For a regression,
            they are predictions in the unit of the labels. If there are two classes, class 1 is the positive class.
        higher_is_better: whether higher values are better.
        name: the name in records and tables.
        percent: whether the metric is a fraction that is shown as a percentage.
        of_probabilities: whether the function takes ``probabilities`` instead of outputs, as user-defined metrics do.

    >>> METRICS["accuracy"].better(0.7, than=0.6), METRICS["mae"].better(0.7, than=0.6)
    (True, False)
    """

    function: Value
    higher_is_better: bool = True
    name: str = ""
    percent: bool = True
    of_probabilities: bool = False

    def __call__(self, outputs: Tensor, y: Tensor) -> float:
        """Compute the metric; NaN if there are no nodes."""
        return float(self.function(outputs, y)) if len(y) else float("nan")

    def of(self, outputs: Tensor, graph: Graph, nodes: Tensor) -> float:
        """Compute the metric on ``nodes`` of ``graph`` (indices, or a mask bool ``(N,)``), from the outputs for these
        nodes.
        """
        assert graph.y is not None
        chosen, y = turned(outputs, graph.y[nodes], graph)
        return self(probabilities(chosen, graph.kind) if self.of_probabilities else chosen, y)

    def better(self, value: float, than: float) -> bool:
        """Whether ``value`` is better than ``than``. Any value is better than NaN, and NaN is not better than a
        number.
        """
        if than != than:
            return True
        return value > than if self.higher_is_better else value < than

    def text(self, value: float | Mapping[str, float | None]) -> str:
        """Format a value, or a mean with its 95% confidence interval. Fractions are shown as percentages, without the
        percent sign.

        >>> METRICS["accuracy"].text({"mean": 0.7251, "ci95": 0.0019}), METRICS["mae"].text(12.3456)
        ('72.51 ± 0.19', '12.35')
        """
        both = value if isinstance(value, Mapping) else {"mean": value, "ci95": None}
        mean, half = (np.nan if number is None else self.scale * number for number in (both["mean"], both["ci95"]))
        if np.isnan(mean):  # there are no nodes with a label
            return "–"
        return self._format(mean) + ("" if np.isnan(half) else f" ± {self._format(half)}")

    def _format(self, value: float, sign: str = "") -> str:
        """Format a value in percent with two decimals, R² with three, and an error with four significant digits."""
        if self.percent or self.name == "r2":
            return f"{value:{sign}.{2 if self.percent else 3}f}"
        return number(value, sign)

    def with_unit(self, value: float | Mapping[str, float | None]) -> str:
        """Format a value with its unit, for use in a sentence.

        >>> METRICS["accuracy"].with_unit(0.7251), METRICS["mae"].with_unit(12.3456)
        ('72.51 %', '12.35')
        """
        return self.text(value) + (" %" if self.percent else "")

    def signed(self, difference: float) -> str:
        """Format a difference with its sign.

        >>> METRICS["accuracy"].signed(0.01), METRICS["mae"].signed(-0.5)
        ('+1.00', '-0.5')
        """
        return self._format(self.scale * difference, "+")

    def apart(self, difference: float) -> str:
        """Format an absolute difference with its unit.

        >>> METRICS["accuracy"].apart(-0.026), METRICS["mae"].apart(0.5)
        ('2.60 points', '0.5 of MAE')
        """
        return f"{self.text(abs(difference))} {self.unit}"

    @property
    def unit(self) -> str:
        """The unit of differences, as it is written after a number."""
        return "points" if self.percent else f"of {spaced(self.name)}"

    @property
    def differences(self) -> str:
        """A name for differences of the metric, capitalised for the start of a sentence."""
        return "Points" if self.percent else f"Changes of {spaced(self.name)}"

    @property
    def scale(self) -> float:
        """The factor between the metric and the displayed value: 100 for percentages, otherwise 1."""
        return 100.0 if self.percent else 1.0

    def label(self, what: str = "") -> str:
        """The label for an axis or a column heading, with the unit.

        >>> METRICS["roc_auc"].label("test"), METRICS["mae"].label("test")
        ('test ROC-AUC (%)', 'test MAE')
        """
        return f"{what} {spaced(self.name)}".strip() + (" (%)" if self.percent else "")


def turned(outputs: Tensor, y: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Convert outputs and labels to the form that metrics expect. If there are two classes and class 0 is the positive
    class, the classes are swapped, so that class 1 is positive.
    """
    if graph.kind != "binary" or graph.positive != 0:
        return outputs, y
    return (-outputs if outputs.shape[1] == 1 else outputs[:, :2].flip(1)), 1 - y


_SHARES = (accuracy, balanced_accuracy, f1, macro_f1, average_precision, roc_auc)
METRICS = {function.__name__: Metric(function, name=function.__name__) for function in _SHARES}
METRICS |= {f.__name__: Metric(f, f is r2, f.__name__, percent=False) for f in (r2, mae, rmse)}
"""All metrics by name; ``handful.graph.METRICS_OF`` lists the metrics for each kind of labels."""


def metric_of_record(name: str, higher_is_better: bool = True) -> Metric:
    """The metric that a record names: one of ``METRICS``, or a user-defined metric. A user-defined metric can then only
    compare and format values, since its function is not available.
    """

    def unknown(outputs: Tensor, y: Tensor) -> float:
        raise HandfulError(f"metric '{name}' is not one of handful's: give fit the function again")

    return METRICS.get(name) or Metric(unknown, higher_is_better, name, percent=False)


def own_metric(given: Any) -> Metric:
    """Convert a user-defined metric to a ``Metric``. The metric may be a ``Metric``, a metric of ``torchmetrics``, or a
    function of (prediction, y).

    ``prediction`` is the result of ``probabilities``. If there are two classes, ``prediction`` is the probability of
    the positive class, and ``y`` is 1 for this class. If higher values are not better, the function must have an
    attribute ``higher_is_better`` that is false.

    >>> def brier(p, y):
    ...     return (p - y).square().mean()
    >>> brier.higher_is_better = False
    >>> own_metric(brier).better(0.1, than=0.2)
    True
    """
    if isinstance(given, Metric):
        return given if given.name else Metric(given.function, given.higher_is_better, "own", given.percent)
    require_kind("metric", given, Callable, "a name, a function of (prediction, y) or a torchmetrics metric")
    name = getattr(given, "__name__", type(given).__name__)
    higher = getattr(given, "higher_is_better", True)
    if not isinstance(higher, bool):
        raise HandfulError(f"metric {name} does not say whether more is better: set its higher_is_better")

    def value(prediction: Tensor, y: Tensor) -> float:
        if y.ndim == 2 and bool(((y == 0) | (y == 1)).all()):
            y = y.to(torch.int64)  # several labels, all known
        if hasattr(given, "reset"):  # torchmetrics accumulates all earlier values
            given.reset()
        why = f"metric {name} cannot be computed from prediction {tuple(prediction.shape)} and y {tuple(y.shape)}: {{}}"
        with explaining(why, TypeError, ValueError, RuntimeError, IndexError):
            return float(given(prediction, y))

    return Metric(value, higher, name, percent=False, of_probabilities=True)
