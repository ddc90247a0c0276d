"""Anybody's own graph: an edge list and a node table, CSV or Parquet, streamed so that the edges may be many.

Edges are read block by block and kept as numbers of four bytes, so 100 million rows take a few gigabytes. Ids may be of
any type: integers take the fast way, all else is matched as text. Errors name the file and the row; a row of a CSV file
is its line, the header being row 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import DatasetError, GraphError
from handful.graph import MASKS, Graph

SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
BLOCK_BYTES = 1 << 25
MOST_CATEGORIES = 1000
USUAL = {
    "source": ("source", "src", "src_id", "source_id", "from", "u"),
    "target": ("target", "dst", "dst_id", "target_id", "to", "v"),
    "weight": ("weight", "edge_weight"),
    "id": ("id", "node_id", "node"),
    "label": ("label", "y", "class", "target"),
    "split": ("split",),
}
SPLIT_VALUES = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Columns:
    """Which column is what. ``None`` stands for the usual names, and for ``features`` all columns that are left.

    ``categorical`` names columns of numbers that are codes, to be one-hot encoded as text columns are.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    label: str | None = None
    split: str | None = None
    features: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()


def read_tables(
    edges: str | Path,
    nodes: str | Path | None = None,
    columns: Columns | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    **fields: Any,
) -> Graph:
    """A graph from an edge list and, for more than topology, a node table; ``fields`` are as for ``Graph``.

    The edge list has a source and a target column and may have a weight. The node table has an id column, a label
    column, feature columns, and a split column (train, val, test or empty) or boolean ``train_mask``, ``val_mask`` and
    ``test_mask``. Nodes are numbered in the order of their table. Numbers and booleans are features as they are, text
    is one-hot encoded (a missing value is all zeros), lists of numbers are vectors. Labels are numbered in sorted
    order; a missing label, or -1 among integers, is unknown. Without a node table integer ids are the node numbers,
    if they are dense, and other ids are numbered as they come. Lost: node ids, and edge columns beyond the weight.
    """
    columns = columns or Columns()
    edges = Path(edges)
    found: dict[str, Any] = {}
    ids = None
    if nodes is not None:
        nodes = Path(nodes)
        table = _read_nodes(nodes, columns)
        ids = _Ids.of_table(table, columns)
        found |= _node_fields(table, columns)
        del table
    edge_index, weight, num_nodes = _read_edges(edges, nodes, ids, columns, progress)
    try:
        return Graph.from_edge_index(edge_index, **{"num_nodes": num_nodes, "edge_weight": weight} | found | fields)
    except GraphError as error:
        raise GraphError(f"{edges if nodes is None else nodes}: {error}") from None


