"""A graph from an edge list and a node table, in CSV or Parquet, read in blocks for any number of edges.

Edges are read block by block and kept as numbers of four bytes, so 100 million rows take a few gigabytes. With a
budget, they go directly to a saved folder. Ids are integers or text, never floating-point numbers:
integers are fastest, all other types are matched as text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from handful.budget import room
from handful.datasets.arrays import whole
from handful.datasets.drift import moved_columns, with_profile
from handful.datasets.edge_sort import Blocks, write_edges
from handful.datasets.schema import Columns, Edges, Handling, Say, Schema, Unknown, alike, fit_columns, fit_labels
from handful.datasets.splits import draw_split
from handful.datasets.tables import (
    Faults,
    NotWholeError,
    Problems,
    Rows,
    Source,
    TableFile,
    arrow,
    places_among,
    reading,
    resolved,
)
from handful.errors import DatasetError, blaming
from handful.files import naming
from handful.graph import MASKS, Graph
from handful.kernels.buckets import imbalance
from handful.random import derive_seed
from handful.storage import FIELDS, saving, write_arrays

__all__ = ["Columns", "Handling", "read_tables", "write_tables"]

USUAL = {
    "source": ("source", "src", "src_id", "source_id", "from", "u"),
    "target": ("target", "dst", "dst_id", "target_id", "to", "v"),
    "weight": ("weight", "edge_weight"),
    "id": ("id", "node_id", "node"),
    "label": ("label", "y", "class", "target"),
    "split": ("split",),
}
SPLIT_VALUES = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
LEAST = 32 << 20
"""The minimum memory for sorting edges, in bytes."""
READ = 1 << 22
"""The number of edges in a block."""
MOST_MOVED = 8
"""Of the columns that have moved, so many are named."""
IN_MEMORY = "numbered in memory: leave memory out, or give a node table"
Progress = Callable[[int], None]


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def read_tables(
    edges: Source,
    nodes: Source | None = None,
    columns: Columns | None = None,
    how: Handling | None = None,
    *,
    schema: Schema | None = None,
    progress: Progress = lambda rows: None,
    say: Say = _warn,
    **fields: Any,
) -> Graph:
    """A graph from an edge list and, for features and labels, a node table; see ``docs/tables.md``.

    The edge list has a source and a target column and may have a weight. The node table has an id column, perhaps
    labels, feature columns, and a split column (train, val, test or empty) or boolean ``train_mask``, ``val_mask`` and
    ``test_mask``. Nodes are numbered in the order of their table, and keep their ids in ``graph.ids``. ``graph.schema``
    has the encoding of the columns. Missing numbers are filled and numbers are scaled, by the training rows if the
    table has a split, else by all rows. Labels are numbered in sorted order; a missing label, or
    -1 among integers, is unknown. Without a node table, dense integer ids are the node numbers, and other ids are
    numbered in order of appearance. Edge columns other than the weight are ignored, with a warning.

    Args:
        edges: the edge list: a CSV or Parquet file, or a table of pandas, polars or pyarrow.
        nodes: the node table, likewise.
        columns: which column is what, where the names are not the usual ones.
        how: what is done with missing values, scales, unknown ids and repeated edges.
        schema: that of another graph, to encode these tables as its were; ``columns`` and ``how``, but for its
            ``unknown`` and ``strict``, are then those of the schema.
        progress: called with the number of edges of each block that was read.
        say: called with what should be known and is no mistake, such as columns that are not used; a warning by
            default.
        fields: as for ``Graph``; they replace what the tables say.

    Raises:
        DatasetError: the tables cannot be used; all mistakes of a table are told at once.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("source,target\\n0,1\\n1,2\\n")
    ...     read_tables(folder + "/edges.csv")
    Graph(graph: directed, 3 nodes, 2 edges, 0 features, 0 classes)
    """
    tables = _read(edges, nodes, columns=columns, how=how, schema=schema, progress=progress, say=say, **fields)
    with blaming(tables.where):
        sized = {"num_nodes": tables.num_nodes, "edge_weight": tables.weight}
        graph = Graph.from_edge_index(tables.edge_index, **sized | tables.fields)
    roles = tables.roles
    if roles.repeated is not None or graph.edge_weight is not None:
        graph = graph.coalesce(roles.repeated or "sum")
    return graph.to_undirected() if roles.undirected else graph


def write_tables(
    edges: Source, nodes: Source | None, path: Path, memory: int | str, *, split: str, seed: int, **options: Any
) -> None:
    """Save the graph that ``read_tables`` makes of an edge list and a node table in the folder ``path``, in the same
    bytes; of the tables, only that of the nodes is in memory as a whole.

    Args:
        edges, nodes: as ``read_tables`` takes them; edges without weights, and ids that are in a node table or whole
            numbers without large gaps.
        path: as ``handful.storage.save`` takes it.
        memory: the anonymous memory that this process may hold, such as ``"4GiB"``.
        split, seed: the split to draw where there are labels and none is given, unless there is a ``schema``.
        options: all else that ``read_tables`` takes, by name.

    Raises:
        DatasetError: the tables cannot be used, or not within a budget.
        HandfulError: it is too little memory.
    """
    with saving(path) as folder, TemporaryDirectory(dir=folder.path) as scratch:
        tables = _read(edges, nodes, Path(scratch, "edges.bin"), **options)
        no_edges = torch.zeros(tables.num_nodes + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32)
        with blaming(tables.where):  # what is checked of all else, and what follows from it
            graph = Graph(*no_edges, **tables.fields)
        if graph.y is not None and graph.train_mask is None and options.get("schema") is None:
            graph = graph.replace(**draw_split(graph, split, seed))
        write_arrays(folder, graph, without=("indptr", "indices"))
        roles, symmetric = tables.roles, is_balanced(tables.edge_index)
        both = roles.undirected and not symmetric
        space, blocks = room(memory, LEAST, "sorting the edges"), partial(_blocks_of, tables.edge_index[::-1])
        repeated = not both and roles.repeated is None
        write_edges(folder, graph.num_nodes, space, blocks, both=both, loops=True, repeated=repeated)
        folder.fields = {name: getattr(graph, name) for name in FIELDS} | {"undirected": symmetric or roles.undirected}


def _blocks_of(ends: np.ndarray, size: int) -> Blocks:
    """The two rows of ``ends``, ``(2, E)``, so many columns at a time."""
    for lo in range(0, ends.shape[1], size):
        first, second = np.ascontiguousarray(ends[:, lo : lo + size])
        yield first, second


def is_balanced(ends: np.ndarray) -> bool:
    """Whether every edge of ``ends``, ``(2, E)``, is there as often as its reverse; by two hashes of 64 bits.

    >>> is_balanced(np.array([[0, 1, 2], [1, 0, 2]])), is_balanced(np.array([[0, 1], [1, 2]]))
    (True, False)
    """
    totals = [0, 0]
    for sources, targets in _blocks_of(ends, READ):
        totals = [total + imbalance(targets, sources, derive_seed(k)) for k, total in enumerate(totals)]
    return all(total % 2**64 == 0 for total in totals)


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass
class _Tables:
    """What tables hold, before it is a graph.

    Args:
        roles: the roles of the edge columns.
        where: the table that mistakes are told of.
        edge_index: ``(2, E)``.
        weight: of the edges.
        num_nodes: N.
        fields: the ids, and other fields of ``Graph``.
        skipped: how many edges were left out.
    """

    roles: Edges
    where: Path
    edge_index: np.ndarray
    weight: np.ndarray | None
    num_nodes: int
    fields: dict[str, Any]
    skipped: int = 0


def _read(
    edges: Source,
    nodes: Source | None,
    scratch: Path | None = None,
    *,
    columns: Columns | None = None,
    how: Handling | None = None,
    schema: Schema | None = None,
    progress: Progress = lambda rows: None,
    say: Say = _warn,
    **fields: Any,
) -> _Tables:
    """What ``read_tables`` makes its graph of. With ``scratch``, the edges are in that file, and not in memory."""
    columns, how = columns or Columns(), how or Handling()
    written = (how if schema is None else schema).decimal, (how if schema is None else schema).encoding
    listed = TableFile.open(edges, *written)
    roles = _edge_roles(listed, columns, how) if schema is None else schema.edges
    used = [name for name in (roles.source, roles.target, roles.weight) if name is not None]
    for name in used:
        listed.has(name)
    if scratch is not None and (roles.weight is not None or roles.repeated == "count"):
        raise DatasetError(f"{listed.path}: weights of edges are added up in memory: leave memory out")
    if extra := [name for name in listed.named if name not in used]:
        say(f"{listed.path}: not used, since no model here takes more of an edge than a weight: {', '.join(extra)}")
    reader = _EdgeReader(listed, roles, how.unknown, progress, scratch)
    if nodes is None:
        if schema is not None and schema.columns:
            raise DatasetError(f"the schema needs a node table beside {listed.path}: give both")
        tables = reader.read(None)
    else:
        table, schema = _read_nodes(TableFile.open(nodes, *written), columns, how, roles, schema, say)
        ids, described = _node_fields(table, schema, say)
        tables = reader.read(ids)
        tables.where = table.source.path
        tables.fields |= _pad(described, tables.num_nodes - len(table), schema)
        if tables.skipped:
            say(f"{listed.path}: {tables.skipped:,} edges have an end that is no node, and are left out")
    tables.fields |= fields
    return tables


def _find(table: TableFile, role: str, chosen: str | None, needed: bool = False) -> Any:
    """The column of ``role``: the chosen one, else the first with a usual name, if any."""
    if chosen is not None:
        return table.has(chosen)
    lower = {name.lower(): name for name in reversed(table.names)}
    result = next((lower[name] for name in USUAL[role] if name in lower), None)
    if result is None and needed:
        looked, names = ", ".join(USUAL[role]), ", ".join(table.names)
        raise DatasetError(f"{table.path} has no {role} column (looked for {looked}): say which it is of {names}")
    return result


def _edge_roles(table: TableFile, columns: Columns, how: Handling) -> Edges:
    source, target = (_find(table, role, getattr(columns, role), needed=True) for role in ("source", "target"))
    return Edges(source, target, _find(table, "weight", columns.weight), how.undirected, how.repeated)


# -- nodes ------------------------------------------------------------------------------------------------------------


def _read_nodes(
    source: TableFile, columns: Columns, how: Handling, roles: Edges, schema: Schema | None, say: Say
) -> tuple[Rows, Schema]:
    """The node table, and its schema: the given one, or one that is fitted to it."""
    if schema is not None:
        table = source.read(types=_texts(schema.as_text()))
        schema.check(table, say)
        _tell_drift(table, schema, how.strict, say)
        return table, schema
    problems = Problems()
    label = _find(source, "label", None) if columns.label is None else columns.label
    labels = (label,) if isinstance(label, str) else tuple(label or ())
    chosen = (*(columns.features or ()), *columns.categorical, *columns.hashed, *columns.numbers)
    for name in (columns.id, columns.split, *labels, *chosen, *columns.ignore):
        with problems.collected():
            if name is not None:
                source.has(name)
            if name in labels and name in chosen and name not in columns.ignore:
                raise DatasetError(f"{source.path}: '{name}' is the label, which cannot be a feature too")
    problems.tell()
    id, split = _find(source, "id", columns.id, needed=True), _find(source, "split", columns.split)
    if not labels:
        looked = ", ".join(USUAL["label"])
        say(f"{source.path} has no label column (looked for {looked}): the graph has no labels to train on")
    used = {id, split, *labels, *MASKS}
    names = _feature_names(source, columns, used)
    texts = [id, split, *columns.categorical, *columns.hashed]
    table = source.read(types=_texts(texts))
    if codes := [name for name in table.codes() if name in names and name not in columns.numbers]:
        table = source.read(types=_texts([*texts, *codes]))
    fitted = np.ones(len(table), bool)
    with problems.collected():
        train = _split(table, split).get("train_mask")
        fitted = fitted if train is None or not train.any() else train
    identifiers = tuple(name for name in names if name not in chosen and table.is_identifier(name))
    if identifiers:
        listed = ", ".join(identifiers)
        say(f"{source.path}: left out as identifiers: {listed}; name those among numbers that count or measure")
    result = fit_columns(table, [n for n in names if n not in identifiers], columns, how, fitted, problems)
    classes: tuple[str, ...] = ()
    with problems.collected():
        classes = fit_labels(table, labels, how.task) if labels else ()
    with problems.collected():
        _check_ids(table, id)
    problems.tell()
    for name, values in {**{c.name: c.categories for c in result}, "the label": classes}.items():
        if pair := alike(values):
            say(f"{source.path}: {name} has both '{pair[0]}' and '{pair[1]}', which are two different values here")
    used |= {column.name for column in result}
    ignored = tuple(name for name in source.names if name not in used)
    rows, training = int(fitted.sum()), not bool(fitted.all())
    told = (ignored, rows, training, identifiers, how.decimal, how.encoding)
    made = Schema(id, roles, result, labels, how.task, classes, split, *told)
    return table, with_profile(made, table, fitted)


def _tell_drift(table: Rows, schema: Schema, strict: bool, say: Say) -> None:
    """Warn about columns that differ from those in training, the worst first; with ``strict``, raise an error."""
    if not (moved := moved_columns(schema, table)):
        return
    names = f"{len(moved)} of {len(schema.columns)} columns are not as they were in training, the worst first"
    listed = "; ".join(f"'{name}' ({words})" for name, words in list(moved.items())[:MOST_MOVED])
    more = f"; and {len(moved) - MOST_MOVED} more" if len(moved) > MOST_MOVED else ""
    if strict:
        raise table.error(f"{names}: {listed}{more}. Correct the table, or leave strict out")
    say(f"{table.source.path}: {names}: {listed}{more}")


def _feature_names(source: TableFile, columns: Columns, used: set[Any]) -> list[str]:
    """The columns that are features: the chosen ones, else all that are nothing else."""
    if columns.features is not None:
        chosen = {*columns.features, *columns.categorical, *columns.hashed, *columns.numbers}
        return [name for name in source.names if name in chosen and name not in columns.ignore]
    return [name for name in source.named if name not in {*used, *columns.ignore}]


def _texts(names: Sequence[str | None]) -> dict[str, Any]:
    return {name: arrow().string() for name in names if name is not None}


def _node_fields(table: Rows, schema: Schema, say: Say) -> tuple[Any, dict[str, Any]]:
    """The ids of a node table, and the fields of ``Graph`` that come from it."""
    problems = Problems()
    result: dict[str, Any] = {"schema": schema.to_json()}
    ids = None
    with problems.collected():
        ids = _check_ids(table, schema.id)
    with problems.collected():
        result |= schema.label_fields(table, say)
    with problems.collected():
        result |= _masks(table, schema, result.get("y"))
    x = schema.encode(table, problems, say)
    problems.tell()
    if schema.columns:
        result["x"] = x
    if schema.task == "classification" and not schema.classes:
        result = {name: value for name, value in result.items() if name not in ("y", "num_classes", "class_names")}
    return ids, result


def _masks(table: Rows, schema: Schema, y: np.ndarray | None) -> dict[str, Any]:
    masks = _split(table, schema.split)
    if y is None or not masks:
        return masks if masks and masks["train_mask"].any() else {}
    known = y >= 0 if y.dtype.kind == "i" else ~np.isnan(y).all(axis=tuple(range(1, y.ndim)))
    unlabelled = np.logical_or.reduce(list(masks.values())) & ~known
    table.refuse(unlabelled, f"the node is in a split but has no '{schema.labels[0]}': leave its split empty")
    return masks


def _split(table: Rows, name: str | None) -> dict[str, np.ndarray]:
    """The masks of the split column ``name``; without one, those of the columns ``train_mask`` etc., if any."""
    if name is None:
        return {mask: table.numbers(mask) != 0 for mask in MASKS if mask in table.source.names}
    if name not in table.source.names:
        return {}
    values = [(value or "").strip().lower() for value in table.text(name).to_pylist()]
    codes = np.array([SPLIT_VALUES.get(value, -2) if value else -1 for value in values])
    table.refuse(codes == -2, "'{}' is not a split: use train, val, test or empty", values)
    return {mask: codes == i for i, mask in enumerate(MASKS)}


def _pad(fields: dict[str, Any], added: int, schema: Schema) -> dict[str, Any]:
    """The fields of the nodes, with missing values for the ``added`` nodes that are only in the edge list."""
    missing = {"i": -1, "f": np.nan, "b": False}
    for name in ("x", "y", *MASKS) if added else ():
        if (values := fields.get(name)) is not None:
            value = schema.missing_row() if name == "x" else missing[values.dtype.kind]
            fields[name] = np.concatenate([values, np.full((added, *values.shape[1:]), value, values.dtype)])
    return fields


# -- ids --------------------------------------------------------------------------------------------------------------


def _check_ids(table: Rows, name: str) -> Any:
    """The ids of a node table, int64 or text, checked to be present and distinct."""
    column = table.column(name)
    table.refuse(column.is_null(), f"the node has no '{name}'")
    with reading(table.source.path):
        ids = _plain_ids(column, f"{table.source.path}: column '{name}'")
    codes = ids.dictionary_encode().indices.to_numpy()
    again = np.append(False, np.diff(np.maximum.accumulate(codes)) == 0)
    table.refuse(again, "node '{}' is there a second time", ids)
    return ids


def _plain_ids(column: Any, where: str) -> Any:
    """A column of ids as int64 if all are whole numbers that fit, else as text; fractions raise an error."""
    pa = arrow()
    if pa.types.is_floating(column.type):
        whole(column.drop_null().to_numpy(), f"{where}: ids")
    if pa.types.is_string(column.type):
        usual = pa.compute.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,18})$")
        if not pa.compute.all(usual, min_count=0).as_py():
            return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.string())


class _Ids:
    """The node numbers of ids of one type. If it ``grows``, unknown ids get new numbers."""

    def __init__(self, known: Any, grows: bool) -> None:
        self.known, self.grows = known, grows
        self._low, self._table = 0, None
        if not grows and arrow().types.is_integer(known.type):
            ids = known.to_numpy()
            low, high = int(ids.min()), int(ids.max())
            if high - low < 8 * len(ids) + 1_000_000:  # close together: a table is faster than a search
                self._low, self._table = low, np.full(high - low + 2, -1, np.int32)
                self._table[ids - low] = np.arange(len(ids), dtype=np.int32)

    def numbers(self, values: Any) -> np.ndarray:
        """The number of every id; -1 for an unknown id."""
        if not self.grows:
            return self._places(values)
        pa = arrow()
        encoded = values.dictionary_encode()
        places = self._places(encoded.dictionary)
        fresh = np.flatnonzero(places < 0)
        places[fresh] = len(self.known) + np.arange(len(fresh))
        self.known = pa.concat_arrays([self.known, encoded.dictionary.take(pa.array(fresh))])
        return places[encoded.indices.to_numpy()]  # type: ignore[no-any-return]

    def _places(self, values: Any) -> np.ndarray:
        if self._table is not None:
            ids, last = values.to_numpy(), len(self._table) - 1
            inside = (ids >= self._low) & (ids < self._low + last)
            return self._table[np.where(inside, ids - self._low, last)]
        return places_among(values, self.known)

    def kept(self) -> np.ndarray:
        """The ids as an array for a graph."""
        if arrow().types.is_integer(self.known.type):
            return self.known.to_numpy()  # type: ignore[no-any-return]
        return np.array(self.known.to_pylist(), dtype=np.str_)


# -- edges ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _EdgeReader:
    """Reads an edge list, block by block, into memory or into the file ``scratch``."""

    table: TableFile
    roles: Edges
    unknown: Unknown
    progress: Progress
    scratch: Path | None

    def read(self, known: Any) -> _Tables:
        """The edges between ``known`` ids; between any ids if it is ``None``.

        Integer ids are read as integers. If some are not, the table is read again with ids as text.
        """
        pa = arrow()
        if known is None or pa.types.is_integer(known.type):
            try:
                return self._scan(known, pa.int64())
            except NotWholeError:
                pass
        ids = pa.array([]) if known is None else known
        return self._scan(ids.cast(pa.string()), pa.string(), known is None)

    def _scan(self, known: Any, kind: Any, grows: bool = False) -> _Tables:
        roles, path = self.roles, self.table.path
        ends, weight = (roles.source, roles.target), roles.weight
        types = dict.fromkeys(ends, kind) | ({} if weight is None else {weight: arrow().float32()})
        ids = None if known is None else _Ids(known, grows or self.unknown == "add")
        absent, unweighted, strange = Faults(), Faults(), Faults()
        blocks, skipped = _Blocks(self.scratch), 0
        for row, block in self.table.blocks(list(types), types):
            sides = [self._side(block.column(end), end, kind) for end in ends]
            for end, side in zip(ends, sides, strict=True):
                absent.add(side.is_null(), row, f"the edge has no '{end}'")
            if absent.count:
                continue
            if ids is None:
                parts = [_narrow(side.to_numpy()) for side in sides]
            else:
                # Together, since a table in which text is looked up is built for every call.
                parts = np.split(ids.numbers(arrow().concat_arrays(sides)), 2)
                if self.unknown == "error":
                    for end, side, part in zip(ends, sides, parts, strict=True):
                        strange.add(part < 0, row, f"{end} '{{}}' is not in the node table", side)
            if weight is not None:
                with reading(path):
                    numbers = block.column(weight).cast(arrow().float32()).to_numpy(zero_copy_only=False)
                parts.append(numbers.astype(np.float32))
                unweighted.add(~np.isfinite(parts[-1]), row, f"'{weight}' is missing or not finite")
                unweighted.add(parts[-1] < 0, row, f"'{weight}' is {{}}, and an edge counts 0 or more", parts[-1])
            if ids is not None and self.unknown == "skip":
                kept = (parts[0] >= 0) & (parts[1] >= 0)
                skipped += int((~kept).sum())
                parts = [part[kept] for part in parts]
            blocks.append(parts)
            self.progress(len(block))
        problems = Problems(f"{path}, {faults}" for faults in (absent, unweighted) if faults.count)
        if strange.count and ids is not None:
            such = " and ".join(f"'{id}'" for id in ids.known[:2].to_pylist())
            advice = f"add them to it (its ids are such as {such}), or say that unknown ids are to be skipped or added"
            problems.append(f"{path}, {strange}: {advice}")
        problems.tell()
        edge_index, weights = blocks.joined()
        if ids is not None:
            return _Tables(roles, path, edge_index, weights, len(ids.known), {"ids": ids.kept()}, skipped)
        edge_index, num_nodes, own = self._number_ids(edge_index)
        return _Tables(roles, path, edge_index, weights, num_nodes, {"ids": own})

    def _side(self, side: Any, end: str, kind: Any) -> Any:
        """One end of the edges of a block, as ids of type ``kind``."""
        if side.type == kind:
            return side
        with reading(self.table.path):
            ids = _plain_ids(resolved(side), f"{self.table.path}: column '{end}'")
            if arrow().types.is_string(kind):
                return ids.cast(kind)
        if ids.type != kind:
            raise NotWholeError(f"{self.table.path}: column '{end}' holds {side.type}")
        return ids

    def _number_ids(self, edge_index: np.ndarray) -> tuple[np.ndarray, int, np.ndarray | None]:
        """Integer ids as node numbers: as they are where they are dense, in ascending order where they are not."""
        low, high = int(edge_index.min()), int(edge_index.max())
        if low >= 0 and high < 8 * edge_index.shape[1] + 1_000_000:
            return edge_index, high + 1, None
        if self.scratch is not None:
            raise DatasetError(f"{self.table.path}: ids from {low} to {high} have gaps, and are {IN_MEMORY}")
        known, places = np.unique(edge_index, return_inverse=True)
        return places.reshape(edge_index.shape), len(known), known.astype(np.int64)


def _narrow(values: np.ndarray) -> np.ndarray:
    """``values`` in int32 if they fit."""
    fits = np.iinfo(np.int32).min <= values.min() and values.max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if fits else values


class _Blocks:
    """Blocks of sources, targets and perhaps weights: in memory, or, without weights and as int32, in a file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._ends: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        if path is not None:
            path.unlink(missing_ok=True)

    def append(self, block: list[np.ndarray]) -> None:
        """Add a block."""
        if self.path is None:
            self._ends.append(np.stack(block[:2]))
            self._weights += block[2:]
            return
        edges = np.stack(block, axis=1)
        if edges.dtype != np.int32 and edges.size and not (edges.min() >= 0 and edges.max() < 2**31):
            raise DatasetError(f"ids beyond 2³¹ are {IN_MEMORY}")
        with naming(self.path), self.path.open("ab") as file:
            file.write(edges.astype(np.int32, copy=False).reshape(-1).view(np.uint8).data)

    def joined(self) -> tuple[np.ndarray, np.ndarray | None]:
        """One ``edge_index`` and one vector of weights of all blocks; those of a file are mapped into memory."""
        if self.path is not None:
            size = self.path.stat().st_size
            ends = np.memmap(self.path, np.int32, "r") if size else np.empty(0, np.int32)
            return ends.reshape(-1, 2).T, None
        return np.concatenate(self._ends, axis=1), np.concatenate(self._weights) if self._weights else None
