"""CSV and Parquet files, read in blocks by pyarrow. Errors name the file and the row.

A row of a CSV file is its line, a header being row 1; a row of a Parquet file is counted from 1.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import DatasetError

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".zst")
BLOCK_BYTES = 1 << 27
"""Large, since pyarrow builds the table in which text ids are looked up again for each block."""
HEADLESS = ("source", "target", "weight")


def arrow() -> Any:
    """pyarrow, which is optional."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise DatasetError("CSV and Parquet files are read by pyarrow: pip install 'handful[parquet]'") from None
    return pyarrow


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what pyarrow says of a broken file into one line that names the file and the row."""
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if not path.exists():
            raise DatasetError(f"{path} does not exist") from None
        said = " ".join(str(error).split())
        row = re.search(r"Row #(\d+): (.*)", said)
        if row:
            raise DatasetError(f"{path}, row {row[1]}: {_plainly(row[2])}") from None
        if "Empty CSV file" in said:
            raise DatasetError(f"{path} has no rows") from None
        raise DatasetError(f"{path} cannot be read: {said}") from None


def _plainly(said: str) -> str:
    ragged = re.match(r"Expected (\d+) columns, got (\d+)", said)
    if ragged:
        return f"{ragged[2]} columns where there should be {ragged[1]}"
    value = re.search(r"conversion error to (\w+): invalid value '(.*)'", said)
    if value:
        return f"'{value[2]}' is not a number ({value[1]}) as the column's other values are"
    return said


@dataclass(frozen=True)
class TableFile:
    """One file of rows: its column names, and how to read it in blocks."""

    path: Path
    names: tuple[str, ...]
    first_row: int
    delimiter: str | None
    """``None`` for Parquet."""
    quoted: bool = True
    """Whether ``"`` encloses a cell of a CSV file, rather than being part of its text."""

    @classmethod
    def open(cls, path: Path, names: Sequence[str] | None = None, *, quoted: bool = True) -> TableFile:
        """Look at the first lines. A CSV file without a header is one whose first row is all numbers, or one whose
        column ``names`` are given. Lines at the top that begin with ``#`` are skipped."""
        suffix = next((s.lower() for s in reversed(path.suffixes) if s.lower() not in COMPRESSED), "")
        if suffix not in SUFFIXES:
            raise DatasetError(f"{path} is not a table that can be read: it must end in {', '.join(SUFFIXES)} (or .gz)")
        with reading(path):
            if suffix in (".parquet", ".pq"):
                return cls(path, tuple(arrow().parquet.read_schema(path).names), 1, None)
            with arrow().input_stream(str(path), compression="detect") as stream:
                head = stream.read(1 << 16).decode("utf-8-sig", errors="replace").splitlines()
        skip = next((i for i, line in enumerate(head) if line and not line.startswith("#")), len(head))
        if skip == len(head):
            raise DatasetError(f"{path} has no rows")
        delimiter = next((d for d in "\t,; " if d in head[skip]), ",")
        line = head[skip : skip + 1]
        cells = next(csv.reader(line, delimiter=delimiter)) if quoted else line[0].split(delimiter)
        cells = [cell.strip() for cell in cells]
        if names is not None:
            return cls(path, tuple(names), skip + 1, delimiter, quoted)
        if all(re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", cell) for cell in cells):
            more = (f"column {i + 1}" for i in range(len(HEADLESS), len(cells)))
            return cls(path, (*HEADLESS, *more)[: len(cells)], skip + 1, delimiter, quoted)
        return cls(path, tuple(cells), skip + 2, delimiter, quoted)

    def has(self, name: str) -> str:
        """``name``, if there is a column of that name."""
        if name not in self.names:
            raise DatasetError(f"{self.path} has no column '{name}': its columns are {', '.join(self.names)}")
        return name

    def blocks(
        self, names: Sequence[str], types: dict[str, Any] | None = None, multiline: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Record batches of the columns ``names``, each with the number of its first row; ``types`` bind CSV alone.

        ``multiline`` allows line breaks in quoted cells, which makes reading slower.
        """
        row = self.first_row
        with reading(self.path):
            for block in self._batches(list(names), types or {}, multiline):
                if len(block):
                    yield row, block
                row += len(block)

    def _batches(self, names: list[str], types: dict[str, Any], multiline: bool) -> Iterator[Any]:
        pa = arrow()
        if self.delimiter is None:
            yield from pa.parquet.ParquetFile(self.path).iter_batches(1 << 20, columns=names)
            return
        # One thread, since only then does pyarrow say which row is wrong; parsing is not what takes the time.
        read = pa.csv.ReadOptions(
            block_size=BLOCK_BYTES, use_threads=False, column_names=self.names, skip_rows=self.first_row - 1
        )
        parse = pa.csv.ParseOptions(
            delimiter=self.delimiter, quote_char='"' if self.quoted else False, newlines_in_values=multiline
        )
        convert = pa.csv.ConvertOptions(include_columns=names, column_types=types, strings_can_be_null=True)
        with pa.input_stream(str(self.path), compression="detect") as stream:
            yield from pa.csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)

    def read(self, names: Sequence[str] | None = None, types: dict[str, Any] | None = None) -> Rows:
        """The whole table, or its columns ``names``."""
        wanted = [self.has(name) for name in (self.names if names is None else names)]
        blocks = [block for _, block in self.blocks(wanted, types, multiline=self.quoted)]
        if not blocks:
            raise DatasetError(f"{self.path} has no rows")
        return Rows(self, arrow().Table.from_batches(blocks))


@dataclass(frozen=True)
class Rows:
    """All rows of a table, in memory."""

    source: TableFile
    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def column(self, name: str) -> Any:
        """A column as one pyarrow array."""
        return self.table.column(self.source.has(name)).combine_chunks()

    def row(self, place: int) -> str:
        """Where the row at ``place`` is, for messages."""
        return f"{self.source.path}, row {self.source.first_row + place}"

    def numbers(self, name: str, missing: bool = False) -> np.ndarray:
        """A column of numbers as float64.

        If ``missing`` is set, missing values are NaN; else missing and infinite values are refused.
        """
        pa = arrow()
        with reading(self.source.path):
            column = self.column(name).cast(pa.float64(), safe=False)
        values: np.ndarray = column.to_numpy(zero_copy_only=False)
        if missing:
            return values
        at = first(~np.isfinite(values))
        if at is not None:
            what = f"is {values[at]}, which is not finite" if column[at].is_valid else "is missing"
            raise DatasetError(f"{self.row(at)}: '{name}' {what}: fill it, or leave the column out")
        return values


def first(wrong: np.ndarray) -> int | None:
    """The first place where ``wrong`` is true, or ``None``."""
    at = int(wrong.argmax()) if len(wrong) else 0
    return at if len(wrong) and wrong[at] else None


def read_matrix(path: Path, dtype: Any, rows: int | None = None, *, by_column: bool = False) -> np.ndarray:
    """A CSV file of numbers without a header as a ``(rows, columns)`` array, or ``(columns, rows)`` if ``by_column``.

    Where the number of ``rows`` is known, a file of another length is refused as cut short or too long.
    """
    pa = arrow()
    table = TableFile.open(path)
    kind = pa.from_numpy_dtype(np.dtype(dtype))
    parts: list[np.ndarray] = []
    for row, block in table.blocks(table.names, dict.fromkeys(table.names, kind)):
        for name, column in zip(table.names, block.columns, strict=True):
            at = first(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: a value is missing ({name})")
        columns = [column.to_numpy() for column in block.columns]
        parts.append(np.stack(columns, axis=0 if by_column else 1))
    if not parts:
        raise DatasetError(f"{path} has no rows")
    axis = 1 if by_column else 0
    count = sum(part.shape[axis] for part in parts)
    if rows is not None and count != rows:
        raise DatasetError(f"{path} has {count:,} rows where there should be {rows:,}: fetch it again")
    return np.concatenate(parts, axis=axis)
