"""Read CSV files, Parquet files and tables in memory in blocks, with pyarrow. Error messages name the file and the row.

In a CSV file, the number of a row is its line number, and the header is row 1. Rows of other tables are counted from 1.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from handful.datasets.arrays import whole
from handful.errors import DatasetError, first_line, needing

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".zst")
BLOCK_BYTES = 1 << 27
"""The size of a block, in bytes. Blocks are large, since pyarrow rebuilds the lookup table of text ids
for each block.
"""
HEADER_BYTES = 1 << 22
"""The number of bytes at the start of a file that are read to find the header."""
HEADLESS = ("source", "target", "weight")
SAVE_AS = "save it again as UTF-8 (Excel: CSV UTF-8)"
NOT_UTF = f"is not UTF-8: name its encoding, such as latin-1, or {SAVE_AS}"
SOME_ROWS = 50
"""A column with at most this many values is never an identifier."""
UNNAMED = "unnamed "
"""A column without a name in the header is named by this prefix and the number of the column, counted from 1."""
Source = Any
"""A path, or a table in memory: a table of pandas, polars, pyarrow or any package that exports Arrow data, or a
dictionary.
"""


def arrow() -> Any:
    """Import pyarrow, which is an optional dependency."""
    with needing("CSV and Parquet files need pyarrow: pip install 'handful[parquet]'", DatasetError):
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    return pyarrow


class NotWholeError(DatasetError):
    """A column that must contain whole numbers contains another value."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A context manager that converts pyarrow's errors about a broken file to an error of one line, with the file and
    the row.
    """
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and not path.exists():
            raise DatasetError(f"{path} does not exist: give the path of a table") from None
        said = " ".join(str(error).split())
        row = re.search(r"Row #(\d+): (.*)", said)
        value = re.search(r"conversion error to (\w+): invalid value '(.*)'", said)
        if "invalid UTF8" in said:
            raise DatasetError(f"{path} {NOT_UTF}") from None
        if "Empty CSV file" in said:
            raise empty(path) from None
        if row is None:
            raise DatasetError(f"{path} cannot be read: {said}") from None
        what = re.sub(r"Expected (\d+) columns, got (\d+).*", r"\2 columns where there should be \1", row[2])
        if value:
            comma = ": if it has a decimal comma, give decimal=','" if re.fullmatch(r"-?\d+,\d+", value[2]) else ""
            what = f"'{value[2]}' is not a {'whole ' * (value[1] == 'int64')}number{comma}"
        kind = NotWholeError if value and value[1] == "int64" else DatasetError
        raise kind(f"{path}, row {row[1]}: {what}") from None


def empty(path: Path) -> DatasetError:
    """The error for a table without rows."""
    return DatasetError(f"{path} has no rows: give a table with a row for every edge or node, below the column names")


@dataclass(frozen=True)
class TableFile:
    """A table. The column names are read immediately. The rows are read in blocks (``blocks``) or all together
    (``read``).
    """

    path: Path
    names: tuple[str, ...]
    first_row: int = 1
    delimiter: str | None = None
    """The delimiter of a CSV file; ``None`` for Parquet and for a table in memory."""
    table: Any = None
    """The pyarrow table, if the rows are in memory."""
    decimal: str = "."
    encoding: str = "utf-8"

    @classmethod
    def open(cls, source: Source, decimal: str = ".", encoding: str = "utf-8", name: str = "the table") -> TableFile:
        """Open a table, and read its column names. A CSV file is taken to have no header if its first row contains only
        numbers. Lines at the top that begin with ``#`` are skipped. ``decimal`` is the decimal separator of a CSV file,
        and ``encoding`` is its text encoding. ``name`` is the name of a table in memory in error messages.
        """
        if hasattr(source, "items") or hasattr(source, "__arrow_c_stream__"):
            table = _in_memory(source, name)
            return cls(Path(name), tuple(table.column_names), table=table)
        if not isinstance(source, str | Path):
            kinds = "a file, a table of pandas, polars or pyarrow, or a dictionary of columns"
            raise DatasetError(f"{name} must be {kinds}, got {type(source).__name__}")
        path = Path(source)
        suffix = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
        if suffix not in SUFFIXES:
            raise DatasetError(f"{path} is not a table that can be read: it must end in {', '.join(SUFFIXES)} (or .gz)")
        with reading(path):
            if suffix in (".parquet", ".pq"):
                return cls(path, tuple(arrow().parquet.read_schema(path).names))
            head = _first_lines(path, encoding)
        skip = next((i for i, line in enumerate(head) if line and not line.startswith("#")), len(head))
        if skip == len(head):
            raise empty(path)
        delimiter = next((d for d in "\t,; " if d in head[skip]), ",")
        cells = next(csv.reader(head[skip : skip + 1], delimiter=delimiter))
        cells = [cell.strip() or f"{UNNAMED}{i + 1}" for i, cell in enumerate(cells)]
        header = not all(re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", cell) for cell in cells)
        if not header:
            cells = [*HEADLESS, *(f"column {i + 1}" for i in range(len(HEADLESS), len(cells)))][: len(cells)]
        return cls(path, tuple(cells), skip + 1 + header, delimiter, None, decimal, encoding)

    @staticmethod
    def find(folder: Path, stem: str) -> Path:
        """The path of the table ``stem`` in a folder, such as ``edges.csv`` for ``edges``."""
        result = [file for file in sorted(folder.iterdir()) if file.name.split(".")[0] == stem and file.is_file()]
        if not result:
            raise DatasetError(f"{folder} has no table '{stem}' ({', '.join(stem + s for s in SUFFIXES)}): give one")
        if len(result) > 1:
            raise DatasetError(f"{folder} has both {result[0].name} and {result[1].name}: keep one of them")
        return result[0]

    @property
    def named(self) -> list[str]:
        """The columns that have a name in the header. (pandas writes its index as a column without a name.)"""
        return [name for name in self.names if not name.startswith(UNNAMED)]

    def has(self, name: str) -> str:
        """Return ``name`` if there is a column of this name; otherwise raise an error."""
        if name not in self.names:
            raise DatasetError(f"{self.path} has no column '{name}': its columns are {', '.join(self.names)}")
        return name

    def blocks(self, names: Sequence[str], types: dict[str, Any], multiline: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield record batches of the columns ``names``, each with the number of its first row. ``types`` are for CSV
        files only.

        ``multiline`` allows line breaks in quoted cells, which makes reading slower.
        """
        twice = [name for name, count in Counter(self.names).items() if count > 1 and name in names]
        if twice:
            raise DatasetError(f"{self.path} has more than one column '{twice[0]}': rename one of them")
        row = self.first_row
        with reading(self.path):
            for block in self._batches(list(names), types, multiline):
                if len(block):
                    yield row, block
                row += len(block)
        if row == self.first_row:
            raise empty(self.path)

    def _batches(self, names: list[str], types: dict[str, Any], multiline: bool) -> Iterator[Any]:
        pa = arrow()
        if self.table is not None:
            yield from self.table.select(names).to_batches(1 << 20)
            return
        if self.delimiter is None:
            yield from pa.parquet.ParquetFile(self.path).iter_batches(1 << 20, columns=names)
            return
        # One thread: otherwise pyarrow's errors do not name the row. Parsing takes little of the time.
        read = pa.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=self.names)
        read.skip_rows, read.encoding = self.first_row - 1, self.encoding
        parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=multiline)
        convert = pa.csv.ConvertOptions(include_columns=names, column_types=types, strings_can_be_null=True)
        convert.decimal_point = self.decimal
        with pa.input_stream(str(self.path), compression="detect") as stream:
            yield from pa.csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)

    def read(
        self, names: Sequence[str] | None = None, type: Any = None, texts: Sequence[str] = (), count: int | None = None
    ) -> TableFile:
        """Read the whole table, or its columns ``names``, into memory.

        The columns of a CSV file get the pyarrow type ``type`` or, if it is ``None``, a type that fits their values.
        The columns in ``texts`` are read as text. If ``count`` is given, a table with another number of rows raises an
        error.
        """
        wanted = [self.has(name) for name in (self.names if names is None else names)]
        types = (dict.fromkeys(wanted, type) if type else {}) | dict.fromkeys(texts, arrow().string())
        table = arrow().Table.from_batches([block for _, block in self.blocks(wanted, types, multiline=True)])
        if count is not None and len(table) != count:
            raise DatasetError(f"{self.path} has {len(table):,} rows where there should be {count:,}: fetch it again")
        return replace(self, names=tuple(wanted), table=table)

    # -- in memory ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.table)

    def column(self, name: str) -> Any:
        """A column as one pyarrow array, without dictionary encoding."""
        column = self.table.column(self.has(name)).combine_chunks()
        if self.delimiter is not None and arrow().types.is_binary(column.type):
            raise self.error(f"column '{name}' {NOT_UTF}")
        return resolved(column) if len(self.table) else column

    def with_codes(self, names: Iterable[str]) -> TableFile:
        """Convert columns of codes, such as postal codes, to text. A column in ``names`` contains codes if it is from a
        CSV file and its values are whole numbers, some with leading zeros.
        """
        pa, table = arrow(), self.table
        numbers = [name for name in names if pa.types.is_integer(table.schema.field(name).type)]
        cells = self.written(numbers)
        for name in cells:
            if pa.compute.any(pa.compute.match_substring_regex(cells[name], r"^\s*0[0-9]")).as_py():
                table = table.set_column(table.column_names.index(name), name, cells[name])
        return replace(self, table=table)

    def written(self, names: Sequence[str]) -> dict[str, Any]:
        """The columns ``names`` of a CSV file as text, as it is in the file. Other columns are left out."""
        if self.delimiter is None:
            return {}
        own = TableFile.open(self.path, self.decimal, self.encoding)
        kept = [name for name in names if name in own.names]
        cells: Any = own.read(kept, arrow().string()).table if kept else None
        return {name: cells.column(name) for name in kept}

    def is_identifier(self, name: str) -> bool:
        """Whether a column has more than ``SOME_ROWS`` values, and all of them are distinct and are whole numbers or
        texts of digits.

        Whole numbers beyond 2⁵³ need not be distinct, since floating-point features cannot tell them apart.
        """
        types, compute, known = arrow().types, arrow().compute, self.column(name).drop_null()
        if len(known) <= SOME_ROWS:
            return False
        if types.is_string(known.type):
            digits = compute.all(compute.match_substring_regex(known, "^[0-9]+$")).as_py()
            return bool(digits) and len(known.unique()) == len(known)
        values = known.to_numpy() if types.is_integer(known.type) or types.is_floating(known.type) else np.full(1, 0.5)
        integers = bool((values == np.round(values)).all())
        return integers and (float(np.abs(values).max()) >= 2**53 or len(np.unique(values)) == len(values))

    def text(self, name: str) -> Any:
        """A column as text. Whole numbers have no decimal point; booleans are ``true`` and ``false``."""
        with reading(self.path):
            return self.column(name).cast(arrow().string())

    def ids(self, name: str, before: Any = None) -> Any:
        """The ids ``before``, if any, followed by the ids of a node table, int64 or text. Missing or repeated ids raise
        an error.
        """
        column = self.column(name)
        self.refuse(column.is_null(), f"the node has no '{name}'")
        ids = self._plain_ids(column, name)
        codes = ids.dictionary_encode().indices.to_numpy()
        again = np.append(False, np.diff(np.maximum.accumulate(codes)) == 0)
        self.refuse(again, "node '{}' is there a second time", ids)
        if before is None:
            return ids
        if before.type != ids.type:
            before, ids = (one.cast(arrow().string()) for one in (before, ids))
        advice = "leave out the rows of such nodes, or import the old and new tables together to change them"
        self.refuse(places_among(ids, before) >= 0, "node '{}' is in the graph already", ids, advice)
        return arrow().concat_arrays([before, ids])

    def ids_in(self, block: Any, name: str, kind: Any) -> Any:
        """Convert the column ``name`` of a block of edges to ids of type ``kind``."""
        column = block.column(name)
        if column.type == kind:
            return column
        ids = self._plain_ids(resolved(column), name)
        if arrow().types.is_string(kind):
            return ids.cast(kind)
        if ids.type != kind:
            raise NotWholeError(f"{self.path}: column '{name}' holds {column.type}")
        return ids

    def _plain_ids(self, column: Any, name: str) -> Any:
        """Convert a column of ids to int64 if all ids are whole numbers in the range of int64, otherwise to text.
        Fractions raise an error.
        """
        pa = arrow()
        if pa.types.is_floating(column.type):
            whole(column.drop_null().to_numpy(), f"{self.path}: column '{name}': ids")
        if pa.types.is_string(column.type):
            usual = pa.compute.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,18})$")
            if not pa.compute.all(usual, min_count=0).as_py():
                return column
        with reading(self.path):
            try:
                return column.cast(pa.int64())
            except pa.ArrowInvalid:
                return column.cast(pa.string())

    def error(self, words: str) -> DatasetError:
        """An error about the table, whose message begins with its path."""
        return DatasetError(f"{self.path}: {words}")

    def refuse(self, wrong: Any, words: str, values: Any = None, advice: str = "") -> None:
        """Raise an error if ``wrong``, boolean ``(rows,)``, is true for any row. ``words`` and ``values`` are as in
        ``Faults.add``, and ``advice`` is the end of the message.
        """
        if (faults := Faults().add(wrong, self.first_row, words, values)).count:
            raise DatasetError(f"{self.path}, {faults}" + f": {advice}" * bool(advice))

    def numbers(self, name: str, missing: bool = False, format: str = "") -> np.ndarray:
        """Convert a column to float64. Dates and durations are in days, times of day are in hours, and text dates are
        parsed with ``format``.

        Infinite values raise an error. If ``missing`` is true, missing values become NaN; otherwise they raise an
        error.
        """
        with reading(self.path):
            column = self.column(name)
            if format and arrow().types.is_string(column.type):
                texts, column = column, arrow().compute.strptime(column, format, "s", error_is_null=True)
                wrong = np.asarray(column.is_null()) & ~np.asarray(texts.is_null())
                self.refuse(wrong, f"'{name}' is '{{}}', and no date as {format}", texts)
            values = _as_floats(column)
        self.refuse(np.isinf(values), f"'{name}' is {{}}, which is not finite", values)
        if not missing:
            self.refuse(np.isnan(values), f"'{name}' is missing: fill it, or leave the column out")
        return values