# -- files ----------------------------------------------------------------------------------------------------------


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise DatasetError("CSV and Parquet files are read by pyarrow: pip install 'handful[parquet]'") from None
    return pyarrow


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what pyarrow says of a broken file into one line that names the file and the row."""
    pa = _arrow()
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
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
        return f"{ragged[2]} columns where the header has {ragged[1]}"
    value = re.search(r"conversion error to (\w+): invalid value '(.*)'", said)
    if value:
        return f"'{value[2]}' is not a number ({value[1]}) as the column's other values are"
    return said


@dataclass(frozen=True)
class _Table:
    """One file of rows: its column names, and how to read it in blocks."""

    path: Path
    names: tuple[str, ...]
    first_row: int
    csv: dict[str, Any] | None

    @classmethod
    def open(cls, path: Path) -> _Table:
        pa = _arrow()
        suffix = _suffix(path)
        if suffix not in SUFFIXES:
            raise DatasetError(f"{path} is not a table that can be read: it must end in {', '.join(SUFFIXES)} (or .gz)")
        with _reading(path):
            if suffix in (".parquet", ".pq"):
                names = tuple(pa.parquet.read_schema(path).names)
                return cls(path, names, 1, None)
            with pa.input_stream(str(path), compression="detect") as stream:
                head = stream.read(1 << 16).decode("utf-8", errors="replace").splitlines()
        skip = next((i for i, line in enumerate(head) if not line.startswith("#")), len(head))
        if skip == len(head):
            raise DatasetError(f"{path} has no rows")
        delimiter = next((d for d in "\t,; " if d in head[skip]), ",")
        cells = [cell.strip().strip('"') for cell in head[skip].split(delimiter)]
        headless = all(re.fullmatch(r"-?\d+(\.\d+)?", cell) for cell in cells)
        names = tuple(["source", "target", "weight"][: len(cells)] if headless else cells)
        read = {"column_names": list(names), "skip_rows": skip + (not headless)}
        return cls(path, names, skip + 1 + (not headless), {"read": read, "parse": {"delimiter": delimiter}})

    def blocks(self, names: list[str], types: dict[str, Any], multiline: bool = False) -> Iterator[tuple[int, Any]]:
        """Record batches of the columns ``names``, each with the number of its first row."""
        row = self.first_row
        with _reading(self.path):
            for block in self._batches(names, types, multiline):
                if len(block):
                    yield row, block
                row += len(block)

    def _batches(self, names: list[str], types: dict[str, Any], multiline: bool) -> Iterator[Any]:
        pa = _arrow()
        if self.csv is None:
            yield from pa.parquet.ParquetFile(self.path).iter_batches(1 << 20, columns=names)
            return
        # One thread, since only then does pyarrow say which row is wrong; parsing is not what takes the time.
        read = pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False, **self.csv["read"])
        convert = pa.csv.ConvertOptions(include_columns=names, column_types=types, strings_can_be_null=True)
        parse = pa.csv.ParseOptions(newlines_in_values=multiline, **self.csv["parse"])
        with pa.input_stream(str(self.path), compression="detect") as stream:
            yield from pa.csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)

    def has(self, name: str) -> str:
        """``name``, if there is a column of that name."""
        if name not in self.names:
            raise DatasetError(f"{self.path} has no column '{name}': its columns are {', '.join(self.names)}")
        return name

    def find(self, role: str, chosen: str | None) -> str | None:
        """The column that plays ``role``: the chosen one, else the first of the usual names, if any."""
        if chosen is not None:
            return self.has(chosen)
        lower = {name.lower(): name for name in reversed(self.names)}
        return next((lower[name] for name in USUAL[role] if name in lower), None)

    def need(self, role: str, chosen: str | None) -> str:
        """The column that plays ``role``, without which there is no graph."""
        name = self.find(role, chosen)
        if name is None:
            raise DatasetError(
                f"{self.path} has no {role} column (looked for {', '.join(USUAL[role])}): "
                f"say which it is of {', '.join(self.names)}"
            )
        return name


def _suffix(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in (".gz", ".bz2", ".zst")]
    return suffixes[-1] if suffixes else ""


# -- nodes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nodes:
    """The whole node table, and the row number of its first row."""

    source: _Table
    table: Any

    def column(self, name: str) -> Any:
        return self.table.column(name).combine_chunks()

    def row(self, place: int) -> str:
        return f"{self.source.path}, row {self.source.first_row + place}"


def _read_nodes(path: Path, columns: Columns) -> _Nodes:
    pa = _arrow()
    source = _Table.open(path)
    chosen = {
        name: pa.string()
        for name in (*columns.categorical, source.find("split", columns.split))
        if name is not None and source.csv is not None
    }
    blocks = [block for _, block in source.blocks(list(source.names), chosen, multiline=True)]
    if not blocks:
        raise DatasetError(f"{path} has no rows")
    return _Nodes(source, pa.Table.from_batches(blocks))


def _node_fields(nodes: _Nodes, columns: Columns) -> dict[str, Any]:
    source = nodes.source
    label = source.need("label", columns.label)
    split = source.find("split", columns.split)
    used = {source.need("id", columns.id), label, split, *MASKS}
    names = columns.features if columns.features is not None else [n for n in source.names if n not in used]
    for name in (*names, *columns.categorical):
        source.has(name)
    fields = _labels(nodes, label) | _split(nodes, split)
    for mask in MASKS:
        if split is None and fields.get(mask) is None and mask in source.names:
            fields[mask] = _numbers(nodes, mask) != 0
    assigned = np.zeros(len(fields["y"]), bool)
    for mask in MASKS:
        if mask in fields:
            assigned |= fields[mask]
    unlabelled = np.flatnonzero(assigned & (fields["y"] < 0))
    if len(unlabelled):
        raise DatasetError(f"{nodes.row(unlabelled[0])}: the node is in a split but has no '{label}'")
    blocks = [_features(nodes, name, name in columns.categorical) for name in names]
    if blocks:
        fields["x"] = np.empty((len(fields["y"]), sum(block.shape[1] for block in blocks)), np.float32)
        at = 0
        for block in blocks:
            fields["x"][:, at : at + block.shape[1]] = block
            at += block.shape[1]
    return fields


def _labels(nodes: _Nodes, name: str) -> dict[str, Any]:
    pa = _arrow()
    column = nodes.column(name)
    kind = column.type
    if pa.types.is_floating(kind):
        numbers = column.to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(~np.isnan(numbers) & (numbers != np.round(numbers)))
        if len(wrong):
            raise DatasetError(f"{nodes.row(wrong[0])}: label {numbers[wrong[0]]} is a fraction, not a class")
        column = pa.compute.cast(pa.array(numbers, from_pandas=True), pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int64())
    elif not pa.types.is_integer(kind):
        column = column.cast(pa.string())
    if pa.types.is_integer(column.type):
        column = pa.compute.if_else(pa.compute.equal(column, -1), None, column)
    codes, classes = _encoded(column)
    if not classes:
        raise DatasetError(f"{nodes.source.path} has no label in its column '{name}'")
    plain = classes == list(range(len(classes)))
    names = None if plain else tuple(str(value) for value in classes)
    return {"y": codes.astype(np.int64), "num_classes": len(classes), "class_names": names}


def _encoded(column: Any) -> tuple[np.ndarray, list[Any]]:
    """Each value's place among the distinct values in sorted order, -1 where it is missing; and those values."""
    pa = _arrow()
    classes = sorted(value for value in column.unique().to_pylist() if value is not None)
    codes = pa.compute.index_in(column, value_set=pa.array(classes, column.type))
    return pa.compute.fill_null(codes, -1).to_numpy(zero_copy_only=False), classes


