"""A graph from an edge list and a node table, in CSV or Parquet, streamed so that the edges may be many.

Edges are read block by block and kept as numbers of four bytes, so 100 million rows take a few gigabytes. Ids may be of
any type: integers are fastest, all other types are matched as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets.tables import Rows, TableFile, arrow, first, reading
from handful.errors import DatasetError, GraphError
from handful.graph import MASKS, Graph

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
    """Which column is what. ``None`` stands for the usual names; for ``features``, for all columns that are left.

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
    """A graph from an edge list and, for features and labels, a node table.

    The edge list has a source and a target column and may have a weight. The node table has an id column, a label
    column, feature columns, and a split column (train, val, test or empty) or boolean ``train_mask``, ``val_mask`` and
    ``test_mask``. Nodes are numbered in the order of their table. Numbers and booleans are features as they are, text
    is one-hot encoded (a missing value is all zeros), lists of numbers are vectors. Labels are numbered in sorted
    order; a missing label, or -1 among integers, is unknown. Without a node table integer ids are the node numbers,
    if they are dense, and other ids are numbered as they come. Lost: node ids, and edge columns beyond the weight.

    Args:
        edges: the edge list, a CSV or Parquet file.
        nodes: the node table, a CSV or Parquet file.
        columns: which column is what, where the names are not the usual ones.
        progress: called with the number of edges of each block that was read.
        fields: as for ``Graph``; they replace what the tables say.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\\n0,1\\n1,2\\n")
    ...     read_tables(folder + "/edges.csv")
    Graph(graph: directed, 3 nodes, 2 edges, 0 features, 0 classes)
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


def _find(table: TableFile, role: str, chosen: str | None) -> str | None:
    """The column that plays ``role``: the chosen one, else the first of the usual names, if any."""
    if chosen is not None:
        return table.has(chosen)
    lower = {name.lower(): name for name in reversed(table.names)}
    return next((lower[name] for name in USUAL[role] if name in lower), None)


def _need(table: TableFile, role: str, chosen: str | None) -> str:
    """The column that plays ``role``, without which there is no graph."""
    name = _find(table, role, chosen)
    if name is None:
        looked = ", ".join(USUAL[role])
        raise DatasetError(
            f"{table.path} has no {role} column (looked for {looked}): say which it is of {', '.join(table.names)}"
        )
    return name


# -- nodes ----------------------------------------------------------------------------------------------------------


def _read_nodes(path: Path, columns: Columns) -> Rows:
    table = TableFile.open(path)
    split = _find(table, "split", columns.split)
    as_text = (*columns.categorical, *([] if split is None else [split]))
    return table.read(types=dict.fromkeys(as_text, arrow().string()))


def _node_fields(nodes: Rows, columns: Columns) -> dict[str, Any]:
    source = nodes.source
    label = _need(source, "label", columns.label)
    split = _find(source, "split", columns.split)
    used = {_need(source, "id", columns.id), label, split, *MASKS}
    names = columns.features if columns.features is not None else [n for n in source.names if n not in used]
    for name in (*names, *columns.categorical):
        source.has(name)
    fields = _labels(nodes, label) | _split(nodes, split)
    for mask in MASKS:
        if split is None and fields.get(mask) is None and mask in source.names:
            fields[mask] = nodes.numbers(mask) != 0
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


def _labels(nodes: Rows, name: str) -> dict[str, Any]:
    pa = arrow()
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
    pa = arrow()
    classes = sorted(value for value in column.unique().to_pylist() if value is not None)
    codes = pa.compute.index_in(column, value_set=pa.array(classes, column.type))
    return pa.compute.fill_null(codes, -1).to_numpy(zero_copy_only=False), classes


def _split(nodes: Rows, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    values = [None if v is None else str(v).strip().lower() for v in nodes.column(name).to_pylist()]
    codes = np.array([-1 if not v else SPLIT_VALUES.get(v, -2) for v in values])
    wrong = np.flatnonzero(codes == -2)
    if len(wrong):
        raise DatasetError(f"{nodes.row(wrong[0])}: '{values[wrong[0]]}' is not a split: use train, val, test or empty")
    return {mask: codes == i for i, mask in enumerate(MASKS)}


def _features(nodes: Rows, name: str, categorical: bool) -> np.ndarray:
    pa = arrow()
    column = nodes.column(name)
    kind = column.type
    if pa.types.is_null(kind):
        raise DatasetError(f"{nodes.source.path}: column '{name}' is empty: leave it out of the features")
    if not categorical and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return nodes.numbers(name).astype(np.float32)[:, None]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _vectors(nodes, name, column)
    if not categorical and name == "feat":  # DGL writes a vector as text: "0.1, 0.2, 0.3".
        with reading(nodes.source.path):
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


def _vectors(nodes: Rows, name: str, column: Any) -> np.ndarray:
    pa = arrow()
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
        self._find = _integer_finder(known.to_numpy()) if closed and arrow().types.is_integer(known.type) else None

    @classmethod
    def of_table(cls, nodes: Rows, columns: Columns) -> _Ids:
        pa = arrow()
        name = _need(nodes.source, "id", columns.id)
        column = nodes.column(name)
        if column.null_count:
            at = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
            raise DatasetError(f"{nodes.row(at)}: the node has no '{name}'")
        column = column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.string())
        codes = column.dictionary_encode().indices.to_numpy()
        again = first(np.diff(np.maximum.accumulate(codes)) == 0)
        if again is not None:
            raise DatasetError(f"{nodes.row(again + 1)}: node '{column[again + 1]}' is there a second time")
        return cls(column, closed=True)

    def numbers(self, columns: list[Any]) -> list[np.ndarray]:
        """The number of every id in each of the ``columns``, -1 where it is not known."""
        pa = arrow()
        both = pa.concat_arrays([column.cast(self.known.type) for column in columns])
        if self._find is not None:
            out = self._find(both.to_numpy())
        elif self.closed:
            out = self._places(both)
        else:
            encoded = both.dictionary_encode()
            places = self._places(encoded.dictionary)
            fresh = np.flatnonzero(places < 0)
            places[fresh] = len(self.known) + np.arange(len(fresh))
            self.known = pa.concat_arrays([self.known, encoded.dictionary.take(pa.array(fresh))])
            out = places[encoded.indices.to_numpy()]
        return np.split(out, np.cumsum([len(column) for column in columns])[:-1])

    def _places(self, values: Any) -> np.ndarray:
        pa = arrow()
        places = pa.compute.fill_null(pa.compute.index_in(values, value_set=self.known), -1)
        return places.to_numpy().copy()  # type: ignore[no-any-return]


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
    pa = arrow()
    table = TableFile.open(path)
    ends = [_need(table, "source", columns.source), _need(table, "target", columns.target)]
    weight = _find(table, "weight", columns.weight)
    names = [name for name in (*ends, weight) if name is not None]
    types = {} if ids is None else dict.fromkeys(ends, ids.known.type)
    if weight is not None:
        types[weight] = pa.float32()
    blocks: list[list[np.ndarray]] = []
    for row, block in table.blocks(names, types):
        if ids is None and not blocks and not all(pa.types.is_integer(block.column(end).type) for end in ends):
            ids = _Ids(pa.array([], pa.string()), closed=False)
        sides = [block.column(end) for end in ends]
        for end, side in zip(ends, sides, strict=True):
            at = first(side.is_null().to_numpy(zero_copy_only=False)) if side.null_count else None
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: the edge has no '{end}'")
        with reading(path):
            parts = [_narrow(side.cast(pa.int64()).to_numpy()) for side in sides] if ids is None else ids.numbers(sides)
        for end, side, numbers in zip(ends, sides, parts, strict=True):
            at = None if ids is None else first(numbers < 0)
            if at is not None:
                raise DatasetError(f"{path}, row {row + at}: {end} '{side[at]}' is not a node of {nodes}")
        if weight is not None:
            parts.append(block.column(weight).to_numpy(zero_copy_only=False).astype(np.float32))
            at = first(~np.isfinite(parts[-1]))
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
