"""A graph from an edge list and a node table, in CSV or Parquet, streamed so that the edges may be many.

Edges are read block by block and kept as numbers of four bytes, so 100 million rows take a few gigabytes. Ids are
integers or text, never floating-point numbers: integers are fastest, all other types are matched as text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from handful.datasets.schema import (
    Edges,
    Impute,
    Say,
    Scale,
    Schema,
    Wanted,
    alike,
    fit_columns,
    fit_labels,
)
from handful.datasets.tables import (
    UNNAMED,
    ConversionError,
    Problems,
    Rows,
    Source,
    TableFile,
    arrow,
    as_text,
    empty,
    first,
    reading,
)
from handful.errors import DatasetError, GraphError
from handful.files import naming
from handful.graph import MASKS, Graph, Repeated, Task

Unknown = Literal["error", "skip", "add"]
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

    Args:
        source, target, weight: of the edge list.
        id, split: of the node table.
        label: of the node table; several for a multi-label task.
        features: the columns that are features; those of ``categorical`` and ``hashed`` are added to them.
        categorical: columns of numbers that are codes, to be one-hot encoded as text columns are.
        hashed: columns of text whose words are hashed into a fixed number of features.
        ignore: columns that are left out.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    label: str | Sequence[str] | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    categorical: Sequence[str] = ()
    hashed: Sequence[str] = ()
    ignore: Sequence[str] = ()


@dataclass(frozen=True)
class Handling:
    """What is done with what tables bring.

    Args:
        task: ``classification``, ``regression`` (a label that is a number) or ``multilabel`` (columns of 0 and 1).
        impute: what stands for a missing number: ``median``, ``mean`` or ``zero``; ``error`` refuses it.
        scale: of numbers: ``standard``, ``quantile`` (to normal scores) or ``none``.
        unknown: what is done with edges whose ends are in no row of the node table: ``error``, ``skip``, or ``add``,
            which makes nodes of them whose values are missing.
        repeated: how edges with the same ends become one: the ``sum``, the ``mean`` or the ``first`` of their weights,
            or their ``count``. ``None`` sums weights, and keeps repeated edges where there are none.
        undirected: add the reverse of every edge.
    """

    task: Task = "classification"
    impute: Impute = "median"
    scale: Scale = "standard"
    unknown: Unknown = "error"
    repeated: Repeated | None = None
    undirected: bool = False

    def __post_init__(self) -> None:
        kinds = {"task": Task, "impute": Impute, "scale": Scale, "unknown": Unknown, "repeated": Repeated}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value not in get_args(kind) and not (name == "repeated" and value is None):
                raise DatasetError(f"{name} takes {', '.join(get_args(kind))}, got {value!r}")


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def read_tables(
    edges: Source,
    nodes: Source | None = None,
    columns: Columns | None = None,
    how: Handling | None = None,
    *,
    schema: Schema | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    say: Say = _warn,
    **fields: Any,
) -> Graph:
    """A graph from an edge list and, for features and labels, a node table; see ``docs/tables.md``.

    The edge list has a source and a target column and may have a weight. The node table has an id column, perhaps
    labels, feature columns, and a split column (train, val, test or empty) or boolean ``train_mask``, ``val_mask`` and
    ``test_mask``. Nodes are numbered in the order of their table, and keep their ids in ``graph.ids``. What is done
    with the columns is in ``graph.schema``: missing numbers are filled and numbers are scaled, by the training rows
    where the table has a split of its own, else by all rows. Labels are numbered in sorted order; a missing label, or
    -1 among integers, is unknown. Without a node table integer ids are the node numbers, if they are dense, and other
    ids are numbered as they come. Lost, and said: edge columns beyond the weight.

    Args:
        edges: the edge list: a CSV or Parquet file, or a table of pandas, polars or pyarrow.
        nodes: the node table, likewise.
        columns: which column is what, where the names are not the usual ones.
        how: what is done with missing values, scales, unknown ids and repeated edges.
        schema: that of another graph, to encode these tables as its were; ``columns`` and ``how``, but for its
            ``unknown``, are then those of the schema.
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
    parts = read_parts(edges, nodes, columns, how, schema=schema, progress=progress, say=say)
    scanned, roles = parts.scanned, parts.roles
    try:
        graph = Graph.from_edge_index(
            scanned.edge_index, **{"num_nodes": scanned.num_nodes, "edge_weight": scanned.weight} | parts.found | fields
        )
    except GraphError as error:
        raise GraphError(f"{parts.where}: {error}") from None
    if roles.repeated is not None or graph.edge_weight is not None:
        graph = graph.coalesce(roles.repeated or "sum")
    return graph.to_undirected() if roles.undirected else graph