def _split(nodes: _Nodes, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    values = [None if v is None else str(v).strip().lower() for v in nodes.column(name).to_pylist()]
    codes = np.array([-1 if not v else SPLIT_VALUES.get(v, -2) for v in values])
    wrong = np.flatnonzero(codes == -2)
    if len(wrong):
        raise DatasetError(f"{nodes.row(wrong[0])}: '{values[wrong[0]]}' is not a split: use train, val, test or empty")
    return {mask: codes == i for i, mask in enumerate(MASKS)}


def _numbers(nodes: _Nodes, name: str) -> np.ndarray:
    """A column of numbers as float64, refusing what is missing or not finite."""
    pa = _arrow()
    column = nodes.column(name)
    if column.null_count:
        at = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise DatasetError(f"{nodes.row(at)}: '{name}' is missing: fill it, or leave the column out of the features")
    values: np.ndarray = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DatasetError(f"{nodes.row(wrong[0])}: '{name}' is {values[wrong[0]]}, which is not finite")
    return values


def _features(nodes: _Nodes, name: str, categorical: bool) -> np.ndarray:
    pa = _arrow()
    column = nodes.column(name)
    kind = column.type
    if pa.types.is_null(kind):
        raise DatasetError(f"{nodes.source.path}: column '{name}' is empty: leave it out of the features")
    if not categorical and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return _numbers(nodes, name).astype(np.float32)[:, None]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _vectors(nodes, name, column)
    if not categorical and name == "feat":  # DGL writes a vector as text: "0.1, 0.2, 0.3".
        with _reading(nodes.source.path):
            texts = pa.compute.split_pattern(pa.compute.replace_substring(column, " ", ""), ",")
            return _vectors(nodes, name, texts.cast(pa.list_(pa.float32())))
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if not (categorical or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise DatasetError(f"{nodes.source.path}: column '{name}' holds {kind}, neither numbers nor text: leave it out")
    codes, classes = _encoded(column)
    if len(classes) > MOST_CATEGORIES:
        raise DatasetError(
            f"{nodes.source.path}: column '{name}' has {len(classes):,} different values, too many to encode: "
            "leave it out of the features"
        )
    one_hot: np.ndarray = codes[:, None] == np.arange(len(classes), dtype=np.int32)
    return one_hot


def _vectors(nodes: _Nodes, name: str, column: Any) -> np.ndarray:
    pa = _arrow()
    lengths = pa.compute.fill_null(pa.compute.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    ragged = np.flatnonzero(lengths != lengths[0])
    if len(ragged):
        at = ragged[0]
        raise DatasetError(
            f"{nodes.row(at)}: '{name}' has {lengths[at]} values, and that of the first row {lengths[0]}"
        )
    flat = column.flatten().cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    values: np.ndarray = flat.reshape(len(column), -1)
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        raise DatasetError(f"{nodes.row(wrong[0][0])}: '{name}' holds a value that is missing or not finite")
    return values


# -- ids ------------------------------------------------------------------------------------------------------------


class _Ids:
    """Numbers for ids of one type: those of a node table, or, without one, of the ids as they appear."""

    def __init__(self, known: Any, closed: bool) -> None:
        self.known = known
        self.closed = closed
        self._find = _integer_finder(known.to_numpy()) if closed and _arrow().types.is_integer(known.type) else None

    @classmethod
    def of_table(cls, nodes: _Nodes, columns: Columns) -> _Ids:
        pa = _arrow()
        name = nodes.source.need("id", columns.id)
        column = nodes.column(name)
        if column.null_count:
            at = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
            raise DatasetError(f"{nodes.row(at)}: the node has no '{name}'")
        column = column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())
        codes = column.dictionary_encode().indices.to_numpy()
        again = _first(np.diff(np.maximum.accumulate(codes)) == 0)
        if again is not None:
            raise DatasetError(f"{nodes.row(again + 1)}: node '{column[again + 1]}' is there a second time")
        return cls(column, closed=True)

    def numbers(self, column: Any) -> np.ndarray:
        """The number of every id in ``column``, -1 where it is not known."""
        pa = _arrow()
        column = column.cast(self.known.type)
        if self._find is not None:
            return self._find(column.to_numpy())
        encoded = column.dictionary_encode()
        if not self.closed:
            fresh = encoded.dictionary.filter(
                pa.compute.invert(pa.compute.is_in(encoded.dictionary, value_set=self.known))
            )
            self.known = pa.concat_arrays([self.known, fresh])
        places = pa.compute.fill_null(pa.compute.index_in(encoded.dictionary, value_set=self.known), -1)
        out: np.ndarray = places.to_numpy().astype(np.int32)[encoded.indices.to_numpy()]
        return out


def _integer_finder(ids: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From ids to their places: by a table where they lie close together, by bisection where they do not."""
    low, high = int(ids.min()), int(ids.max())
    if high - low < 8 * len(ids) + 1_000_000:
        table = np.full(high - low + 2, -1, np.int32)
        table[ids - low] = np.arange(len(ids), dtype=np.int32)

        def by_table(values: np.ndarray) -> np.ndarray:
            return table[np.where((values < low) | (values > high), high - low + 1, values - low)]

        return by_table
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]

    def by_bisection(values: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
        return np.where(ascending[at] == values, order[at], -1).astype(np.int32)

    return by_bisection


# -- edges ----------------------------------------------------------------------------------------------------------


def _read_edges(
    path: Path, nodes: Path | None, ids: _Ids | None, columns: Columns, progress: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray | None, int]:
    """``edge_index`` (2, E) in int32, the weights, and the number of nodes."""
    pa = _arrow()
    table = _Table.open(path)
    ends = [table.need("source", columns.source), table.need("target", columns.target)]
    weight = table.find("weight", columns.weight)
    names = [name for name in (*ends, weight) if name is not None]
    types = {} if ids is None else dict.fromkeys(ends, ids.known.type)
    if weight is not None:
        types[weight] = pa.float32()
    blocks: list[list[np.ndarray]] = []
    for row, block in table.blocks(names, types):
        if ids is None and not blocks and not all(pa.types.is_integer(block.column(end).type) for end in ends):
            ids = _Ids(pa.array([], pa.string()), closed=False)
        parts = []
        for end in ends:
            column = block.column(end)
            at = _first(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: the edge has no '{end}'")
            with _reading(path):
                numbers = _narrow(column.cast(pa.int64()).to_numpy()) if ids is None else ids.numbers(column)
            at = None if ids is None else _first(numbers < 0)
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: {end} '{column[at]}' is not a node of {nodes}")
            parts.append(numbers)
        if weight is not None:
            parts.append(block.column(weight).to_numpy(zero_copy_only=False).astype(np.float32))
            at = _first(~np.isfinite(parts[-1]))
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: '{weight}' is missing or not finite")
        blocks.append(parts)
        progress(len(block))
    if not blocks:
        raise DatasetError(f"{path} has no rows")
    edge_index, weights = _joined(blocks)
    if ids is not None:
        return edge_index, weights, len(ids.known)
    edge_index, num_nodes = _numbered(edge_index)
    return edge_index, weights, num_nodes


def _first(wrong: np.ndarray) -> int | None:
    """The first place that is true."""
    at = int(wrong.argmax()) if len(wrong) else 0
    return at if len(wrong) and wrong[at] else None


def _narrow(values: np.ndarray) -> np.ndarray:
    """``values`` in int32 if they fit."""
    fits = np.iinfo(np.int32).min <= values.min() and values.max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if fits else values


def _joined(blocks: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray | None]:
    """One ``edge_index`` and one vector of weights of all ``blocks``, which are freed on the way."""
    count = sum(len(block[0]) for block in blocks)
    edge_index = np.empty((2, count), np.result_type(*{part.dtype for block in blocks for part in block[:2]}))
    weights = np.empty(count, np.float32) if len(blocks[0]) == 3 else None
    stop = count
    while blocks:
        block = blocks.pop()
        start = stop - len(block[0])
        edge_index[0, start:stop], edge_index[1, start:stop] = block[:2]
        if weights is not None:
            weights[start:stop] = block[2]
        stop = start
    return edge_index, weights


def _numbered(edge_index: np.ndarray) -> tuple[np.ndarray, int]:
    """Integer ids as node numbers: as they are where they are dense, in ascending order where they are not."""
    low, high = int(edge_index.min()), int(edge_index.max())
    if low >= 0 and high < 8 * edge_index.shape[1] + 1_000_000:
        return edge_index, high + 1
    known, places = np.unique(edge_index, return_inverse=True)
    return places.reshape(edge_index.shape), len(known)