def resolved(column: Any) -> Any:
    """Remove the dictionary encoding of a column."""
    pa, kind = arrow(), column.type
    if isinstance(kind, pa.BaseExtensionType):
        return resolved(column.storage)
    if pa.types.is_dictionary(kind):
        return resolved(column.dictionary_decode())
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    return column


def _as_floats(column: Any) -> np.ndarray:
    pa, kind, unit = arrow(), column.type, 1.0
    if pa.types.is_time(kind):
        column, unit = column.cast(pa.time64("us"), safe=False).cast(pa.int64()), 3600e6
    elif pa.types.is_temporal(kind):
        duration = pa.types.is_duration(kind)
        microseconds = pa.duration("us") if duration else pa.timestamp("us", getattr(kind, "tz", None))
        column, unit = column.cast(microseconds, safe=False).cast(pa.int64()), 86400e6
    values: np.ndarray = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values / unit


def places_among(values: Any, among: Any) -> np.ndarray:
    """The index of each of ``values`` in ``among``, both pyarrow arrays; -1 for a value that ``among`` does not
    contain.
    """
    compute = arrow().compute
    return np.array(compute.fill_null(compute.index_in(values, value_set=among), -1))


def number_ids(values: Any, known: Any, grows: bool) -> tuple[np.ndarray, Any]:
    """The index of every id in ``known``, and ``known`` itself. An unknown id has the index -1 or, if ``grows``, is
    appended to ``known``.
    """
    encoded = values.dictionary_encode()
    places = places_among(encoded.dictionary, known)
    if grows:
        fresh = np.flatnonzero(places < 0)
        places[fresh] = len(known) + np.arange(len(fresh))
        known = arrow().concat_arrays([known, encoded.dictionary.take(arrow().array(fresh))])
    return places[encoded.indices.to_numpy()], known


