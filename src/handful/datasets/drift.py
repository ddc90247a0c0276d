"""Drift: for each column, how a later table differs from the table to which the schema was fitted.

The values of a column are counted in bins. For numbers, quantiles of the training rows are the boundaries of the bins,
and a value that equals a boundary has a bin of its own. Each category has a bin. Missing values and new categories have
separate bins. The population stability index is Σ (q − p)·ln(q/p) over the bins: p is the fraction of the training
values in a bin, and q is the fraction of the later values.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import log, sqrt
from typing import TypeVar

import numpy as np

from handful.datasets.schema import Column, Profile, Schema
from handful.datasets.tables import TableFile, arrow, places_among
from handful.errors import DatasetError
from handful.vocabulary import number

S = TypeVar("S", Schema, Profile)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
MOVED = 0.25
"""A column has drifted if its stability index exceeds this limit plus an allowance for chance."""
LEAST = 1e-4
"""The minimum fraction p or q in the stability index. Smaller fractions are replaced by this value."""


def with_profile(schema: S, rows: TableFile, fitted: np.ndarray) -> S:
    """Add the distribution of each column to ``schema``. Only the rows in the mask ``fitted``, boolean ``(rows,)``,
    count.
    """
    return replace(schema, columns=tuple(_with_shares(column, rows, fitted) for column in schema.columns))


def moved_columns(*tables: tuple[Schema | Profile, TableFile]) -> dict[str, str]:
    """The columns of later ``tables`` that have drifted, each with a description; the column with the largest drift is
    first. Each table comes with its schema. A schema without a profile (``with_profile``) and a table without rows have
    no such columns.
    """
    result = []
    for schema, rows in tables:
        for column in schema.columns if len(rows) else ():
            with suppress(DatasetError):  # the encoder reports columns that it cannot encode
                counts = np.bincount(_bins(column, rows), minlength=_count(column))
                if len(counts) != len(column.shares):
                    continue
                was, now = np.array(column.shares), counts / len(rows)
                index = stability_index(was, now, 0.5 / min(len(rows), max(schema.rows, 1)))
                free = int(((was > 0) | (now > 0)).sum()) - 1
                chance = (free + 3 * sqrt(2 * free)) * (1 / len(rows) + 1 / max(schema.rows, 1))
                if index > MOVED + chance:
                    result.append((index, column.name, _describe(column, rows, was, now)))
    return {name: words for _, name, words in sorted(result, reverse=True)}


def stability_index(was: np.ndarray, now: np.ndarray, least: float = LEAST) -> float:
    """Σ (q − p)·ln(q/p) over the bins, where p is ``was``, q is ``now``, and fractions below ``least`` are replaced by
    ``least``.

    >>> round(stability_index(np.array([0.5, 0.5]), np.array([0.9, 0.1])), 3)
    0.879
    """
    p, q = (np.maximum(shares, max(least, LEAST)) for shares in (was, now))
    return float(((q - p) * np.log(q / p)).sum())


def _with_shares(column: Column, rows: TableFile, fitted: np.ndarray) -> Column:
    if column.kind not in ("category", "text"):
        values, missing = _means(column, rows)
        known = values[fitted & ~missing]
        column = replace(column, marks=tuple(map(float, np.quantile(known, QUANTILES))) if len(known) else ())
    shares = np.bincount(_bins(column, rows)[fitted], minlength=_count(column)) / max(1, int(fitted.sum()))
    return replace(column, shares=tuple(map(float, shares)))


def _means(column: Column, rows: TableFile) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a column, or the mean of each of its vectors, as float64 ``(rows,)``; and a mask of the missing
    values.
    """
    values, missing = column.numbers(rows)
    return values.mean(1), missing


def _count(column: Column) -> int:
    """The number of bins. The last two bins are for new categories and for missing values."""
    return len(column.categories) + 2 * len(column.marks) + 3


def _bins(column: Column, rows: TableFile) -> np.ndarray:
    """The bin of each value, int64 ``(rows,)``."""
    last = _count(column) - 1
    if column.kind in ("category", "text"):
        places = np.zeros(len(rows), int)
        if column.kind == "category":
            there = places_among(rows.text(column.name), arrow().array(column.categories, arrow().string()))
            places = np.where(there < 0, last - 1, there)
        return np.where(np.asarray(rows.column(column.name).is_null()), last, places)
    (values, missing), marks = _means(column, rows), np.array(column.marks)
    return np.where(missing, last, np.searchsorted(marks, values, "left") + np.searchsorted(marks, values, "right"))


def _describe(column: Column, rows: TableFile, was: np.ndarray, now: np.ndarray) -> str:
    """Describe the drift: the medians of numbers, or the category with the largest change; and the fractions of new and
    missing values.
    """
    said = []
    if column.marks:
        values, missing = _means(column, rows)
        if not missing.all():
            middle = float(np.median(values[~missing]))
            said.append(f"median {number(column.marks[len(QUANTILES) // 2])} → {number(middle)}")
        outside = {"below": now[0], "above": now[2 * len(QUANTILES)]}
        said += [f"{share:.0%} {words} all of training" for words, share in outside.items() if share >= 0.01]
    elif column.categories:
        change = [abs((q - p) * log(max(q, LEAST) / max(p, LEAST))) for p, q in zip(was, now, strict=True)]
        most = int(np.argmax(change[: len(column.categories)]))
        said.append(f"'{column.categories[most]}' {was[most]:.0%} → {now[most]:.0%}")
        if now[-2] > 0:
            said.append(f"values that training did not have {now[-2]:.0%}")
    if abs(now[-1] - was[-1]) >= 0.01:
        said.append(f"missing {was[-1]:.0%} → {now[-1]:.0%}")
    return ", ".join(said)
