"""The schema of a node table: the encoding of every column, fitted once and applied to any later table.

Columns are looked up by name: the order of the columns in a table does not matter. Features are in the order of the
schema.

============  =======================================================================================
number        missing values are imputed, with an indicator column if some are missing; then scaled
date          like a number: days since 1970 (durations in days, times of day in hours)
boolean       0 or 1; imputed like a number, not scaled
category      one column per value, and one more for values that are missing or not in the schema
text          words hashed into several columns, only for columns in the option ``hashed``
vector        a list of numbers, unchanged; a missing vector is imputed
============  =======================================================================================
"""

from __future__ import annotations

import codecs
import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np

from handful.datasets.tables import Problems, TableFile, arrow, places_among, reading
from handful.errors import DatasetError, explaining
from handful.files import plain
from handful.finding import Cell, Table, decode
from handful.settings import MOST_HASHED, Repeated, TableOptions, Task, Unknown

Kind = Literal["number", "date", "boolean", "category", "text", "vector"]
Say = Callable[[str], None]

MOST_CATEGORIES = 1000
MANY_CATEGORIES = 50
"""A text column raises an error if it has more distinct values than this, and more distinct values than half the number
of rows.
"""
SOME_NUMBERS = 20
"""If a text column has more distinct numbers than this, and few other values, the other values raise an error."""
MOST_ENTRIES = 1 << 20
"""The maximum length of a vector."""
LANDMARKS = 101
"""The number of quantiles that are stored for the quantile scaling of a column."""
EDGE = 1e-7
"""The minimum distance of a quantile level from 0 and from 1, so that normal scores are finite."""
NARROW, THIN = 512, 0.01
"""Features are sparse if there are more than ``NARROW`` columns, and at most the share ``THIN`` of all values is not
0."""
SHOWN = 40
"""The maximum number of columns in a printed table."""
WORD = re.compile(r"\w+")
DATE = r"^(?P<a>\d{1,4})(?P<sign>[./-])(?P<b>\d{1,2})[./-](?P<c>\d{1,4})(?P<clock>(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?)$"
"""The pattern of a text date, with or without the time of day."""