@dataclass
class Parts:
    """What tables hold, before it is a graph.

    Args:
        scanned: the edges.
        found: the fields of ``Graph`` that come from the node table.
        roles: what is done with the edges.
        where: the table that mistakes are told of.
    """

    scanned: Scanned
    found: dict[str, Any]
    roles: Edges
    where: Path


def read_parts(
    edges: Source,
    nodes: Source | None,
    columns: Columns | None,
    how: Handling | None,
    *,
    schema: Schema | None,
    progress: Callable[[int], None],
    say: Say,
    scratch: Path | None = None,
) -> Parts:
    """What ``read_tables`` makes its graph of. With ``scratch``, the edges are in that file, and not in memory."""
    columns, how = columns or Columns(), how or Handling()
    listed = TableFile.open(edges)
    roles = _edge_roles(listed, columns, how) if schema is None else schema.edges
    for name in (roles.source, roles.target, *([] if roles.weight is None else [roles.weight])):
        listed.has(name)
    if scratch is not None and (roles.weight is not None or roles.repeated == "count"):
        raise DatasetError(f"{listed.path}: weights of edges are added up in memory: leave memory out")
    used = {roles.source, roles.target, roles.weight}
    if extra := [name for name in listed.names if name not in used and not name.startswith(UNNAMED)]:
        say(
            f"{listed.path}: {', '.join(extra)} {'is' if len(extra) == 1 else 'are'} not used: no model here takes "
            "features of edges. One column of numbers can be the weight of the edges"
        )
    if nodes is None:
        if schema is not None and schema.columns:
            raise DatasetError(f"the schema needs a node table beside {listed.path}: give both")
        scanned = _read_edges(listed, roles, None, how.unknown, progress, scratch)
        found: dict[str, Any] = {"ids": scanned.ids}
        where = listed.path
    else:
        table, schema = _read_nodes(TableFile.open(nodes), columns, how, roles, schema, say)
        ids, found = _node_fields(table, schema, say)
        where = table.source.path
        scanned = _read_edges(listed, roles, ids, how.unknown, progress, scratch)
        found |= _padded(found, scanned, schema, len(table))
        if scanned.skipped:
            say(f"{listed.path}: {scanned.skipped:,} edges have an end that is no node, and are left out")
    return Parts(scanned, found, roles, where)


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


def _edge_roles(table: TableFile, columns: Columns, how: Handling) -> Edges:
    source, target = _need(table, "source", columns.source), _need(table, "target", columns.target)
    return Edges(source, target, _find(table, "weight", columns.weight), how.undirected, how.repeated)


# -- nodes ----------------------------------------------------------------------------------------------------------


