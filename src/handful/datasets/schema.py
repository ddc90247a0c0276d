"""The schema of a node table: what is done with every column, fitted once and applied to any later table.

Columns are found by name, so their order in a table means nothing, and features stand in the order of the schema.

============  =========================================================================================
number        missing values filled, an indicator column where some are missing, scaled
date          the same, in days since 1970 (durations in days, times of day in hours)
boolean       0 or 1, filled in the same way, not scaled
category      one column per value, and one for what is missing or was not there when the schema was fitted
text          the words hashed into some columns, where that is asked for
vector        a list of numbers, as it is; a missing one is filled
============  =========================================================================================
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from handful.datasets.tables import Problems, Rows, TableFile, arrow, as_floats, as_text, first, reading
from handful.errors import DatasetError
from handful.files import plain
from handful.finding import Cell, Table
from handful.graph import Repeated, Task

Kind = Literal["number", "date", "boolean", "category", "text", "vector"]
Impute = Literal["median", "mean", "zero", "error"]
Scale = Literal["standard", "quantile", "none"]
Say = Callable[[str], None]

MOST_CATEGORIES = 1000
MANY_CATEGORIES = 50
"""Text with more values than this, and than half the rows, is taken for names or sentences."""
HASHED = 64
"""How many columns the words of a text are hashed into."""
MOST_ENTRIES = 1 << 20
"""The most numbers that a vector has."""
LANDMARKS = 101
"""How many quantiles a quantile scaling keeps."""
EDGE = 1e-7
"""Quantiles are kept this far from 0 and 1, so that their normal values stay finite."""
SHOWN = 40
"""The most columns that a printed table lists."""
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Column:
    """What is done with one column of a table.

    Args:
        name: as the table has it.
        kind: see the module.
        fill: what stands for a missing value, one number for every entry; empty where a missing value is refused.
        indicator: whether a further feature says that the value is missing.
        center, spread: a number is encoded as (x - center) / spread.
        quantiles: where there are some, a number is encoded by its place among them, as a normal score.
        categories: in the order of their features.
        size: the entries of a vector, or the features that a text is hashed into.
        missing: how many rows had no value when the schema was fitted.

    >>> Column("city", "category", categories=("Oslo", "Rome")).features
    ['city=Oslo', 'city=Rome', 'city other']
    """

    name: str
    kind: Kind
    fill: tuple[float, ...] = ()
    indicator: bool = False
    center: float = 0.0
    spread: float = 1.0
    quantiles: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    size: int = 1
    missing: int = 0

    @property
    def features(self) -> list[str]:
        """The names of the features that the column becomes."""
        if self.kind == "category":
            return [*(f"{self.name}={value}" for value in self.categories), f"{self.name} other"]
        names = [self.name] if self.size == 1 else [f"{self.name}[{i}]" for i in range(self.size)]
        return [*names, f"{self.name} missing"] if self.indicator else names

    @property
    def width(self) -> int:
        """How many features the column becomes."""
        return len(self.categories) + 1 if self.kind == "category" else self.size + self.indicator

    @property
    def done(self) -> str:
        """What is done with the column, in a few words."""
        if self.kind == "category":
            return f"one-hot: {len(self.categories)} value{'s' * (len(self.categories) != 1)} and other"
        if self.kind == "text":
            return f"words hashed into {self.size} columns"
        steps = [f"{self.size} numbers as they are"] if self.kind == "vector" else []
        if self.missing and self.fill:
            by = f"{self.fill[0]:.4g}" if self.size == 1 else "its middle"
            steps.append(f"missing = {by}" + (", with an indicator" if self.indicator else ""))
        if self.quantiles:
            steps.append("normal scores by quantiles")
        elif (self.center, self.spread) != (0.0, 1.0):
            steps.append(f"(x − {self.center:.4g}) / {self.spread:.4g}")
        return "; ".join(steps) or ("0 or 1" if self.kind == "boolean" else "as it is")

    def encode(self, rows: Rows, out: np.ndarray, say: Say) -> None:
        """Write the features of this column, float32 ``(rows, width)``, to ``out``, which is zeros."""
        if self.kind == "category":
            codes, unseen = _codes(rows, self.name, self.categories)
            out[np.arange(len(codes)), codes] = 1
            if unseen:
                say(_unseen(self, unseen))
            return
        if self.kind == "text":
            _hash_words(rows.column(self.name), rows, self.name, out)
            return
        values, missing = (_vectors if self.kind == "vector" else _numbers)(rows, self.name, self.kind, self.size)
        if missing.any():
            if not self.fill:
                raise DatasetError(f"{rows.row(int(missing.argmax()))}: '{self.name}' is missing{_more(missing)}")
            if not self.missing:
                say(f"'{self.name}' is missing in {int(missing.sum()):,} rows, and was in none before: it is filled")
            values = np.where(missing[:, None], self.fill, values)
        if self.quantiles:
            values = normal_scores(values, np.array(self.quantiles))
        out[:, : self.size] = (values - self.center) / self.spread
        if self.indicator:
            out[:, self.size] = missing


@dataclass(frozen=True)
class Edges:
    """What the columns of an edge list are, and what is done with its edges."""

    source: str
    target: str
    weight: str | None = None
    undirected: bool = False
    repeated: Repeated | None = None

    def __post_init__(self) -> None:
        if self.target == self.source or self.weight in (self.source, self.target):
            named = f"source '{self.source}', target '{self.target}', weight '{self.weight}'"
            raise DatasetError(f"a column of an edge list is one thing alone: {named}")


@dataclass(frozen=True)
class Schema:
    """How tables become a graph: all that was decided and fitted when the first ones were read.

    Args:
        id: the column of node ids.
        edges: the edge list.
        columns: those that are features, in the order of the features.
        labels: the columns of labels; several for a multi-label task.
        task: what the labels are.
        classes: what the numbers of the labels stand for.
        split: the column that says train, val or test.
        ignored: columns that are left out.
        rows: how many rows medians and scales were taken from.
        training: whether those were the training rows alone.

    >>> schema = Schema("id", Edges("source", "target"), (Column("age", "number", fill=(40.0,), spread=10.0),))
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    id: str
    edges: Edges
    columns: tuple[Column, ...] = ()
    labels: tuple[str, ...] = ()
    task: Task = "classification"
    classes: tuple[str, ...] = ()
    split: str | None = None
    ignored: tuple[str, ...] = ()
    rows: int = 0
    training: bool = False

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(column.width for column in self.columns)

    @property
    def features(self) -> list[str]:
        """The names of all features, in order."""
        return [name for column in self.columns for name in column.features]

    def as_text(self) -> list[str]:
        """The columns that a CSV file must not be guessed about: their cells are text."""
        own = [column.name for column in self.columns if column.kind in ("category", "text")]
        return [self.id, *own, *([] if self.split is None else [self.split])]

    # -- applying -----------------------------------------------------------------------------------------------------

    def check(self, rows: Rows, say: Say) -> None:
        """Refuse a table that lacks columns of the schema, all of them named; say which it has that are not used."""
        has = set(rows.source.names)
        lacking = [name for name in (self.id, *(column.name for column in self.columns)) if name not in has]
        if lacking:
            raise DatasetError(
                f"{rows.source.path} has no column {_listed(lacking)}, which the schema needs: its columns are "
                f"{_listed(rows.source.names)}"
            )
        known = {self.id, self.split, *self.labels, *self.ignored, *(column.name for column in self.columns)}
        extra = [name for name in rows.source.names if name not in known]
        if extra:
            say(
                f"{rows.source.path}: {_listed(extra)} {'is' if len(extra) == 1 else 'are'} not in the schema: not used"
            )

    def encode(self, rows: Rows, problems: Problems, say: Say) -> np.ndarray:
        """The features of a table, float32 ``(rows, width)``."""
        x = np.zeros((len(rows), self.width), np.float32)
        at = 0
        for column in self.columns:
            with problems.collected():
                column.encode(rows, x[:, at : at + column.width], lambda text: say(f"{rows.source.path}: {text}"))
            at += column.width
        return x

    def missing_row(self) -> np.ndarray:
        """The features, float32 ``(width,)``, of a node that no table describes."""
        refused = [
            column.name for column in self.columns if column.kind not in ("category", "text") and not column.fill
        ]
        if refused:
            raise DatasetError(f"a node without a row has no {_listed(refused)}, and missing values are refused")
        pa = arrow()
        table = pa.table({column.name: pa.nulls(1) for column in self.columns})
        row: np.ndarray = self.encode(Rows(TableFile.open(table), table), Problems(), lambda text: None)[0]
        return row

    def label_fields(self, rows: Rows, say: Say) -> dict[str, Any]:
        """``y`` of a table by this schema, as fields of ``Graph``; labels that the schema does not know are unknown."""
        if not self.labels or any(name not in rows.source.names for name in self.labels):
            return {}
        if self.task != "classification":
            return {"y": _targets(rows, self.labels, self.task), "task": self.task, **self._named()}
        texts = _label_texts(rows, self.labels[0])[0]
        pa = arrow()
        codes = pa.compute.fill_null(pa.compute.index_in(texts, value_set=pa.array(self.classes, pa.string())), -1)
        y = codes.to_numpy(zero_copy_only=False).astype(np.int64)
        unseen = (y < 0) & texts.is_valid().to_numpy(zero_copy_only=False)
        if unseen.any():
            such = texts[int(unseen.argmax())].as_py()
            say(f"{rows.source.path}: {int(unseen.sum()):,} labels are no class of the schema, such as '{such}'")
        return {"y": y, **self._named()}

    def _named(self) -> dict[str, Any]:
        if self.task == "regression":
            return {}
        numbered = self.classes == tuple(str(i) for i in range(len(self.classes)))
        names = None if numbered and self.task == "classification" else self.classes
        return {"num_classes": len(self.classes), "class_names": names}

    # -- comparing ----------------------------------------------------------------------------------------------------

    def differences(self, other: Schema) -> list[str]:
        """In what the features of ``other`` are not those of this schema, in words, column by column."""
        mine = {column.name: column for column in self.columns}
        theirs = {column.name: column for column in other.columns}
        found = [f"'{name}' is missing" for name in mine if name not in theirs]
        found += [f"'{name}' is new" for name in theirs if name not in mine]
        for name, column in mine.items():
            if name in theirs:
                found += _column_differences(column, theirs[name])
        if not found and list(mine) != list(theirs):
            found = ["the columns are in another order"]
        return found

    # -- for people and files -----------------------------------------------------------------------------------------

    def table(self) -> Table:
        """What is done with every column, for people."""
        rows = [[Cell(self.id), Cell("id"), Cell("kept, and given back with predictions"), Cell("")]]
        for name in self.labels:
            what = f"{len(self.classes)} classes" if self.task == "classification" else self.task
            rows.append([Cell(name), Cell("label"), Cell(what), Cell("")])
        if self.split is not None:
            rows.append([Cell(self.split), Cell("split"), Cell("train, val, test"), Cell("")])
        for column in self.columns[:SHOWN]:
            missing = f"{column.missing:,}" if column.missing else ""
            rows.append([Cell(column.name), Cell(column.kind), Cell(column.done), Cell(missing)])
        if len(self.columns) > SHOWN:
            rows.append([Cell(f"… {len(self.columns) - SHOWN:,} more"), Cell(""), Cell(""), Cell("")])
        rows += [[Cell(name), Cell(""), Cell("left out"), Cell("")] for name in self.ignored[:SHOWN]]
        title = "Columns" if not self.columns else f"Columns: {self.width} features, {self.fitted_on}"
        return Table(title, ["Column", "Kind", "What is done", "Missing"], rows)

    @property
    def fitted_on(self) -> str:
        """Which rows the schema was fitted on, in words."""
        which = f"the {self.rows:,} training rows" if self.training else f"all {self.rows:,} rows"
        return f"medians and scales of {which}"

    def to_json(self) -> dict[str, Any]:
        """The schema as plain values; fields of a column that have their default are left out."""
        columns = [
            {f.name: value for f in fields(column) if (value := getattr(column, f.name)) != f.default}
            for column in self.columns
        ]
        found: dict[str, Any] = plain({**asdict(self), "columns": columns})
        return found

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What ``to_json`` gave, or a file with it.

        Raises:
            DatasetError: it is not a schema.
        """
        try:
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in dict(value).items()}
            columns = tuple(_column_from(one) for one in given.pop("columns"))
            edges = Edges(**given.pop("edges"))
            made = cls(columns=columns, edges=edges, **given)
            texts = (made.id, edges.source, edges.target, *made.labels, *made.classes, *made.ignored)
            named = all(isinstance(text, str) for text in texts)
            named &= all(text is None or isinstance(text, str) for text in (made.split, edges.weight))
            listed = all(isinstance(some, tuple) for some in (made.labels, made.classes, made.ignored))
            flags = isinstance(made.training, bool) and isinstance(edges.undirected, bool)
            known = made.task in get_args(Task) and edges.repeated in (None, *get_args(Repeated))
            differ = len({c.name for c in columns}) == len(columns) and len(set(made.classes)) == len(made.classes)
            if not (named and listed and flags and known and differ and _is_whole(made.rows)):
                raise ValueError("a field has a value that it cannot have")
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise DatasetError(f"this is not a schema of this version of handful: {error}") from None
        return made


def _column_from(value: Mapping[str, Any]) -> Column:
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    column = Column(**given)
    numbers = (*column.fill, *column.quantiles, column.center, column.spread)
    whole = _is_whole(column.size) and _is_whole(column.missing) and 0 < column.size <= MOST_ENTRIES
    sized = column.size == 1 or column.kind == "vector" or (column.kind == "text" and column.size <= 64 * HASHED)
    listed = all(isinstance(some, tuple) for some in (column.fill, column.quantiles, column.categories))
    sound = all(math.isfinite(number) for number in numbers) and column.spread != 0 and whole and sized and listed
    filled = len(column.fill) in (0, column.size) and len(set(column.categories)) == len(column.categories)
    ordered = len(column.quantiles) != 1 and list(column.quantiles) == sorted(column.quantiles)
    named = isinstance(column.name, str) and all(isinstance(text, str) for text in column.categories)
    kind = column.kind in get_args(Kind) and isinstance(column.indicator, bool)
    if not (sound and filled and ordered and named and kind):
        raise ValueError(f"column {column.name!r} has a value that it cannot have")
    return column


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _column_differences(mine: Column, other: Column) -> list[str]:
    if mine.kind != other.kind:
        return [f"'{mine.name}' is a {other.kind}, not a {mine.kind}"]
    if mine.categories != other.categories:
        odd = sorted(set(mine.categories) ^ set(other.categories))
        return [f"'{mine.name}' has other categories" + (f" ({_listed(odd)})" if odd else "")]
    if mine.width != other.width:
        return [f"'{mine.name}' has {other.width} features, not {mine.width}"]
    if (mine.center, mine.spread, mine.quantiles) != (other.center, other.spread, other.quantiles):
        return [f"'{mine.name}' is scaled otherwise"]
    return [f"'{mine.name}' is filled otherwise"] if mine.fill != other.fill else []


# -- fitting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """How columns are to be treated.

    Args:
        names: the columns that are features.
        categorical: of those, the ones whose numbers are codes.
        hashed: of those, the ones whose words are hashed.
        impute: what stands for a missing number: ``median``, ``mean``, ``zero``; or ``error`` to refuse it.
        scale: ``standard`` (mean 0, standard deviation 1), ``quantile`` (normal scores) or ``none``.
    """

    names: Sequence[str]
    categorical: Sequence[str] = ()
    hashed: Sequence[str] = ()
    impute: Impute = "median"
    scale: Scale = "standard"


def fit_columns(
    rows: Rows, wanted: Wanted, fitted: np.ndarray, problems: Problems
) -> tuple[tuple[Column, ...], list[str]]:
    """What to do with the columns of a table; and the names of those that are empty, with which nothing can be done.

    Args:
        rows: the table.
        wanted: which columns, and how.
        fitted: boolean ``(rows,)``, the rows that medians and scales are taken from; categories are those of all.
        problems: where mistakes go.
    """
    found: dict[str, Column | None] = {}
    for name in wanted.names:
        with problems.collected():
            found[name] = _fit_column(rows, name, wanted, fitted)
    return tuple(c for c in found.values() if c is not None), [name for name, c in found.items() if c is None]


def _fit_column(rows: Rows, name: str, wanted: Wanted, fitted: np.ndarray) -> Column | None:
    kind = _kind(rows, name, wanted)
    if kind is None:
        return None
    missing = rows.column(name).null_count
    if kind == "category":
        return Column(name, kind, categories=_fit_categories(rows, name, name in wanted.categorical), missing=missing)
    if kind == "text":
        return Column(name, kind, size=HASHED, missing=missing)
    values, absent = (_vectors if kind == "vector" else _numbers)(rows, name, kind, None)
    if absent.all():
        return None
    known = values[fitted & ~absent] if (fitted & ~absent).any() else values[~absent]
    count = int(absent.sum())
    if count and wanted.impute == "error":
        raise DatasetError(
            f"{rows.row(int(absent.argmax()))}: '{name}' is missing{_more(absent)}: fill it, or ignore it"
        )
    fill = _middle(known, wanted.impute)
    if kind == "boolean":
        fill = np.round(fill)
    column = Column(name, kind, tuple(map(float, fill)), indicator=count > 0, size=values.shape[1], missing=count)
    if kind not in ("number", "date") or wanted.scale == "none":
        return column
    if wanted.scale == "quantile":
        marks = np.quantile(known[:, 0], np.linspace(0, 1, LANDMARKS))
        return replace(column, quantiles=tuple(map(float, marks)))
    center, spread = float(known.mean()), float(known.std())
    return replace(column, center=center, spread=spread if spread > 1e-12 * max(1.0, abs(center)) else 1.0)


def _middle(known: np.ndarray, impute: Impute) -> np.ndarray:
    """What stands for a missing value, for every column of ``known``; nothing where it is refused."""
    if impute == "error":
        return np.zeros(0)
    if impute == "zero":
        return np.zeros(known.shape[1])
    middle: np.ndarray = np.median(known, axis=0) if impute == "median" else np.mean(known, axis=0)
    return middle


def _kind(rows: Rows, name: str, wanted: Wanted) -> Kind | None:
    """The kind of a column that is to be fitted; ``None`` if it is empty."""
    types = arrow().types
    column = rows.column(name)
    kind = column.type
    if types.is_null(kind) or column.null_count == len(column):
        return None
    if name in wanted.hashed:
        return "text"
    if name in wanted.categorical:
        return "category"
    if _is_list(kind) or (name == "feat" and types.is_string(kind)):
        return "vector"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return "date"
    if types.is_string(kind):
        if _has_decimal_commas(column):
            raise DatasetError(
                f"{rows.source.path}: column '{name}' holds numbers with a comma ('{column.drop_null()[0]}'): write "
                "them with a point and without separators, or make it categorical"
            )
        return "category"
    raise DatasetError(f"{rows.source.path}: column '{name}' holds {kind}, neither numbers nor text: ignore it")


def _has_decimal_commas(column: Any) -> bool:
    """Whether a text column is one of numbers as they are written where the comma is the decimal point."""
    compute, values = arrow().compute, column.drop_null()
    numbers = compute.match_substring_regex(values, r"^\s*-?[0-9]+(\.[0-9]{3})*(,[0-9]+)?\s*$")
    return bool(compute.all(numbers).as_py() and compute.any(compute.match_substring(values, ",")).as_py())


def _is_list(kind: Any) -> bool:
    types = arrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _fit_categories(rows: Rows, name: str, asked: bool) -> tuple[str, ...]:
    with reading(rows.source.path):
        texts = as_text(rows.column(name))
    values = sorted(v for v in texts.unique().to_pylist() if v is not None)
    many = len(values) > MANY_CATEGORIES and 2 * len(values) > len(rows) and not asked
    if many or len(values) > MOST_CATEGORIES:
        raise DatasetError(
            f"{rows.source.path}: column '{name}' has {len(values):,} different values, too many for a column each: "
            "ignore it, or have its words hashed"
        )
    return tuple(values)


def normal_scores(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """The quantile transform to a standard normal distribution.

    A value's quantile is read off the reference ``quantiles``, from below and from above, and the two are averaged, so
    that a value that fills several quantiles gets their middle.
    """
    from scipy.special import ndtri  # when needed: it takes as long to import as a small graph to train on

    reference = np.linspace(0, 1, len(quantiles))
    share = 0.5 * (
        np.interp(values, quantiles, reference) - np.interp(-values, -quantiles[::-1], -reference[::-1])
    ).astype(values.dtype)
    share[values + EDGE > quantiles[-1]] = 1
    share[values - EDGE < quantiles[0]] = 0
    limit = EDGE - np.spacing(1)
    scores: np.ndarray = np.clip(ndtri(share), ndtri(limit), ndtri(1 - limit))
    return scores


# -- labels -----------------------------------------------------------------------------------------------------------


def fit_labels(rows: Rows, labels: Sequence[str], task: Task) -> tuple[str, ...]:
    """The classes: the distinct labels in sorted order, by number where all are whole; the columns of many labels.

    A column without any label has none.
    """
    if task == "regression":
        if len(labels) != 1:
            raise DatasetError(f"a regression has one column of labels, got {_listed(labels)}")
        return ()
    if task == "multilabel":
        return tuple(labels)
    if len(labels) != 1:
        raise DatasetError(f"labels in several columns ({_listed(labels)}) are for the task multilabel")
    texts, whole = _label_texts(rows, labels[0])
    values = [value for value in texts.unique().to_pylist() if value is not None]
    if len(values) > MANY_CATEGORIES and 2 * len(values) > len(texts) - texts.null_count:
        raise DatasetError(
            f"{rows.source.path}: '{labels[0]}' has {len(values):,} classes, nearly one a row: name another column as "
            "label, or say that it is a regression"
        )
    return tuple(sorted(values, key=int) if whole else sorted(values))


def _label_texts(rows: Rows, name: str) -> tuple[Any, bool]:
    """A column of classes as text, missing where it is unknown, and whether all are whole numbers."""
    pa = arrow()
    column = rows.column(name)
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = as_floats(column)
        at = first(np.isinf(numbers))
        if at is not None:
            raise DatasetError(f"{rows.row(at)}: label {numbers[at]} is not finite")
        at = first(~np.isnan(numbers) & (numbers != np.round(numbers)))
        if at is not None:
            raise DatasetError(
                f"{rows.row(at)}: label {numbers[at]} is a fraction, not a class: is it a --task regression?"
            )
        with reading(rows.source.path):
            column = pa.compute.cast(pa.array(numbers, from_pandas=True), pa.int64())
    whole = bool(pa.types.is_integer(column.type) or pa.types.is_null(column.type))
    if whole and not pa.types.is_null(column.type) and not pa.types.is_unsigned_integer(column.type):
        column = pa.compute.if_else(pa.compute.equal(column, -1), None, column)
    with reading(rows.source.path):
        return as_text(column), whole


def _targets(rows: Rows, labels: Sequence[str], task: Task) -> np.ndarray:
    """float32 ``(rows,)`` for a regression, ``(rows, labels)`` of 0 and 1 for many labels; NaN where unknown."""
    values = np.concatenate([_numbers(rows, name, "number", 1)[0] for name in labels], axis=1)
    if task == "multilabel":
        odd = ~(np.isnan(values) | (values == 0) | (values == 1))
        wrong = first(np.asarray(odd.any(axis=1)))
        if wrong is not None:
            raise DatasetError(f"{rows.row(wrong)}: the labels of a multi-label task are 0 or 1")
    return (values[:, 0] if task == "regression" else values).astype(np.float32)


# -- values -----------------------------------------------------------------------------------------------------------


def _numbers(rows: Rows, name: str, kind: Kind, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """float64 ``(rows, 1)``, and which are missing."""
    types = arrow().types
    column = rows.column(name)
    held = column.type
    numeric = types.is_integer(held) or types.is_floating(held) or types.is_decimal(held) or types.is_boolean(held)
    temporal = types.is_temporal(held) and not types.is_interval(held)
    if not types.is_null(held) and not (temporal if kind == "date" else numeric):
        such = next((value for value in column.to_pylist() if value is not None), "")
        raise DatasetError(
            f"{rows.source.path}: '{name}' holds {_held(held)} such as {str(such)[:40]!r}, and was a {kind} before"
        )
    with reading(rows.source.path):
        values = as_floats(column)
    at = first(np.isinf(values))
    if at is not None:
        raise DatasetError(f"{rows.row(at)}: '{name}' is {values[at]}, which is not finite{_more(np.isinf(values))}")
    if kind == "boolean" and (at := first(~(np.isnan(values) | (values == 0) | (values == 1)))) is not None:
        raise DatasetError(f"{rows.row(at)}: '{name}' is {values[at]:g}, and was true or false before")
    return values[:, None], np.isnan(values)


def _held(kind: Any) -> str:
    types = arrow().types
    tests = {
        "text": types.is_string,
        "numbers": lambda kind: types.is_integer(kind) or types.is_floating(kind),
        "dates": types.is_temporal,
        "booleans": types.is_boolean,
    }
    return next((words for words, test in tests.items() if test(kind)), str(kind))


def _vectors(rows: Rows, name: str, kind: Kind, size: int | None) -> tuple[np.ndarray, np.ndarray]:
    """float64 ``(rows, size)``, and which rows have no vector; ``size`` is that of the first, where it is not known."""
    pa = arrow()
    column = rows.column(name)
    if pa.types.is_null(column.type):
        return np.zeros((len(rows), size or 1)), np.ones(len(rows), bool)
    with reading(rows.source.path):
        if pa.types.is_string(column.type):  # DGL writes a vector as text: "0.1, 0.2, 0.3".
            column = pa.compute.split_pattern(pa.compute.replace_substring(column, " ", ""), ",")
        if not _is_list(column.type):
            raise DatasetError(f"{rows.source.path}: '{name}' holds {_held(column.type)}, and held vectors before")
        flat = column.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    size = int(lengths[~missing][0]) if size is None and not missing.all() else size or 1
    ragged = first(~missing & (lengths != size))
    if ragged is not None or size == 0:
        raise DatasetError(
            f"{rows.row(ragged or 0)}: '{name}' has {lengths[ragged or 0]} values, and others have {size}"
        )
    values = np.zeros((len(rows), size))
    values[~missing] = flat.reshape(-1, size)
    at = first(np.asarray(~np.isfinite(values).all(axis=1)))
    if at is not None:
        raise DatasetError(f"{rows.row(at)}: '{name}' holds a value that is missing or not finite")
    return values, missing


def _codes(rows: Rows, name: str, categories: tuple[str, ...]) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """The place of every value among ``categories``, their number for all others; and those others that are a value."""
    pa = arrow()
    with reading(rows.source.path):
        texts = as_text(rows.column(name))
    codes = pa.compute.index_in(texts, value_set=pa.array(categories, pa.string()))
    codes = pa.compute.fill_null(codes, len(categories)).to_numpy(zero_copy_only=False)
    others = texts.filter(pa.array(codes == len(categories))).drop_null()
    counted = [(one["values"], one["counts"]) for one in others.value_counts().to_pylist()] if len(others) else []
    return codes, counted


def _unseen(column: Column, unseen: list[tuple[str, int]]) -> str:
    names = _listed([f"'{value}'" for value, _ in unseen])
    learned = "" if column.missing else ", which no row was in before"
    rows = sum(count for _, count in unseen)
    return f"'{column.name}' has values that are not in the schema, {names}: {rows:,} rows are 'other'{learned}"


def _hash_words(column: Any, rows: Rows, name: str, out: np.ndarray) -> None:
    """The words of every text, each counted with a sign in a place that its checksum gives, in unit length."""
    if arrow().types.is_null(column.type):
        return
    with reading(rows.source.path):
        encoded = as_text(column).dictionary_encode()
    vectors = np.zeros((len(encoded.dictionary) + 1, out.shape[1]), np.float32)
    for i, text in enumerate(encoded.dictionary.to_pylist()):
        for word in WORD.findall(text.lower()):
            mixed = zlib.crc32(word.encode())
            vectors[i, mixed % out.shape[1]] += 1 if mixed >> 31 else -1
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(norms, 1e-12)
    out[:] = vectors[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)]


def _more(wrong: np.ndarray) -> str:
    count = int(wrong.sum()) - 1
    return f" (and in {count:,} more rows)" if count else ""


def alike(values: Sequence[str]) -> list[str]:
    """The first two values that differ by spaces or capitals alone, if any.

    >>> alike(["Lyon", "Porto", "lyon "])
    ['Lyon', 'lyon ']
    """
    seen: dict[str, str] = {}
    for value in values:
        other = seen.setdefault(" ".join(value.split()).casefold(), value)
        if other != value:
            return [other, value]
    return []


def _listed(names: Sequence[str], most: int = 6) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
