"""Find columns that predict the label (nearly) perfectly on their own. Often, the values of such a column become known
only after the label.
"""

from __future__ import annotations

import numpy as np

from handful.datasets.schema import Column, Schema
from handful.random import generator

MOST_ROWS = 20_000
"""The maximum number of labelled rows that are used. If there are more, this many are drawn at random."""
BINS = 64
"""The number of quantile bins of a numeric column. For classification, the quantiles are computed within each frequent
class.
"""
CLASSES = 8
"""At most this many classes, the most frequent ones, have their own quantiles."""
NEARLY = 0.05
"""A column leaks if its error is at most this fraction of the error of always predicting the majority class or the
mean.
"""
LEAST_MISTAKES = 10
"""Columns are tested only if always predicting the majority class makes at least this many mistakes."""


def leaking_columns(schema: Schema, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The columns that predict the label on their own, each with its relative error, which is the error of the column
    divided by the error of always predicting the majority class or the mean.

    The prediction for a bin of a column is the most frequent class, or the mean target, of the bin in one half of the
    rows. The error is measured on the other half: it is the number of mistakes for classification, and the squared
    error for regression.

    Args:
        schema: the schema of the table.
        x: float32 ``(rows, width)``, the features of the table.
        y: ``(rows,)``, classes (-1 if unknown) or regression targets (NaN if unknown).

    >>> schema = Schema("id", None, (Column("age", "number"), Column("paid", "number")))
    >>> y = np.arange(100) % 2
    >>> leaking_columns(schema, np.stack([np.arange(100) // 2 % 7, 3 * y], axis=1), y)
    {'paid': 0.0}
    """
    rng, numbers = generator(0), y.dtype.kind == "f"
    rows = rng.permutation(np.flatnonzero(~np.isnan(y) if numbers else y >= 0))[:MOST_ROWS]
    fitted, judged = np.array_split(rows, 2)
    if not len(judged):
        return {}
    usual = float(y[fitted].mean() if numbers else np.bincount(y[fitted]).argmax())
    worst = _mistakes(y[judged], np.full(len(judged), usual), numbers)
    result = {}
    for column, own in schema.by_column(x):
        if column.kind not in ("text", "vector") and (numbers or worst >= LEAST_MISTAKES):
            values = own[rows]
            bins = _bins(column, values if isinstance(values, np.ndarray) else values.toarray(), y[fitted])
            guess = _guesses(bins[: len(fitted)], y[fitted], usual, int(bins.max()) + 1, numbers)
            left = _mistakes(y[judged], guess[bins[len(fitted) :]], numbers) / max(worst, 1e-12)
            if left <= NEARLY:
                result[column.name] = left
    return result


def _mistakes(y: np.ndarray, guess: np.ndarray, numbers: bool) -> float:
    return float(((y - guess) ** 2).sum() if numbers else (y != guess).sum())


def _bins(column: Column, values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The bin of each value, int64 ``(rows,)``. Each category is a bin; numbers have quantile bins; missing values have
    bins of their own.

    The quantiles are computed for each frequent class of ``y`` separately, so that a rarer class has its own bins.
    """
    if column.kind == "category":
        return np.asarray(values.argmax(axis=1))
    first = values[: len(y), 0]
    groups = [first] if y.dtype.kind == "f" else [first[y == c] for c in np.bincount(y).argsort()[-CLASSES:]]
    shares = np.linspace(0, 1, BINS // len(groups) + 1)
    marks = np.unique(np.concatenate([np.quantile(group, shares) for group in groups if len(group)]))
    marks = (marks[1:] + marks[:-1]) / 2
    return np.asarray(2 * np.searchsorted(marks, values[:, 0]) + (values[:, 1] > 0 if column.indicator else 0))


def _guesses(bins: np.ndarray, y: np.ndarray, usual: float, count: int, numbers: bool) -> np.ndarray:
    """The prediction for each bin: its mean target or its most frequent class; ``usual`` for an empty bin."""
    if numbers:
        sizes = np.bincount(bins, minlength=count)
        return np.where(sizes > 0, np.bincount(bins, y, count) / np.maximum(sizes, 1), usual)
    classes = int(y.max()) + 1
    table = np.bincount(bins * classes + y, minlength=count * classes).reshape(count, classes)
    return np.where(table.any(axis=1), table.argmax(axis=1), usual)