def _read_nodes(
    source: TableFile, columns: Columns, how: Handling, roles: Edges, schema: Schema | None, say: Say
) -> tuple[Rows, Schema]:
    """The node table, and its schema: the given one, or one that is fitted to it."""
    if schema is not None:
        table = source.read(types=_texts(schema.as_text()))
        schema.check(table, say)
        return table, schema
    problems = Problems()
    roles_of = {}
    for role in ("id", "split"):
        with problems.collected():
            roles_of[role] = (_need if role == "id" else _find)(source, role, getattr(columns, role))
    labels: tuple[str, ...] = ()
    with problems.collected():
        if columns.label is None:
            labels = tuple(name for name in [_find(source, "label", None)] if name is not None)
        else:
            labels = tuple(
                source.has(n) for n in ([columns.label] if isinstance(columns.label, str) else columns.label)
            )
    for name in (*(columns.features or ()), *columns.categorical, *columns.hashed, *columns.ignore):
        with problems.collected():
            source.has(name)
            if name in labels and name not in columns.ignore:
                raise DatasetError(f"{source.path}: '{name}' is the label, which cannot be a feature too")
    problems.tell()
    if not labels:
        looked = ", ".join(USUAL["label"])
        say(f"{source.path} has no label column (looked for {looked}): the graph has no labels to train on")
    id, split = str(roles_of["id"]), roles_of["split"]
    table = source.read(types=_texts([id, split, *columns.categorical, *columns.hashed]))
    used = {id, split, *labels, *MASKS}
    names = [name for name in source.names if name not in used]
    if columns.features is not None:
        chosen = {*columns.features, *columns.categorical, *columns.hashed}
        names = [name for name in source.names if name in chosen]
    names = [n for n in names if n not in columns.ignore and (columns.features or not n.startswith(UNNAMED))]
    fitted = np.ones(len(table), bool)
    with problems.collected():
        train = _split(table, split).get("train_mask")
        fitted = fitted if train is None or not train.any() else train
    wanted = Wanted(names, columns.categorical, columns.hashed, how.impute, how.scale)
    found, _ = fit_columns(table, wanted, fitted, problems)
    classes: tuple[str, ...] = ()
    with problems.collected():
        classes = fit_labels(table, labels, how.task) if labels else ()
    with problems.collected():
        _check_ids(table, id)
    problems.tell()
    for name, values in {**{c.name: c.categories for c in found}, "the label": classes}.items():
        if pair := alike(values):
            say(f"{source.path}: {name} has both '{pair[0]}' and '{pair[1]}', which are two different values here")
    kept = {column.name for column in found}
    return table, Schema(
        id=id,
        edges=roles,
        columns=found,
        labels=labels,
        task=how.task,
        classes=classes,
        split=split,
        ignored=tuple(name for name in source.names if name not in used | kept),
        rows=int(fitted.sum()),
        training=not bool(fitted.all()),
    )


def _texts(names: Sequence[str | None]) -> dict[str, Any]:
    return {name: arrow().string() for name in names if name is not None}


def _node_fields(table: Rows, schema: Schema, say: Say) -> tuple[_Ids, dict[str, Any]]:
    """The ids of a node table, and the fields of ``Graph`` that come from it."""
    problems = Problems()
    found: dict[str, Any] = {"schema": schema.to_json()}
    with problems.collected():
        ids = _check_ids(table, schema.id)
    with problems.collected():
        found |= schema.label_fields(table, say)
    with problems.collected():
        found |= _masks(table, schema, found.get("y"))
    x = schema.encode(table, problems, say)
    problems.tell()
    if schema.columns:
        found["x"] = x
    if schema.task == "classification" and not schema.classes:
        for name in ("y", "num_classes", "class_names"):
            found.pop(name, None)
    return _Ids(ids, closed=True), found


def _masks(table: Rows, schema: Schema, y: np.ndarray | None) -> dict[str, Any]:
    masks = _split(table, schema.split)
    if y is None or not masks:
        return masks if masks and masks["train_mask"].any() else {}
    known = y >= 0 if y.dtype.kind == "i" else ~np.isnan(y).all(axis=tuple(range(1, y.ndim)))
    unlabelled = np.flatnonzero(np.logical_or.reduce(list(masks.values())) & ~known)
    if len(unlabelled):
        raise DatasetError(
            f"{table.row(unlabelled[0])}: the node is in a split but has no '{schema.labels[0]}' "
            f"({len(unlabelled):,} such rows): leave its split empty"
        )
    return masks


def _split(table: Rows, name: str | None) -> dict[str, np.ndarray]:
    """The masks of the split column ``name``; without one, those of the columns ``train_mask`` and so on, if any."""
    if name is None:
        return {mask: table.numbers(mask) != 0 for mask in MASKS if mask in table.source.names}
    if name not in table.source.names:
        return {}
    values = [None if v is None else str(v).strip().lower() for v in as_text(table.column(name)).to_pylist()]
    codes = np.array([-1 if not v else SPLIT_VALUES.get(v, -2) for v in values])
    wrong = np.flatnonzero(codes == -2)
    if len(wrong):
        raise DatasetError(f"{table.row(wrong[0])}: '{values[wrong[0]]}' is not a split: use train, val, test or empty")
    return {mask: codes == i for i, mask in enumerate(MASKS)}