# -- the fitted encoding ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """The encoding of one column of a table.

    Args:
        name: the name of the column.
        kind: one of the kinds in the docstring of this module.
        fill: the value that replaces a missing value, one number per entry; empty if missing values raise an error.
        indicator: whether an additional feature marks missing values.
        center, spread: a number is encoded as (x - center) / spread.
        quantiles: if not empty, a number is encoded as a normal score, by its rank among these quantiles.
        categories: the categories, in the order of their features.
        format: the ``strptime`` format of text dates; in later tables, only the order of day, month and year counts.
        size: the number of entries of a vector, or the number of features of a hashed text.
        idf: for text, the weight of each hashed feature: ln((1 + rows) / (1 + rows with this feature)) + 1.
        missing: the number of rows without a value in the table to which the schema was fitted.
        marks, shares: the distribution of the column in the rows to which the schema was fitted; see
            ``handful.datasets.drift``.

    >>> Column("city", "category", categories=("Oslo", "Rome")).width
    3
    """

    name: str
    kind: Kind
    fill: tuple[float, ...] = ()
    indicator: bool = False
    center: float = 0.0
    spread: float = 1.0
    quantiles: tuple[float, ...] = ()
    categories: tuple[str, ...] = ()
    format: str = ""
    size: int = 1
    missing: int = 0
    marks: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    idf: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        sized = self.size == 1 or self.kind == "vector" or (self.kind == "text" and self.size <= MOST_HASHED)
        sound = self.spread != 0 and self.missing >= 0 and 0 < self.size <= MOST_ENTRIES and sized
        filled = {len(self.fill), len(self.idf)} <= {0, self.size} and len(set(self.categories)) == len(self.categories)
        ordered = len(self.quantiles) != 1 and all(list(q) == sorted(q) for q in (self.quantiles, self.marks))
        if not (sound and filled and ordered):
            raise ValueError(f"column {self.name!r} has a value that it cannot have")

    @property
    def width(self) -> int:
        """The number of features that encode the column."""
        return len(self.categories) + 1 if self.kind == "category" else self.size + self.indicator

    def numbers(self, rows: TableFile) -> tuple[np.ndarray, np.ndarray]:
        """The values, float64 ``(rows, size)``, and a mask of the rows with missing values.

        If the column of ``rows`` has another kind, this raises an error. Booleans are accepted as numbers, and the
        numbers 0 and 1 are accepted as booleans.
        """
        name, kind, column, format = self.name, self.kind, rows.column(self.name), ""
        if len(known := column.drop_null()):
            if kind == "date" and arrow().types.is_string(column.type):
                format = date_format(rows, name, self.date_order) or self.format
            result = "date" if format else _kind_of(column.type)
            if result != kind and {result, kind} != {"number", "boolean"}:
                such = f"'{name}' holds {column.type} such as '{known[0]!s:.40}'"
                raise rows.error(f"{such}, and was a {kind} before (decimal mark '{rows.decimal}')")
        if kind == "vector":
            return _vectors(rows, name, column, self.size)
        values = rows.numbers(name, missing=True, format=format)
        if kind == "boolean":
            rows.refuse(_is_no_bit(values), f"'{name}' is {{}}, and was true or false before", values)
        return values[:, None], np.isnan(values)

    @property
    def date_order(self) -> str:
        """The order of day, month and year in text dates, for ``date_format``."""
        letters = [letter for letter in self.format.lower() if letter in "dmy"]
        return "auto" if self.format[:2] in ("", "%Y") else "".join(letters[:3])

    @property
    def done(self) -> str:
        """A short description of the encoding."""
        if self.kind == "category":
            return f"one-hot: {len(self.categories)} value{'s' * (len(self.categories) != 1)} and other"
        if self.kind == "text":
            return f"words hashed into {self.size} columns" + ", by tf-idf" * bool(self.idf)
        steps = [f"{self.size} numbers as they are"] if self.kind == "vector" else []
        if self.missing and self.fill:
            by = f"{self.fill[0]:.4g}" if self.size == 1 else "its middle"
            steps.append(f"missing = {by}, with an indicator")
        if self.quantiles:
            steps.append("normal scores by quantiles")
        elif (self.center, self.spread) != (0.0, 1.0):
            steps.append(f"(x − {self.center:.4g}) / {self.spread:.4g}")
        return "; ".join(steps) or ("0 or 1" if self.kind == "boolean" else "as it is")

    def encode(self, rows: TableFile, say: Say, dtype: type = np.float32) -> Any:
        """The features of this column, ``(rows, width)``; for text, a sparse matrix of SciPy."""
        if self.kind == "text":
            return self._words(rows)
        out: np.ndarray = np.zeros((len(rows), self.width), dtype)
        if self.kind == "category":
            places, unseen = _places(rows.text(self.name), self.categories)
            out[np.arange(len(places)), places] = 1  # the last feature is for -1
            if len(unseen):
                names = _list_names([f"'{value}'" for value in unseen.unique().to_pylist()])
                other = f"{len(unseen):,} rows are 'other'" + ("" if self.missing else ", which no row was in before")
                say(f"'{self.name}' has values that are not in the schema, {names}: {other}")
            return out
        values, missing = self.numbers(rows)
        if not self.fill:
            rows.refuse(missing, f"'{self.name}' is missing")
        if missing.any():
            if not self.missing:
                say(f"'{self.name}' is missing in {int(missing.sum()):,} rows, and was in none before: it is filled")
            values = np.where(missing[:, None], self.fill, values)
        if self.quantiles:
            values = normal_scores(values, np.array(self.quantiles))
        out[:, : self.size] = (values - self.center) / self.spread
        if self.indicator:
            out[:, self.size] = missing
        return out

    def _words(self, rows: TableFile) -> Any:
        result, idf = _hash_words(rows, self.name, self.size), np.array(self.idf or [1] * self.size)
        of = np.repeat(np.arange(len(rows)), np.diff(result.indptr))
        weighed = result.data * idf[result.indices]
        norm = np.sqrt(np.bincount(of, weighed**2, len(rows)))
        result.data = (weighed / norm[of]).astype(np.float32)
        return result


@dataclass(frozen=True)
class Profile:
    """The distributions of ``columns`` in ``rows`` rows; see ``handful.datasets.drift``."""

    columns: tuple[Column, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class Edges:
    """The roles of the columns of an edge list, and the options for its edges.

    ``columns`` become node features: each node gets the mean of the column over its edges. ``unknown`` is the treatment
    of edges to ids without a row; see ``TableOptions``. ``time`` is the column by which the first import left out later
    edges. Later tables need no times, and all their edges are used. ``values`` and ``degrees`` are the distributions of
    the weights and other columns, and of the number of edges per node.
    """

    source: str
    target: str
    weight: str | None = None
    undirected: bool = False
    repeated: Repeated | None = None
    columns: tuple[Column, ...] = ()
    unknown: Unknown = "error"
    time: str | None = None
    values: Profile = Profile()
    degrees: Profile = Profile()

    def __post_init__(self) -> None:
        roles = [name for name in (self.source, self.target, self.weight, self.time) if name is not None]
        if len(set(roles)) < len(roles):
            named = f"source '{self.source}', target '{self.target}', weight '{self.weight}', time '{self.time}'"
            raise DatasetError(f"a column of an edge list is one thing alone: {named}")


@dataclass(frozen=True)
class Schema:
    """The rules that encode tables as a graph. They are fitted to the tables of the first graph.

    Args:
        id: the column of node ids.
        edges: the roles and options of the edge list.
        columns: the feature columns, in the order of the features.
        labels: the label columns; several for a multi-label task.
        task: the task of the labels.
        classes: the names of the classes.
        split: the column with the values ``train``, ``val`` and ``test``.
        ignored: columns that are left out.
        decimal, encoding: the decimal separator and the text encoding of CSV files.
        identifiers: the ignored columns that only identify rows.
        kept: columns that are copied to the predictions.
        rows: the number of rows from which medians and scales were computed.
        training: whether these rows were only the training rows.

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
    identifiers: tuple[str, ...] = ()
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    kept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names) or len(set(self.classes)) < len(self.classes) or self.rows < 0:
            raise ValueError("a column or a class is there twice, or fewer than no rows")
        codecs.lookup(self.encoding)

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(column.width for column in self.columns)

    def as_text(self) -> list[str]:
        """The columns that are read from a CSV file as text; pyarrow does not guess their type."""
        own = [column.name for column in self.columns if column.kind in ("category", "text") or column.format]
        kept = [name for name in self.kept if name not in [column.name for column in self.columns]]
        return [self.id, *own, *kept, *([] if self.split is None else [self.split])]

    # -- applying -----------------------------------------------------------------------------------------------------

    def check(self, rows: TableFile, say: Say) -> None:
        """Raise an error if the table lacks columns. Print a note if the table has columns that are not used."""
        has, needed = rows.names, [self.id, *(column.name for column in self.columns)]
        if lacking := [name for name in needed if name not in has]:
            needs = f"has no column {_list_names(lacking)}, which the schema needs"
            raise DatasetError(f"{rows.path} {needs}: its columns are {_list_names(has)}")
        known = {*needed, self.split, *self.labels, *self.ignored, *self.kept}
        if extra := [name for name in has if name not in known]:
            say(f"{rows.path}: not in the schema, and not used: {_list_names(extra)}")

    def encode(
        self, rows: TableFile, problems: Problems, say: Say, dtype: type = np.float32, may_be_sparse: bool = False
    ) -> Any:
        """Encode a table as features, ``(rows, width)``: an array, or a sparse matrix of SciPy if nearly all values are
        0 and ``may_be_sparse`` is true.
        """

        def features(column: Column) -> Any:
            result = problems.attempt(column.encode, rows, lambda text: say(f"{rows.path}: {text}"), dtype)
            return np.zeros((len(rows), column.width), dtype) if result is None else result

        texts = {column.name: features(column) for column in self.columns if column.kind == "text"}
        others = [column for column in self.columns if column.name not in texts]
        held = len(rows) * sum(1 if column.kind == "category" else column.width for column in others)
        held += sum(getattr(one, "nnz", 0) for one in texts.values())
        blocks = (texts[column.name] if column.name in texts else features(column) for column in self.columns)
        if may_be_sparse and self.width > NARROW and held <= THIN * len(rows) * self.width:
            from scipy.sparse import csr_array, hstack

            return hstack([csr_array(block) for block in blocks], format="csr")
        x: np.ndarray = np.zeros((len(rows), self.width), dtype)
        for (_, own), block in zip(self.by_column(x), blocks, strict=True):
            own[:] = block if isinstance(block, np.ndarray) else block.toarray()
        return x

    def by_column(self, x: np.ndarray) -> Iterator[tuple[Column, np.ndarray]]:
        """Yield each column of the table with its features, some columns of ``x``, ``(rows, width)``."""
        ends = np.cumsum([column.width for column in self.columns], dtype=int)
        return ((column, x[:, end - column.width : end]) for column, end in zip(self.columns, ends, strict=True))

    def missing_row(self) -> np.ndarray:
        """The features of a node that has no row in the table, float32 ``(width,)``."""
        pa, problems = arrow(), Problems()
        table = pa.table({column.name: pa.nulls(1) for column in self.columns})
        row: np.ndarray = self.encode(TableFile.open(table), problems, lambda text: None)[0]
        if problems:
            raise DatasetError(f"a node cannot be added without a row: {problems[0]}")
        return row

    def label_fields(self, rows: TableFile, say: Say) -> dict[str, Any]:
        """Encode the labels of a table as fields of ``Graph``. Classes that are not in this schema count as unknown."""
        none = not self.labels or (self.task == "classification" and not self.classes)
        if none or any(name not in rows.names for name in self.labels):
            return {}
        if self.task != "classification":
            named = {} if self.task == "regression" else {"num_classes": len(self.classes), "class_names": self.classes}
            return {"y": _targets(rows, self.labels, self.task), "task": self.task, **named}
        texts = _label_texts(rows, self.labels[0])[0]
        boolean = arrow().types.is_boolean(rows.column(self.labels[0]).type)  # `True` and `true` are one class
        places, unseen = _places(texts, tuple(map(str.lower, self.classes)) if boolean else self.classes)
        if len(unseen):
            say(f"{rows.path}: {len(unseen):,} labels are no class of the schema, such as '{unseen[0]}'")
        names = None if self.classes == tuple(map(str, range(len(self.classes)))) else self.classes
        return {"y": places.astype(np.int64), "num_classes": len(self.classes), "class_names": names}

    def kept_texts(self, rows: TableFile) -> np.ndarray:
        """The columns that are copied to the predictions, as text ``(rows, kept)``. A missing value becomes an empty
        text.
        """
        there = [rows.text(name).to_pylist() if name in rows.names else [] for name in self.kept]
        texts = [[text or "" for text in column] or [""] * len(rows) for column in there]
        return np.array(texts, np.str_).reshape(len(self.kept), len(rows)).T

    # -- comparing ----------------------------------------------------------------------------------------------------

    def differences(self, other: Schema) -> list[str]:
        """Describe how the features of ``other`` differ from the features of this schema, one text per difference."""
        mine, theirs = (
            {column.name: asdict(replace(column, missing=0, marks=(), shares=())) for column in one.columns}
            for one in (self, other)
        )
        result = [f"'{name}' is missing" for name in mine if name not in theirs]
        result += [f"'{name}' is new" for name in theirs if name not in mine]
        for name, column in mine.items():
            if differ := [key for key, value in column.items() if value != theirs.get(name, column)[key]]:
                odd = sorted(set(column["categories"]) ^ set(theirs[name]["categories"]))
                which = f" ({_list_names(odd)})" if odd else ""
                result.append(f"'{name}' has another {' and '.join(differ)}{which}")
        if not result and list(mine) != list(theirs):
            result = ["the columns are in another order"]
        if self.edges.undirected != other.edges.undirected:
            result.append(f"the edges are {'' if other.edges.undirected else 'not '}undirected")
        return result

    # -- for people and files -----------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Make a table that describes the encoding of every column."""
        back = "kept, and given back with predictions"
        rows = [(self.id, "id", back, ""), *((name, "", back, "") for name in self.kept)]
        number = len(self.classes)
        what = f"{number} class{'es' * (number != 1)}" if self.task == "classification" else self.task
        rows += [(name, "label", what, "") for name in self.labels]
        rows += [] if self.split is None else [(self.split, "split", "train, val, test", "")]
        for column in self.columns[:SHOWN]:
            rows.append((column.name, column.kind, column.done, f"{column.missing:,}" if column.missing else ""))
        if len(self.columns) > SHOWN:
            rows.append((f"… {len(self.columns) - SHOWN:,} more", "", "", ""))
        for name in self.ignored[:SHOWN]:
            own = name in self.identifiers
            rows.append((name, "identifier" * own, "left out" + ": whole numbers, none there twice" * own, ""))
        which = f"the {self.rows:,} training rows" if self.training else f"all {self.rows:,} rows"
        title = f"Columns: {self.width} features, medians and scales of {which}" if self.columns else "Columns"
        return Table(title, ["Column", "Kind", "What is done", "Missing"], [list(map(Cell, row)) for row in rows])

    def to_json(self) -> dict[str, Any]:
        """Convert the schema to values for JSON. Fields that have their default value are left out."""
        columns = [
            {f.name: value for f in fields(column) if (value := getattr(column, f.name)) != f.default}
            for column in self.columns
        ]
        return dict(plain({**asdict(self), "columns": columns}))

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make a schema from the result of ``to_json``, which may come from a file.

        Raises:
            DatasetError: ``value`` is not a schema.
        """
        wrong = (TypeError, ValueError, LookupError, AttributeError, OverflowError, DatasetError)
        with explaining("this is not a schema of this version of handful: {}", *wrong, kind=DatasetError):
            return decode(cls, value)  # type: ignore[no-any-return]


# -- fitting ----------------------------------------------------------------------------------------------------------


def fit_columns(
    rows: TableFile, names: Sequence[str], how: TableOptions, fitted: np.ndarray, problems: Problems
) -> tuple[Column, ...]:
    """Fit the encoding of columns to a table. Empty columns are left out.

    Args:
        rows: the table.
        names: the names of the feature columns.
        how: the table options: which columns are categorical or hashed, how to impute and how to scale numbers.
        fitted: boolean ``(rows,)``, the rows from which medians and scales are computed; categories come from all rows.
        problems: the list to which errors are added.
    """
    result = [problems.attempt(_fit_column, rows, name, how, fitted) for name in names]
    return tuple(column for column in result if column is not None)


def _fit_column(rows: TableFile, name: str, how: TableOptions, fitted: np.ndarray) -> Column | None:
    kind = _kind(rows, name, how)
    if kind is None:
        return None
    format = date_format(rows, name, how.dates) if kind == "category" and name not in how.categorical else ""
    kind = "date" if format else kind
    cells = rows.column(name)
    missing = cells.null_count
    if kind == "category":
        return Column(name, kind, categories=_fit_categories(rows, name, name in how.categorical), missing=missing)
    if kind == "text":
        has = _hash_words(rows, name, how.widths[name])[fitted]
        idf = np.log((1 + has.shape[0]) / (1 + np.bincount(has.indices, minlength=has.shape[1]))) + 1
        return Column(name, kind, size=len(idf), missing=missing, idf=tuple(map(float, idf)))
    column = Column(name, kind, format=format, size=max(1, len(cells.drop_null()[0])) if kind == "vector" else 1)
    values, absent = column.numbers(rows)
    if absent.all():
        return None
    if how.impute == "error":
        rows.refuse(absent, f"'{name}' is missing: fill it, or ignore it")
    count = int(absent.sum())
    known = values[fitted & ~absent] if (fitted & ~absent).any() else values[~absent]
    middle = np.median(known, axis=0)
    fill = () if how.impute == "error" else np.round(middle) if kind == "boolean" else middle
    column = replace(column, fill=tuple(map(float, fill)), indicator=count > 0, missing=count)
    if kind not in ("number", "date") or how.scale == "none":
        return column
    if how.scale == "quantile":
        marks = np.quantile(known[:, 0], np.linspace(0, 1, LANDMARKS))
        return replace(column, quantiles=tuple(map(float, marks)))
    center, spread = float(known.mean()), float(known.std())
    rounding = 1e-12 * abs(center)  # a smaller spread is rounding error, and must not scale values up
    return replace(column, center=center, spread=spread if spread > max(1e-12, rounding) else max(1.0, rounding))


def _kind(rows: TableFile, name: str, how: TableOptions) -> Kind | None:
    """The kind of a column; ``None`` for an empty column."""
    types, column = arrow().types, rows.column(name)
    if column.null_count == len(column):
        return None
    if name in how.widths:
        return "text"
    if name in how.categorical:
        return "category"
    if types.is_string(column.type):
        if _has_decimal_commas(column):
            if (such := like_thousands(column, ",")) is not None:
                raise rows.error(f"column '{name}' holds '{such}': remove the commas between thousands")
            such = f"column '{name}' holds numbers with a comma ('{column.drop_null()[0]}')"
            raise rows.error(f"{such}: if this is a decimal comma, import with decimal=','")
        if (odd := _odd_among_numbers(column)) is not None:
            advice = f"leave it empty, or import with categorical='{name}'"
            rows.refuse(odd, f"'{name}' is '{{}}', and most are numbers: {advice}", column)
        return "category"
    result = _kind_of(column.type)
    if result is None:
        raise rows.error(f"column '{name}' holds {column.type}, neither numbers nor text: ignore it")
    return result


def _kind_of(kind: Any) -> Kind | None:
    """The kind of column for a pyarrow type; ``None`` for text and unsupported types."""
    types = arrow().types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return "date"
    return "vector" if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) else None


def _has_decimal_commas(column: Any) -> bool:
    """Whether the values of a text column are numbers with decimal commas."""
    compute, values = arrow().compute, column.drop_null()
    numbers = compute.match_substring_regex(values, r"^\s*-?[0-9]+(\.[0-9]{3})*(,[0-9]+)?\s*$")
    return bool(compute.all(numbers).as_py() and compute.any(compute.match_substring(values, ",")).as_py())


def doubts(rows: TableFile, columns: Sequence[Column], classes: Sequence[str]) -> Iterator[str]:
    """Describe columns of a table with a number that may stand for a missing value, or with numbers that may have a
    mark between thousands; and categories or classes that may be the same.
    """
    for column in columns:
        if column.kind in ("number", "date") and (words := _outlying(column, rows)):
            yield f"'{column.name}' is {words}: if this stands for a missing value, leave the cells empty"
    numbers = [column.name for column in columns if column.kind == "number"]
    numbers = [name for name in numbers if in_thousandths(rows.numbers(name, missing=True))]
    for name, cells in rows.written(numbers).items():
        if (such := like_thousands(cells, rows.decimal)) is not None:
            told = f"'{name}' has whole numbers, and others with exactly three decimals, such as {such}"
            yield f"{told}: if the mark separates thousands, remove it"
    for name, values in [*((column.name, column.categories) for column in columns), ("the label", classes)]:
        if pair := alike(values):
            yield f"{name} has both '{pair[0]}' and '{pair[1]}', which are two different values here"


def _outlying(column: Column, rows: TableFile) -> str:
    """Describe the smallest or largest number of a column if it occurs several times, and if its distance to all other
    numbers is larger than their range. Otherwise, the result is empty.
    """
    values, cells = column.numbers(rows)[0][:, 0], rows.column(column.name)
    known = np.flatnonzero(~np.isnan(values))
    own, first, count = np.unique(values[known], return_index=True, return_counts=True)
    for end, low, high in ((0, 1, -1), (-1, 0, -2)) if len(own) > SOME_NUMBERS else ():
        if count[end] > 1 and min(abs(own[end] - own[low]), abs(own[end] - own[high])) > own[high] - own[low]:
            told, lowest, highest = (cells[int(known[first[i]])] for i in (end, low, high))
            return f"{told} in {count[end]:,} rows, and all other values are from {lowest} to {highest}"
    return ""


def in_thousandths(values: np.ndarray) -> bool:
    """Whether all numbers are multiples of 0.001 below 1,000, and some are no multiples of 0.01.

    >>> in_thousandths(np.array([1.198, 588.0])), in_thousandths(np.array([1.19, 588.0]))
    (True, False)
    """
    parts = np.abs(values[~np.isnan(values)] * 1000)
    near = bool((np.abs(parts - parts.round()) < 1e-6).all() and parts.max(initial=0) < 1e6)
    return near and bool((parts.round() % 10 != 0).any())


def like_thousands(cells: Any, mark: str) -> str | None:
    """The first number of a text column that may have ``mark`` between thousands: all numbers with this mark have
    exactly three digits after it, and the others have none. Otherwise, the result is ``None``.
    """
    compute, known = arrow().compute, cells.drop_null()
    marked = known.filter(compute.match_substring(known, mark))
    three = compute.match_substring_regex(marked, rf"^\s*-?[1-9][0-9]{{0,2}}([{mark}][0-9]{{3}})+\s*$")
    return str(marked[0]) if 0 < len(marked) < len(known) and compute.all(three).as_py() else None


def _odd_among_numbers(column: Any) -> np.ndarray | None:
    """A mask ``(rows,)`` of the values that are not numbers, if a text column has many distinct numbers and few other
    values. Otherwise, the result is ``None``.
    """
    compute = arrow().compute
    number = compute.match_substring_regex(column, r"^\s*[-+]?[0-9]+([.,][0-9]+)?([eE][-+]?[0-9]+)?\s*$")
    odd = ~np.asarray(number.fill_null(True))
    many = compute.count_distinct(column.filter(number)).as_py() > SOME_NUMBERS
    return odd if many and 0 < odd.sum() <= (len(column) - column.null_count) / 5 else None


def _fit_categories(rows: TableFile, name: str, asked: bool) -> tuple[str, ...]:
    values = sorted(rows.text(name).drop_null().unique().to_pylist())
    many = len(values) > MANY_CATEGORIES and 2 * len(values) > len(rows) and not asked
    if many or len(values) > MOST_CATEGORIES:
        different = f"column '{name}' has {len(values):,} different values, such as '{values[0]:.40}'"
        compute, rest = arrow().compute, f"keep='{name}' or ignore='{name}'"
        if compute.all(compute.match_substring_regex(rows.text(name), "^[^A-Za-z]*[0-9][^A-Za-z]*$")).as_py():
            form = f"write numbers like 1234{rows.decimal}5, without marks between thousands, and dates like 2024-12-31"
            raise rows.error(f"{different}: {form}, or give {rest}")
        raise rows.error(f"{different}, too many for a column each: give hashed='{name}=512' for its words, {rest}")
    return tuple(values)


def normal_scores(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Map ``values`` to a standard normal distribution, by a quantile transform with the reference ``quantiles``.
    The level of a value that equals several of the reference ``quantiles`` is the mean of their lowest and highest
    levels.
    """
    from scipy.special import ndtri  # imported on use: the import takes as long as training on a small graph

    reference = np.linspace(0, 1, len(quantiles))
    low, high = np.interp(values, quantiles, reference), -np.interp(-values, -quantiles[::-1], -reference[::-1])
    share = (0.5 * (low + high)).astype(values.dtype)
    share[values + EDGE > quantiles[-1]] = 1
    share[values - EDGE < quantiles[0]] = 0
    limit = EDGE - np.spacing(1)
    return np.asarray(np.clip(ndtri(share), ndtri(limit), ndtri(1 - limit)))