@dataclass
class Faults:
    """The invalid rows of a table: their number, and descriptions of the first three."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, wrong: Any, row: int, words: str, values: Any = None) -> Self:
        """Add the rows where ``wrong`` is true. Each row is described by ``words``, in which ``{}`` is replaced by the
        row's value in ``values``.

        ``row`` is the row number, in the table, of ``wrong[0]``.
        """
        at = np.flatnonzero(wrong)
        self.count += len(at)
        for i in at[: 3 - len(self.shown)].tolist():
            self.shown.append(f"row {row + i}: " + words.replace("{}", "" if values is None else str(values[i])))
        return self

    def __str__(self) -> str:
        return "; ".join(self.shown) + (f"; {self.count:,} in all" if self.count > len(self.shown) else "")


class Problems(list[str]):
    """The errors in one table, which are collected and raised together."""

    def attempt(self, make: Callable[..., Any], *args: Any) -> Any:
        """Call ``make(*args)``, and return the result; if it raises an error, collect the error and return ``None``."""
        try:
            return make(*args)
        except DatasetError as error:
            self.append(str(error))

    def tell(self) -> None:
        """Raise one error with all collected messages, if there are any."""
        if self:
            numbered = "; ".join(f"({i}) {text}" for i, text in enumerate(self, 1))
            raise DatasetError(self[0] if len(self) == 1 else f"{len(self)} problems: {numbered}")


def _in_memory(source: Any, name: str) -> Any:
    """Convert a table to pyarrow. Tables of pandas and dictionaries are converted column by column, so that errors are
    clear.
    """
    pa = arrow()
    if not hasattr(source, "items"):
        return pa.table(source)
    if getattr(getattr(source, "index", None), "name", None) is not None:  # an index with a name is a column
        source = source.reset_index()
    names = [str(key) for key, _ in source.items()]
    columns = [_typed(values, key, name) for key, (_, values) in zip(names, source.items(), strict=True)]
    with reading(Path(name)):
        return pa.table(columns, names=names)


def _typed(values: Any, column: str, name: str) -> Any:
    """Convert one column to a pyarrow array. NaN becomes a missing value; values of several types raise an error."""
    pa = arrow()
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        cells = list(values) if isinstance(values, Iterable) else []
        known = [(i, cell) for i, cell in enumerate(cells, 1) if cell is not None and cell is not np.nan]
        if other := next(((i, cell) for i, cell in known if type(cell) is not type(known[0][1])), None):
            row, cell, first = *other, known[0][1]
            words = f"'{column}' is {cell!r:.60}, and before there was {first!r:.60}: give values of one type"
            raise DatasetError(f"{name}, row {row}: {words}") from None
        raise DatasetError(f"{name}: column '{column}' cannot be read: {first_line(error)}") from None


def _first_lines(path: Path, encoding: str) -> list[str]:
    """The complete lines at the start of a text file."""
    with arrow().input_stream(str(path), compression="detect") as stream:
        block = stream.read(HEADER_BYTES)
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DatasetError(f"{path} is UTF-16: {SAVE_AS}")
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    lines = re.split(r"\r\n|\n|\r", block.decode(codec, errors="replace"))
    return lines if len(block) < HEADER_BYTES else lines[:-1]


def read_matrix(path: Path, dtype: Any, count: int | None = None, columns: int | None = None) -> np.ndarray:
    """Read a CSV file of numbers that has no missing values, as an array ``(columns, rows)``.

    Args:
        path: a file with or without a header.
        dtype: the dtype of the array.
        count: the expected number of rows; a file with another number of rows raises an error.
        columns: the number of columns to read; ``None`` for all.
    """
    source = TableFile.open(path)
    names = source.names[:columns]
    rows = source.read(names, arrow().from_numpy_dtype(np.dtype(dtype)), count=count)
    for name in names:
        rows.refuse(rows.column(name).is_null(), f"a value is missing ({name})")
    return np.stack([rows.column(name).to_numpy() for name in names])