def _padded(found: dict[str, Any], scanned: Scanned, schema: Schema, rows: int) -> dict[str, Any]:
    """The fields of the nodes with those of nodes that only the edge list has, whose values are missing."""
    added = scanned.num_nodes - rows
    out: dict[str, Any] = {"ids": scanned.ids}
    if not added:
        return out
    if "x" in found:
        out["x"] = np.concatenate([found["x"], np.repeat(schema.missing_row()[None], added, axis=0)])
    if "y" in found:
        y = found["y"]
        none = np.full((added, *y.shape[1:]), -1 if y.dtype.kind == "i" else np.nan, y.dtype)
        out["y"] = np.concatenate([y, none])
    return out | {m: np.append(found[m], np.zeros(added, bool)) for m in MASKS if m in found}


# -- ids ------------------------------------------------------------------------------------------------------------


def _check_ids(table: Rows, name: str) -> Any:
    """The ids of a node table, int64 or text; none is missing, and none is there twice."""
    column = table.column(name)
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        more = f" ({column.null_count:,} such rows)" if column.null_count > 1 else ""
        raise DatasetError(f"{table.row(int(missing.argmax()))}: the node has no '{name}'{more}")
    with reading(table.source.path):
        ids = _plain_ids(column, f"{table.source.path}: column '{name}'")
    codes = ids.dictionary_encode().indices.to_numpy()
    again = first(np.diff(np.maximum.accumulate(codes)) == 0)
    if again is not None:
        twice = len(ids) - int(codes.max()) - 1
        more = f" ({twice:,} such rows)" if twice > 1 else ""
        raise DatasetError(f"{table.row(again + 1)}: node '{ids[again + 1]}' is there a second time{more}")
    return ids


def _plain_ids(column: Any, where: str) -> Any:
    """A column of ids as int64 if it is whole numbers that fit, written as usual; else as text."""
    pa = arrow()
    if pa.types.is_floating(column.type):
        column = _whole(column, where)
    if pa.types.is_string(column.type):
        usual = pa.compute.match_substring_regex(column, r"^(0|-?[1-9][0-9]{0,18})$")
        if not pa.compute.all(usual, min_count=0).as_py():
            return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return as_text(column)


def _whole(column: Any, where: str) -> Any:
    """Floating-point ids as integers; refused where they are not, or may not be, the numbers that were meant."""
    numbers = column.to_numpy(zero_copy_only=False)
    wrong = first(~((numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)) & ~np.isnan(numbers))
    if wrong is not None:
        raise DatasetError(f"{where} holds floating-point numbers ({numbers[wrong]}): ids are integers or text")
    return column.cast(arrow().int64())


class _Ids:
    """Numbers for ids of one type: those of a node table, or, without one, of the ids as they appear."""

    def __init__(self, known: Any, closed: bool) -> None:
        self.known = known
        self.closed = closed
        self._find = _integer_finder(known.to_numpy()) if closed and arrow().types.is_integer(known.type) else None

    def as_text(self) -> _Ids:
        """The same ids, as text."""
        return _Ids(as_text(self.known), self.closed)

    def numbers(self, both: Any) -> np.ndarray:
        """The number of every id of ``both``, -1 where it is not known."""
        pa = arrow()
        if self._find is not None:
            return self._find(both.to_numpy())
        if self.closed:
            return self._places(both)
        encoded = both.dictionary_encode()
        places = self._places(encoded.dictionary)
        fresh = np.flatnonzero(places < 0)
        places[fresh] = len(self.known) + np.arange(len(fresh))
        self.known = pa.concat_arrays([self.known, encoded.dictionary.take(pa.array(fresh))])
        return places[encoded.indices.to_numpy()]  # type: ignore[no-any-return]

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


@dataclass
class Scanned:
    """An edge list that was read: ``edge_index`` (2, E), weights, the ids of all nodes, edges that were left out."""

    edge_index: np.ndarray
    weight: np.ndarray | None
    num_nodes: int
    ids: np.ndarray | None
    skipped: int = 0