# -- labels -----------------------------------------------------------------------------------------------------------


def fit_labels(rows: TableFile, labels: Sequence[str], task: Task) -> tuple[str, ...]:
    """The names of the classes: the distinct labels, in numeric order if all are whole numbers, otherwise in text
    order. In a multi-label task, they are the names of the label columns.

    A regression, and a column without any label, have no classes.
    """
    if task == "multilabel" or not labels:
        return tuple(labels)
    if len(labels) != 1:
        raise DatasetError(f"labels in several columns ({_list_names(labels)}) are for the task multilabel")
    if task == "regression":
        return ()
    texts, whole = _label_texts(rows, labels[0])
    known = texts.drop_null()
    values = known.unique().to_pylist()
    if arrow().types.is_boolean(rows.column(labels[0]).type) and (cells := rows.written(labels)):
        written = cells[labels[0]].drop_null().unique().to_pylist()
        values = written if len(written) == len(values) else values
    if len(values) > MANY_CATEGORIES and 2 * len(values) > len(known):
        classes = f"'{labels[0]}' has {len(values):,} classes, nearly one per row"
        raise rows.error(f"{classes}: name another column as label, or give task='regression'")
    return tuple(sorted(values, key=int) if whole else sorted(values))


def _label_texts(rows: TableFile, name: str) -> tuple[Any, bool]:
    """Convert a label column to text. Also return whether all labels are whole numbers."""
    pa, column = arrow(), rows.column(name)
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        numbers = rows.numbers(name, missing=True)
        fractions = ~np.isnan(numbers) & (numbers != np.round(numbers))
        rows.refuse(fractions, "label {} is a fraction, not a class: give task='regression' for numbers", numbers)
        with reading(rows.path):
            column = pa.compute.cast(pa.array(numbers, from_pandas=True), pa.int64())
    whole = bool(pa.types.is_integer(column.type) or pa.types.is_null(column.type))
    with reading(rows.path):
        return column.cast(pa.string()), whole


