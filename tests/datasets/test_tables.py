from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from handful.datasets import tables
from handful.datasets.tables import TableFile, read_matrix
from handful.errors import DatasetError


def csv_file(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "names", "first_row", "delimiter"),
    [
        ("a,b\n1,2\n", ("a", "b"), 2, ","),
        ("\ufeffa,b\n1,2\n", ("a", "b"), 2, ","),
        ('"a b",c\n1,2\n', ("a b", "c"), 2, ","),
        ("a\tb c\n1\t2\n", ("a", "b c"), 2, "\t"),
        ("# note\n# more\n1 2\n", ("source", "target"), 3, " "),
        ("1,-2.5,3e-4,4\n", ("source", "target", "weight", "column 4"), 1, ","),
        ("a\n1\n", ("a",), 2, ","),
    ],
)
def test_what_the_first_lines_tell(
    tmp_path: Path, text: str, names: tuple[str, ...], first_row: int, delimiter: str
) -> None:
    table = TableFile.open(csv_file(tmp_path, text))
    assert (table.names, table.first_row, table.delimiter) == (names, first_row, delimiter)


def test_rows_of_a_whole_table(tmp_path: Path) -> None:
    rows = TableFile.open(csv_file(tmp_path, 'a,b,c\n1,"x\ny",\n2,z,0.5\n', "t.csv.gz")).read()
    assert len(rows) == 2
    assert rows.column("b").to_pylist() == ["x\ny", "z"]
    assert rows.numbers("a").tolist() == [1, 2]
    assert np.isnan(rows.numbers("c", missing=True)).tolist() == [True, False]
    with pytest.raises(DatasetError, match=r"t\.csv\.gz, row 2: 'c' is missing"):
        rows.numbers("c")
    with pytest.raises(DatasetError, match="has no column 'd': its columns are a, b, c"):
        rows.column("d")
    with pytest.raises(DatasetError, match=r"t\.csv\.gz cannot be read"):
        rows.numbers("b")


def test_parquet_rows_count_from_one(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.0, float("nan")]}), tmp_path / "t.parquet")
    rows = TableFile.open(tmp_path / "t.parquet").read()
    with pytest.raises(DatasetError, match=r"t\.parquet, row 2: 'a' is missing"):
        rows.numbers("a")


def test_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_BYTES", 64)
    expected = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    path = csv_file(tmp_path, "".join(",".join(map(str, row)) + "\n" for row in expected), "m.csv.gz")
    assert np.array_equal(read_matrix(path, np.float32, 100), expected.T)
    assert np.array_equal(read_matrix(path, np.float32, columns=2), expected.T[:2])
    with pytest.raises(DatasetError, match="has 100 rows where there should be 99"):
        read_matrix(path, np.float32, 99)
    with pytest.raises(DatasetError, match=r"m\.csv\.gz, row 1: '.*' is not a whole number"):
        read_matrix(path, np.int64)


def test_empty_and_unknown_files(tmp_path: Path) -> None:
    for text in ("", "\n", "# only a note\n"):
        with pytest.raises(DatasetError, match="has no rows"):
            TableFile.open(csv_file(tmp_path, text))
    with pytest.raises(DatasetError, match="has no rows"):
        TableFile.open(csv_file(tmp_path, "a,b\n")).read()
    with pytest.raises(DatasetError, match="must end in"):
        TableFile.open(tmp_path / "a.xls")
    with pytest.raises(DatasetError, match="does not exist"):
        TableFile.open(tmp_path / "a.csv")


class Frame(dict[str, list[Any]]):
    """What pandas has of a table: columns by ``items``, and an index that may have a name."""

    def __init__(self, columns: dict[str, list[Any]], index: str | None = None) -> None:
        super().__init__(columns)
        self.index = SimpleNamespace(name=index)

    def reset_index(self) -> Frame:
        return Frame({"id": ["a", "b"], **self})


def test_a_table_in_memory_is_read_column_by_column() -> None:
    assert TableFile.open({"x": [1, None], "y": ["ä", "ö"]}).names == ("x", "y")
    assert TableFile.open(Frame({"x": [1, 2]})).names == ("x",)  # an index without a name numbers the rows
    assert TableFile.open(Frame({"x": [1, 2]}, index="id")).names == ("id", "x")
    missing = TableFile.open({"x": np.array([1.0, np.nan])}).read().column("x")
    assert missing.null_count == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1, None, "two"]}, r"the nodes, row 3: 'x' is 'two', and before there was 1"),
        ({"x": [1, 2], "y": [1]}, "the nodes cannot be read: .* y expected length 2 but got length 1"),
        ({"x": [object(), object()]}, "the nodes: column 'x' cannot be read"),
        (3, "the nodes must be a file"),
    ],
)
def test_a_mistake_in_memory_names_column_and_row(columns: Any, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        TableFile.open(columns, name="the nodes")
    assert "\n" not in str(caught.value)