@dataclass
class _Found:
    """Places in a table where something is wrong: how many, and the first three in words."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, wrong: np.ndarray, row: int, words: str, values: Any = None) -> None:
        """``words`` are told of each place, with its value for ``{}``; ``row`` is that of the first place."""
        at = np.flatnonzero(wrong)
        self.count += len(at)
        for i in at[: 3 - len(self.shown)].tolist():
            self.shown.append(f"row {row + i}: " + words.replace("{}", "" if values is None else str(values[i])))

    def __str__(self) -> str:
        if self.count <= len(self.shown):
            return "; ".join(self.shown)
        return "; ".join(self.shown) + f"; {self.count:,} in all"


def _read_edges(
    table: TableFile,
    roles: Edges,
    ids: _Ids | None,
    unknown: Unknown,
    progress: Callable[[int], None],
    scratch: Path | None,
) -> Scanned:
    """The edge list, with integer ids as integers; if they turn out not to be, it is read again with ids as text."""
    pa = arrow()
    if ids is None or pa.types.is_integer(ids.known.type):
        try:
            return _scan(table, roles, ids, pa.int64(), unknown, progress, scratch)
        except ConversionError as error:
            if error.wanted != "int64":
                raise
    text = _Ids(pa.array([], pa.string()), closed=False) if ids is None else ids.as_text()
    return _scan(table, roles, text, pa.string(), unknown, progress, scratch)


def _scan(
    table: TableFile,
    roles: Edges,
    ids: _Ids | None,
    kind: Any,
    unknown: Unknown,
    progress: Callable[[int], None],
    scratch: Path | None,
) -> Scanned:
    pa = arrow()
    ends, weight = (roles.source, roles.target), roles.weight
    names = [*ends, *([] if weight is None else [weight])]
    types = dict.fromkeys(ends, kind) | ({} if weight is None else {weight: pa.float32()})
    blocks: Blocks = InMemory() if scratch is None else InFile(scratch)
    absent, strange, unweighted, skipped = _Found(), _Found(), _Found(), 0
    more = _Ids(pa.array([], kind), closed=False)
    for row, block in table.blocks(names, types):
        sides = [_side(table, block.column(end), end, kind) for end in ends]
        for end, side in zip(ends, sides, strict=True):
            if side.null_count:
                absent.add(side.is_null().to_numpy(zero_copy_only=False), row, f"the edge has no '{end}'")
        if absent.count:
            continue
        if ids is None:
            parts = [_narrow(side.to_numpy()) for side in sides]
        else:
            # Together, since a table in which text is looked up is built for every call.
            both = pa.concat_arrays(sides)
            numbers = ids.numbers(both)
            new = numbers < 0
            if unknown == "add" and new.any():
                numbers[new] = len(ids.known) + more.numbers(both.filter(pa.array(new)))
                new[:] = False
            parts = [*np.split(numbers, 2)]
            for end, side, wrong in zip(ends, sides, np.split(new, 2), strict=True):
                if unknown == "error" and wrong.any():
                    strange.add(wrong, row, f"{end} '{{}}' is not in the node table", side)
        if weight is not None:
            with reading(table.path):
                parts.append(block.column(weight).cast(pa.float32()).to_numpy(zero_copy_only=False).astype(np.float32))
            unweighted.add(~np.isfinite(parts[-1]), row, f"'{weight}' is missing or not finite")
            unweighted.add(parts[-1] < 0, row, f"'{weight}' is {{}}, and an edge counts 0 or more", parts[-1])
        if ids is not None and unknown == "skip":
            kept = (parts[0] >= 0) & (parts[1] >= 0)
            skipped += int((~kept).sum())
            parts = [part[kept] for part in parts]
        blocks.append(parts)
        progress(len(block))
    _tell(table, absent, strange, unweighted, [] if ids is None else ids.known[:2].to_pylist())
    edge_index, weights = blocks.joined(table.path)
    if ids is None:
        edge_index, num_nodes, own = _numbered(edge_index, table.path, scratch is None)
        return Scanned(edge_index, weights, num_nodes, own)
    known = pa.concat_arrays([ids.known, more.known]) if len(more.known) else ids.known
    return Scanned(edge_index, weights, len(known), _kept(known), skipped)


def _side(table: TableFile, side: Any, end: str, kind: Any) -> Any:
    """One end of the edges of a block, as ids of type ``kind``."""
    pa = arrow()
    if side.type == kind:
        return side
    side = Rows(table, pa.table({end: side})).column(end) if end in table.names else side
    if pa.types.is_floating(side.type):
        side = _whole(side, f"{table.path}: column '{end}'")
    if pa.types.is_integer(kind):
        try:
            if not pa.types.is_integer(side.type):
                raise pa.ArrowInvalid
            return side.cast(kind)
        except pa.ArrowInvalid:
            raise ConversionError(f"{table.path}: column '{end}' holds {side.type}", "int64") from None
    with reading(table.path):
        return as_text(side)


def _tell(table: TableFile, absent: _Found, strange: _Found, unweighted: _Found, known: list[Any]) -> None:
    """Refuse the edges in which something was found; ``known`` are ids of the node table, as an example."""
    problems = Problems()
    if absent.count:
        problems.found.append(f"{table.path}, {absent}")
    if strange.count:
        example = " and ".join(f"'{id}'" for id in known)
        advice = f"add them to it (its ids are such as {example}), or say that unknown ids are to be skipped or added"
        problems.found.append(f"{table.path}, {strange}: {advice}")
    if unweighted.count:
        problems.found.append(f"{table.path}, {unweighted}")
    problems.tell()


def _kept(ids: Any) -> np.ndarray:
    """Ids as an array that a graph keeps."""
    return ids.to_numpy() if arrow().types.is_integer(ids.type) else np.array(ids.to_pylist(), dtype=np.str_)


def _narrow(values: np.ndarray) -> np.ndarray:
    """``values`` in int32 if they fit."""
    fits = np.iinfo(np.int32).min <= values.min() and values.max() <= np.iinfo(np.int32).max
    return values.astype(np.int32) if fits else values


class InMemory(list[list[np.ndarray]]):
    """Blocks of sources, targets and perhaps weights, in memory."""

    def joined(self, where: Path) -> tuple[np.ndarray, np.ndarray | None]:
        """One ``edge_index`` and one vector of weights of all blocks, which are freed on the way."""
        if not self:
            raise empty(where)
        count = sum(len(block[0]) for block in self)
        edge_index = np.empty((2, count), np.result_type(*{part.dtype for block in self for part in block[:2]}))
        weights = np.empty(count, np.float32) if len(self[0]) == 3 else None
        stop = count
        while self:
            block = self.pop()
            start = stop - len(block[0])
            edge_index[0, start:stop], edge_index[1, start:stop] = block[:2]
            if weights is not None:
                weights[start:stop] = block[2]
            stop = start
        return edge_index, weights


class InFile:
    """Blocks of sources and targets in a file, as int32."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)

    def append(self, block: list[np.ndarray]) -> None:
        """Add a block."""
        edges = np.stack(block, axis=1)
        if edges.dtype != np.int32:
            if edges.size and not (edges.min() >= 0 and edges.max() < 2**31):
                raise DatasetError("ids beyond 2³¹ are numbered in memory: leave memory out, or give a node table")
            edges = edges.astype(np.int32)
        with naming(self.path), self.path.open("ab") as file:
            file.write(edges.reshape(-1).view(np.uint8).data)

    def joined(self, where: Path) -> tuple[np.ndarray, None]:
        """One ``edge_index`` of all blocks, mapped from the file."""
        if not self.path.exists():
            raise empty(where)
        if not self.path.stat().st_size:
            return np.empty((2, 0), np.int32), None
        return np.memmap(self.path, np.int32, "r").reshape(-1, 2).T, None


Blocks = InMemory | InFile


def _numbered(edge_index: np.ndarray, where: Path, in_memory: bool) -> tuple[np.ndarray, int, np.ndarray | None]:
    """Integer ids as node numbers: as they are where they are dense, in ascending order where they are not."""
    low, high = int(edge_index.min()), int(edge_index.max())
    if low >= 0 and high < 8 * edge_index.shape[1] + 1_000_000:
        return edge_index, high + 1, None
    if not in_memory:
        raise DatasetError(
            f"{where}: ids from {low} to {high} have gaps, and are numbered in memory: leave memory out, or give a "
            "node table"
        )
    known, places = np.unique(edge_index, return_inverse=True)
    return places.reshape(edge_index.shape), len(known), known.astype(np.int64)