def _targets(rows: TableFile, labels: Sequence[str], task: Task) -> np.ndarray:
    """The labels as float32, NaN if unknown: ``(rows,)`` numbers for a regression, ``(rows, labels)`` zeros and ones
    for a multi-label task.
    """
    values = np.concatenate([Column(name, "number").numbers(rows)[0] for name in labels], axis=1)
    if task == "regression":
        return values[:, 0].astype(np.float32)
    rows.refuse(_is_no_bit(values).any(axis=1), "the labels of a multi-label task are 0 or 1")
    return values.astype(np.float32)


# -- values -----------------------------------------------------------------------------------------------------------


def date_format(rows: TableFile, name: str, order: str = "auto") -> str:
    """The ``strptime`` format of the dates in a text column; empty if some value is not a date. ``order`` is ``dmy``,
    ``mdy``, ``ymd`` or ``auto``. A first number of four digits is always a year. With ``auto``, the day comes first if
    the separator is a dot (23.05.2024) or if a first number is above 12. Otherwise, the month comes first if a second
    number is above 12. Other dates are ambiguous and raise an error.
    """
    known = rows.column(name).drop_null()
    parts = arrow().compute.extract_regex(known, DATE)
    if parts.null_count:
        return ""
    first, sign, second, third, clock = (parts.field(one).to_pylist() for one in ("a", "sign", "b", "c", "clock"))
    if len(set(sign)) > 1 or len({text.count(":") for text in clock}) > 1 or len({text[:1] for text in clock}) > 1:
        return ""
    days, months = (max(int(text) for text in texts) for texts in (first, second))
    if order == "auto" or len(first[0]) == 4:
        order = "ymd" if len(first[0]) == 4 else "dmy" if days > 12 or sign[0] == "." else "mdy" if months > 12 else ""
    if not order:
        such = f"'{name}' holds dates such as '{known[0]}', with ambiguous day and month"
        raise rows.error(
            f"{such}, with ambiguous day and month: import with dates='dmy' or dates='mdy', or write 2024-12-31"
        )
    years = "%Y" if len((first if order == "ymd" else third)[0]) == 4 else "%y"
    date = sign[0].join({"d": "%d", "m": "%m", "y": years}[one] for one in order)
    time = clock[0][:1] + ":".join(("%H", "%M", "%S")[: clock[0].count(":") + 1]) if clock[0] else ""
    return f"{date}{time}"


def _is_no_bit(values: np.ndarray) -> np.ndarray:
    """A mask of the numbers that are neither 0 nor 1 nor missing."""
    return np.asarray(~np.isnan(values) & (values != 0) & (values != 1))


def _vectors(rows: TableFile, name: str, column: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    pa, missing = arrow(), np.asarray(column.is_null())
    if missing.all():
        return np.zeros((len(rows), size)), missing
    if pa.types.is_string(column.flatten().type) or pa.types.is_large_string(column.flatten().type):
        raise rows.error(f"column '{name}' holds lists of words: have them hashed, or ignore it")
    with reading(rows.path):
        flat = column.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    words = f"'{name}' has {{}} values, and others have {size}: give all as many, or have them hashed"
    rows.refuse(~missing & (lengths != size), words, lengths)
    values = np.zeros((len(rows), size))
    values[~missing] = flat.reshape(-1, size)
    rows.refuse(~np.isfinite(values).all(axis=1), f"'{name}' holds a value that is missing or not finite")
    return values, missing


def _places(texts: Any, among: tuple[str, ...]) -> tuple[np.ndarray, Any]:
    """The index of every text in ``among``, or -1 if ``among`` does not contain it; and the texts that ``among`` does
    not contain.
    """
    pa = arrow()
    places = places_among(texts, pa.array(among, pa.string()))
    return places, texts.filter(pa.array(places < 0)).drop_null()


def _hash_words(rows: TableFile, name: str, size: int) -> Any:
    """Hash the words of every text into a sparse matrix of SciPy, ``(rows, size)``. The checksum of a word determines
    its column and its sign.

    In a column of lists, each entry is one word. A checksum is the same on every machine and in every version of
    Python.
    """
    from scipy.sparse import csr_array

    columns, signs, ends = array("i"), array("b"), array("q", [0])
    for cell in rows.column(name).to_pylist():
        entries = cell if isinstance(cell, list) else WORD.findall("" if cell is None else str(cell))
        for word in entries:
            mixed = zlib.crc32(str(word).lower().encode())
            columns.append(mixed % size)
            signs.append(1 if mixed >> 31 else -1)
        ends.append(len(columns))
    arrays = np.array(signs, np.float64), np.array(columns, np.int32), np.array(ends)
    result = csr_array(arrays, shape=(len(rows), size))
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def alike(values: Sequence[str]) -> list[str]:
    """The first two values that differ only in spaces or capital letters; empty if there are none.

    >>> alike(["Lyon", "Porto", "lyon "])
    ['Lyon', 'lyon ']
    """
    seen: dict[str, str] = {}
    for value in values:
        other = seen.setdefault(" ".join(value.split()).casefold(), value)
        if other != value:
            return [other, value]
    return []


def _list_names(names: Sequence[str], most: int = 6) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
