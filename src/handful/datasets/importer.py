"""Make a graph from an edge list and a node table, in CSV or Parquet.

Edges are read block by block and kept as int32, so 100 million rows take a few gigabytes. If there is a memory budget,
edges are written directly to a saved graph. Ids are integers or text, never floating-point numbers. Integers are
fastest; ids of all other types are compared as text.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from handful.budget import room
from handful.datasets.drift import moved_columns, with_profile
from handful.datasets.edge_columns import edge_counts, edge_means
from handful.datasets.edge_sort import Blocks, write_edges
from handful.datasets.leakage import leaking_columns
from handful.datasets.schema import Column, Edges, Profile, Say, Schema, date_format, doubts, fit_columns, fit_labels
from handful.datasets.splits import RANDOM_HIGH, draw_split, time_split
from handful.datasets.tables import Faults, NotWholeError, Problems, Source, TableFile, arrow, number_ids, reading
from handful.errors import DatasetError, blaming, unknown
from handful.files import naming
from handful.graph import MASKS, Graph, is_label
from handful.kernels.buckets import imbalance
from handful.kernels.sparse import is_sparse, scipy_rows
from handful.random import derive_seed
from handful.settings import TableOptions, Unknown
from handful.storage import FIELDS, open_graph, save, saving, write_graph

USUAL = {
    "source": ("source", "src", "src_id", "source_id", "from", "u", "id_1", "node_1"),
    "target": ("target", "dst", "dst_id", "target_id", "to", "v", "id_2", "node_2"),
    "weight": ("weight", "edge_weight"),
    "id": ("id", "node_id", "node"),
    "label": ("label", "y", "class", "target"),
    "split": ("split",),
}
TIME = "time:"
"""The prefix of a split by time; the name of the time column follows it."""
OF_NODES = ("x", "y", "kept", *MASKS)
SPLIT_VALUES = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
LEAST = 32 << 20
"""The minimum memory for sorting edges, in bytes."""
FIRST_ROWS = 1000
"""The number of rows of an edge list that are searched for times."""
MOST_MOVED = 8
"""The maximum number of drifted columns in a message."""
UNLABELLED = {"", "-1", "-", "?", "none", "unknown", "missing", "unlabelled", "unlabeled"}
"""Classes that may stand for an unknown label, in lower case."""
MANY_NUMBERS = 30
"""If the classes are whole numbers, and there are more of them than this, a note names the task regression."""
OPTIONS = tuple(TableOptions.__dataclass_fields__)
Progress = Callable[[int], None]
Split = dict[str, np.ndarray]
"""The masks of a split, by name."""
Fields = dict[str, Any]
"""Fields of ``Graph``, by name."""


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def import_tables(
    edges: Source,
    nodes: Source | None = None,
    *,
    out: str | Path | None = None,
    memory: int | str | None = None,
    split: str | None = "rh",
    seed: int = 0,
    schema: Schema | None = None,
    progress: Progress = lambda rows: None,
    say: Say = _warn,
    **options: Any,
) -> Graph:
    """Import a graph from an edge list and, for features and labels, a node table; see ``docs/tables.md``.

    The edge list has a source column, a target column, and optionally a weight column. The node table has an id column,
    and optionally labels, feature columns, and a split column (``train``, ``val``, ``test`` or empty) or boolean
    ``train_mask``, ``val_mask`` and ``test_mask``. Nodes are numbered in the order of the node table; ``graph.ids``
    contains their ids. ``graph.schema`` contains the encoding of the columns. Missing numbers are imputed, and numbers
    are scaled. Both use statistics of the training rows, or of all rows if the table has no split. Classes are the
    sorted values of the label, and a missing label is unknown; -1 is a class like any other number. If there is no node
    table, integer ids without large gaps are the node indices; other integer ids are numbered in ascending order, and
    text ids are numbered in order of appearance. All columns of the edge list except source, target, weight and
    ``edge_columns`` are unused; a warning lists them.

    Args:
        edges: the edge list: a CSV or Parquet file, a table of pandas, polars or pyarrow, or a dictionary of columns;
            or a folder with the files ``edges`` and ``nodes``.
        nodes: the node table, in the same formats.
        out: the folder to save the graph in; by default, the graph is not saved.
        memory: the maximum anonymous memory of this process, such as ``"4GiB"``. If ``memory`` is given, the graph is
            written to ``out`` with the same bytes, and only the node table is completely in memory. The edge list must
            then have no weights, no ``edge_columns`` and no ``edge_time``. If there is no node table, the ids in the
            edge list must have no large gaps.
        split, seed: the split to draw, and its seed, if there are labels but no split in the table; ``None`` draws no
            split. If ``schema`` is given, no split is drawn. ``"time:COLUMN"`` trains on the earliest half of the
            labelled rows, validates on the next quarter and tests on the last quarter, even if the table has a split.
            ``COLUMN`` is then not a feature, unless ``features`` contains it. With ``edge_time``, the graph has only
            the edges before the first time of validation.
        schema: the schema of another graph, to encode these tables in the same way. The only ``options`` beside a
            schema are ``unknown``, whose default is that of the schema, and ``strict``.
        progress: a function that is called after each block of edges, with the number of edges in this block.
        say: a function that is called with notes that are not errors, such as unused columns; by default, it issues a
            warning.
        options: the fields of ``handful.settings.TableOptions``, such as ``label="status"``; and the fields of
            ``Graph``, which replace values of the tables.

    Raises:
        DatasetError: the tables are not valid; the message lists all errors of a table.
        HandfulError: the memory budget is too small.

    >>> edges = {"payer": ["ann", "bob"], "payee": ["bob", "cid"]}
    >>> nodes = {"id": ["ann", "bob", "cid"], "age": [31, None, 45], "status": ["ok", "fraud", "ok"]}
    >>> import_tables(edges, nodes, source="payer", target="payee", label="status", split=None)
    Graph(graph: directed, 3 nodes, 2 edges, 2 features, 2 classes)
    """
    fields = {name: value for name, value in options.items() if name not in OPTIONS}
    if wrong := [name for name in fields if name not in Graph.__dataclass_fields__]:
        raise DatasetError(unknown("option", wrong[0], [*OPTIONS, *Graph.__dataclass_fields__]))
    how = TableOptions(**{name: value for name, value in options.items() if name in OPTIONS})
    if schema is not None:
        if fixed := [name for name in options if name in OPTIONS and name not in ("unknown", "strict")]:
            raise DatasetError(f"the schema says how to read the tables: leave out {', '.join(fixed)}, or the schema")
        how, split = replace(how, unknown=options.get("unknown", schema.edges.unknown)), None
    time = split.removeprefix(TIME) if split is not None and split.startswith(TIME) else None
    if time is None and how.edge_time is not None:
        raise DatasetError("edge_time is for a split by time: give split as 'time:COLUMN'")
    read = partial(_Reader(how, time, schema, progress, say).read, edges, nodes)
    if memory is not None:
        if out is None:
            raise DatasetError("memory is the budget of a graph that is written to a folder: give out too")
        _write(read, Path(out), memory, split, seed, fields)
        return open_graph(out)
    tables = read(None)
    with blaming(tables.where):
        edge_index = np.concatenate(tables.blocks, axis=1)
        graph = Graph.from_edge_index(edge_index, tables.num_nodes, **tables.fields | fields)
    graph = _with_split(_merged(graph, tables.roles, say), split, seed)
    if out is not None:
        save(graph, out)
    return graph


def _merged(graph: Graph, roles: Edges, say: Say) -> Graph:
    """Merge repeated edges, and add the reverse edges, as ``roles`` require. Print a note if edges are merged."""
    merged, how = graph, roles.repeated or "sum"
    if roles.repeated is not None or graph.edge_weight is not None:
        merged = graph.coalesce(how)
    if lost := graph.num_edges - merged.num_edges:
        say(f"{lost:,} rows of the edge list repeat an edge: the weight of an edge is the {how} of its rows")
    return merged.to_undirected() if roles.undirected else merged


def update_graph(
    graph: Graph | str | Path,
    edges: Source,
    nodes: Source | None = None,
    *,
    out: str | Path | None = None,
    unknown: Unknown | None = None,
    strict: bool = False,
    say: Say = _warn,
) -> Graph:
    """Add the rows of new tables to a graph that was imported from tables; see ``docs/tables.md``.

    The schema of the graph encodes the new rows. The old nodes come first, with the same features, labels and split, so
    a run that was trained on the old graph also predicts for the new graph. The new nodes follow in the order of their
    table. Without a split column they are in no part of the split. If an edge exists already, the two weights are
    added, or the old weight stays if the import merged edges by ``first``.

    Args:
        graph: a graph of ``import_tables``, or its folder.
        edges: the new edges, between old and new nodes; in the formats of ``import_tables``.
        nodes: the new nodes, if any.
        out: the folder to save the graph in; none by default. The folder of ``graph`` is replaced only if it is
            ``out``.
        unknown: the treatment of edges to ids that are no nodes: ``error``, ``skip`` or ``add``; by default as in the
            import.
        strict: whether to raise an error if the columns differ from the columns in training.
        say: called with notes that are not errors; a warning by default.

    Raises:
        DatasetError: the tables are not valid, a node exists already, or a label is a new class.

    >>> old = import_tables({"source": ["a"], "target": ["b"]}, {"id": ["a", "b"], "age": [31, 45]}, say=print)
    the node table has no label column (looked for label, y, class, target): give label='COLUMN' to train on labels
    >>> update_graph(old, {"source": ["c"], "target": ["a"]}, {"id": ["c"], "age": [52]}).ids.tolist()
    ['a', 'b', 'c']
    """
    old = graph if isinstance(graph, Graph) else open_graph(graph)
    if old.schema is None or old.ids is None:
        raise DatasetError(f"graph '{old.name}' has no schema for new rows: import all its tables, with a node table")
    roles = (schema := Schema.from_json(old.schema)).edges
    exact = old.edge_attr is None and (old.x is None or old.x.dtype != torch.bfloat16)
    if roles.columns or roles.repeated == "mean" or not exact:
        values = f"graph '{old.name}' has means over edges, edge_attr or bfloat16, which new rows cannot extend"
        raise DatasetError(f"{values}: import the old and new tables together, with its schema")
    how = TableOptions(unknown=unknown or roles.unknown, strict=strict)
    tables = _Reader(how, None, schema, lambda rows: None, say, arrow().array(old.ids)).read(edges, nodes, None)
    before, total, weight = old.num_nodes, tables.num_nodes, tables.fields.get("edge_weight")
    own: dict[str, Any] = {name: getattr(old, name) for name in FIELDS if name != "undirected"}
    own |= _extended(old, tables, schema) | {"ids": tables.fields["ids"]}
    own |= {} if out is None else {"name": Path(out).name}
    with blaming(tables.where):
        ends = np.concatenate(tables.blocks, axis=1)
        more = _merged(Graph.from_edge_index(ends, total, edge_weight=weight, x=own.get("x")), roles, say)
        weights = [one.edge_weight for one in (old, more) if one.edge_weight is not None]
        own |= {"edge_weight": torch.cat(weights)} if weights else {}
        made = Graph.from_edge_index(torch.cat([old.edge_index, more.edge_index], 1), total, **own)
    if weights or ((roles.repeated or roles.undirected) and old.coalesce() is old):
        made = made.coalesce("first" if roles.repeated == "first" else "sum")
    if weights and (again := old.num_edges + more.num_edges - made.num_edges):
        say(f"{again:,} edges exist already: their weights are {'unchanged' if roles.repeated == 'first' else 'added'}")
    there = [mask[before:] for name in MASKS if (mask := getattr(made, name)) is not None]
    idle = ~torch.stack(there).any(0) if there else torch.zeros(0)
    if count := int(idle.sum()):
        told = f"{count:,} new nodes, {int(made.labelled[before:][idle].sum()):,} of them with a label"
        say(f"{tables.where}: {told}, are in no part of the split: draw a new split to train or test on them")
    if roles.time is not None:
        say("The import left out later edges, and the new edges are of any time: import again to train by time.")
    if old.undirected and not made.undirected:
        say("The graph was undirected and is now directed: the new edges have one direction.")
    if out is not None:
        save(made, out)
    return made


def _extended(old: Graph, tables: _Tables, schema: Schema) -> dict[str, np.ndarray]:
    """The fields of the old nodes, followed by those of the new nodes."""
    fields = {name: np.zeros(old.num_nodes, bool) for name in MASKS if name in tables.fields}
    sparse = old.x is not None and is_sparse(old.x)
    for name in OF_NODES:
        if (value := getattr(old, name)) is not None:
            fields[name] = scipy_rows(value) if name == "x" and sparse else np.asarray(value)
    none = {name: values[:0] for name, values in fields.items()}
    new = _pad(none, tables.num_nodes - old.num_nodes, schema) | tables.fields
    if other := [name for name, values in fields.items() if values.dtype.kind != new[name].dtype.kind]:
        raise DatasetError(f"the {other[0]} of graph '{old.name}' is not of its schema: import all tables again")
    return {name: _stacked(values, new[name]) for name, values in fields.items()}


def _stacked(first: Any, second: Any) -> Any:
    """The rows of two arrays or sparse matrices of SciPy, in the form of ``first``."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second if isinstance(second, np.ndarray) else second.toarray()])
    from scipy.sparse import csr_array, vstack

    return vstack([first, csr_array(second)], format="csr")


def _with_split(graph: Graph, split: str | None, seed: int) -> Graph:
    """Draw ``split`` for the graph, if it has labels and no split yet."""
    if split is None or graph.y is None or graph.train_mask is not None:
        return graph
    return graph.replace(**draw_split(graph, split, seed))


def _write(
    read: Callable[[Path], _Tables], path: Path, memory: int | str, split: str | None, seed: int, fields: dict[str, Any]
) -> None:
    """Read the tables, and save their graph in the folder ``path``. The edges are sorted in scratch files."""
    with saving(path) as folder, TemporaryDirectory(dir=folder.path) as scratch:
        tables = read(Path(scratch))
        no_edges = torch.zeros(tables.num_nodes + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32)
        with blaming(tables.where):  # checks the other columns
            graph = _with_split(Graph(*no_edges, **tables.fields | fields), split, seed)
        write_graph(folder, graph, without=("indptr", "indices"))
        roles, symmetric = tables.roles, is_balanced(tables.blocks)
        both = roles.undirected and not symmetric
        space, blocks = room(memory, LEAST, "sorting the edges"), partial(_pieces, tables.blocks)
        repeated = not both and roles.repeated is None
        write_edges(folder, graph.num_nodes, space, blocks, both=both, loops=True, repeated=repeated)
        folder.fields["undirected"] = symmetric or roles.undirected


def _pieces(blocks: Sequence[np.ndarray], size: int) -> Blocks:
    """Yield the targets and sources of all edges, in pieces of at most ``size`` edges. Each of ``blocks`` is ``(2,
    E)``.
    """
    for block in blocks:
        for lo in range(0, block.shape[1], size):
            sources, targets = np.ascontiguousarray(block[:, lo : lo + size])
            yield targets, sources


def is_balanced(blocks: Sequence[np.ndarray]) -> bool:
    """Whether every edge occurs as often as its reverse. Each of ``blocks`` is ``(2, E)``. The test uses two 64-bit
    hashes.

    >>> is_balanced([np.array([[0, 1, 2], [1, 0, 2]])]), is_balanced([np.array([[0, 1], [1, 2]])])
    (True, False)
    """
    totals = [sum(imbalance(block[1], block[0], derive_seed(k)) for block in blocks) for k in range(2)]
    return all(total % 2**64 == 0 for total in totals)


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass
class _Tables:
    """The content of the tables, from which a graph is made.

    Args:
        roles: the roles of the edge columns.
        where: the name of the table in error messages.
        blocks: blocks of edges, each ``(2, E)``, in memory or memory-mapped from scratch files.
        num_nodes: N.
        fields: the weights, the ids, and other fields of ``Graph``.
        columns: pyarrow record batches of the weights and of the edge columns that become node features.
    """

    roles: Edges
    where: Path
    blocks: list[np.ndarray]
    num_nodes: int
    fields: dict[str, Any]
    columns: list[Any]


def _find(table: TableFile, role: str, chosen: str | None, needed: bool = False) -> Any:
    """Find the column for ``role``: the chosen column; otherwise the first column with a common name for the role, if
    any.
    """
    if chosen is not None:
        return table.has(chosen)
    lower = {name.lower(): name for name in reversed(table.names)}
    result = next((lower[name] for name in USUAL[role] if name in lower), None)
    if result is None and needed:
        looked, names = ", ".join(USUAL[role]), ", ".join(table.names)
        advice = f"give {role}='COLUMN', one of {names}"
        raise DatasetError(f"{table.path} has no {role} column (looked for {looked}): {advice}")
    return result


@dataclass(frozen=True)
class _Reader:
    """Reads the tables for ``import_tables``. ``how`` has the table options, and ``time`` is the column of a split by
    time. ``before`` has the ids of the graph to which the tables add rows, if there is one. ``early`` is a mask of the
    rows of the edge list that are used; ``None`` for all. ``scratch`` is a folder for the edges; ``None`` keeps them in
    memory. All other fields are arguments of ``import_tables``.
    """

    how: TableOptions
    time: str | None
    schema: Schema | None
    progress: Progress
    say: Say
    before: Any = None
    early: np.ndarray | None = None
    scratch: Path | None = None

    def read(self, edges: Source, nodes: Source | None, scratch: Path | None) -> _Tables:
        """Read the tables. If ``scratch`` is given, the edges are kept in files in this folder."""
        if nodes is None and isinstance(edges, str | Path) and Path(edges).is_dir():
            edges, nodes = (TableFile.find(Path(edges), stem) for stem in ("edges", "nodes"))
        how, schema = self.how, self.schema
        written = how if schema is None else schema
        listed = TableFile.open(edges, written.decimal, written.encoding, "the edge table")
        if schema is None:
            source, target = (_find(listed, role, getattr(how, role), needed=True) for role in ("source", "target"))
            # The kinds of the edge columns are fitted later, to the edges that are kept.
            own = [Column(name, "category" if name in how.categorical else "number") for name in how.edge_columns]
            timed = how.weight is None and how.edge_time in USUAL["weight"]
            weight = None if timed else _find(listed, "weight", how.weight)
            roles = Edges(source, target, weight, how.undirected, how.repeated, tuple(own), how.unknown, how.edge_time)
        else:
            roles = schema.edges
        chosen = (roles.source, roles.target, roles.weight, how.edge_time, *(column.name for column in roles.columns))
        used = [listed.has(name) for name in chosen if name is not None]
        if scratch is not None and (len(used) > 2 or roles.repeated == "count"):
            raise DatasetError(f"{listed.path}: weights, edge_columns and edge_time are in memory: leave memory out")
        if extra := [name for name in listed.named if name not in (*used, roles.time)]:
            advice = f"; edge_columns='{extra[0]}' adds its means over the edges of a node" * (schema is None)
            self.say(f"{listed.path}: not used: {', '.join(extra)}{advice}")
        if self.time is not None and how.edge_time is None and (dated := Problems().attempt(self._dated, listed)):
            self.say(f"{listed.path}: '{dated[0]}' has times: edge_time='{dated[0]}' leaves out later edges")
        if nodes is None:
            if roles.columns or self.time is not None:
                raise DatasetError(f"{listed.path}: edge_columns and a split by time need nodes: give a node table too")
            if schema is not None and schema.columns and self.before is None:
                raise DatasetError(f"the schema needs a node table beside {listed.path}: give both")
            alone = replace(self, scratch=scratch)._edges(listed, roles, self.before)
            if schema is not None:
                self._check_edges(schema, listed, alone, alone.num_nodes)
            return alone
        described = TableFile.open(nodes, written.decimal, written.encoding, "the node table")
        if schema is None:
            schema, names, table = self._choose(described, roles)
        else:
            if self.before is not None and schema.split is None:
                schema = replace(schema, split=_find(described, "split", None))
            names, table = [], described.read(texts=schema.as_text())
        problems = Problems()
        ids = problems.attempt(table.ids, schema.id, self.before)
        schema, fields, early = problems.attempt(self._labels, table, schema, listed) or (schema, {}, None)
        tables, reader = None, replace(self, early=early, scratch=scratch)
        if roles.columns:
            problems.tell()
            tables = reader._edges(listed, roles, ids)
            schema, table, added = self._add_means(schema, table, listed, tables)
            names += added
        schema = self._nodes(table, schema, names, fields, problems)
        tables = tables or reader._edges(listed, roles, ids)
        tables.where = described.path
        schema = self._check_edges(schema, listed, tables, len(ids))
        tables.fields |= _pad(fields, tables.num_nodes - len(ids), schema) | {"schema": schema.to_json()}
        if early is not None:
            later = np.flatnonzero(tables.fields["val_mask"] | tables.fields["test_mask"])
            idle = len(np.setdiff1d(later, np.concatenate(tables.blocks, axis=1)))
            told = f"{idle:,} of {len(later):,} validation and test nodes have no earlier edges"
            self.say(f"{listed.path}: {told}: their evaluation uses no edges; predict with all edges to include them")
        return tables

    def _dated(self, listed: TableFile) -> list[str]:
        """The columns of dates or times, by the first rows."""
        _, block = next(listed.blocks(listed.named, {}))
        rows = replace(listed, table=arrow().Table.from_batches([block[:FIRST_ROWS]]))
        columns = fit_columns(rows, listed.named, self.how, np.ones(len(rows), bool), Problems())
        return [column.name for column in columns if column.kind == "date"]

    # -- nodes --------------------------------------------------------------------------------------------------

    def _add_means(
        self, schema: Schema, table: TableFile, listed: TableFile, tables: _Tables
    ) -> tuple[Schema, TableFile, list[str]]:
        """Add the edge columns to the schema, and their means to the node table. Also return the names of the new
        columns.
        """
        edges, problems, roles = arrow().Table.from_batches(tables.columns), Problems(), schema.edges
        rows = replace(listed, names=tuple(column.name for column in roles.columns), table=edges)
        if self.schema is None:
            columns = fit_columns(rows, rows.names, self.how, np.ones(len(rows), bool), problems)
            plain = [replace(c, center=0.0, spread=1.0) if not c.quantiles else c for c in columns]
            roles = replace(roles, columns=tuple(plain))  # their means have the units of the table
        of_edges = Schema(roles.source, roles, roles.columns)
        x = of_edges.encode(rows, problems, self.say, np.float64)
        problems.tell()
        means = edge_means(of_edges, x, np.concatenate(tables.blocks, axis=1), len(table))
        if same := [name for name in means if name in table.names]:
            raise table.error(f"'{same[0]}' is the name of a mean over edges: rename the column")
        for name, values in means.items():
            table = replace(table, names=(*table.names, name), table=table.table.append_column(name, values))
        return replace(schema, edges=roles), table, list(means)

    def _nodes(self, table: TableFile, schema: Schema, names: list[str], fields: Fields, problems: Problems) -> Schema:
        """Read the features and the split of a node table, and add them to ``fields``, which has the labels. Return the
        schema, which is fitted if none was given.
        """
        if self.schema is not None:
            schema.check(table, self.say)
            self._tell_drift(table, moved_columns((schema, table)), f"{len(schema.columns)} columns")
        fields |= {} if self.time else problems.attempt(_masks, table, schema, fields.get("y")) or {}
        if self.schema is None:
            schema = self._fit(table, schema, names, fields, problems)
        x = schema.encode(table, problems, self.say, may_be_sparse=True)
        problems.tell()
        if self.schema is None:
            _tell_leaks(table, schema, x, fields.get("y"), self.say)
        fields |= {"x": x} if schema.columns else {}
        fields |= {"kept": schema.kept_texts(table)} if schema.kept else {}
        return schema

    def _labels(self, table: TableFile, schema: Schema, listed: TableFile) -> tuple[Schema, Fields, np.ndarray | None]:
        """Read the labels. Return the schema with the classes, and the labels, with the masks of a split by time. Also
        return a mask of the rows of the edge list that are used; ``None`` for all.
        """
        if self.schema is None:
            schema = replace(schema, classes=fit_labels(table, schema.labels, self.how.task))
        fields = schema.label_fields(table, self.say if self.before is None else _refuse_class)
        if self.schema is None and schema.task == "classification":
            _tell_numbers(table, schema, fields.get("y"), self.say)
        if self.time is None:
            return schema, fields, None
        masks, end, kind = _by_time(table, self.time, self.how.dates, fields.get("y"), self.say)
        early = None if self.how.edge_time is None else self._early(listed, self.how.edge_time, end, kind)
        return schema, fields | masks, early

    def _early(self, listed: TableFile, name: str, end: float, kind: str) -> np.ndarray:
        """A mask of the rows of the edge list whose time in the column ``name`` is before ``end``, a time of the kind
        ``kind``.
        """
        rows = listed.read([name])
        times, own = _times(rows, name, self.how.dates)
        rows.refuse(np.isnan(times), f"the edge has no '{name}'", advice="fill it, or leave out such edges")
        if own != kind:
            raise rows.error(f"'{name}' has {own}, and '{self.time}' has {kind}: give times of one kind")
        early, first = times < end, _show_time(end, kind)
        if not early.any():
            raise rows.error(f"'{name}' is {first} or later for all edges, so that none is left: leave edge_time out")
        self.say(f"{rows.path}: {(~early).sum():,} of {len(early):,} edges are left out: '{name}' is {first} or later")
        return early

    def _fit(self, table: TableFile, schema: Schema, names: list[str], masks: Split, problems: Problems) -> Schema:
        """Fit the encoding of the columns ``names``, and add it to the schema. The encoding is fitted to the training
        rows, or to all rows if there is no split.
        """
        train = masks.get("train_mask", np.zeros(len(table), bool))
        fitted = train if train.any() else np.ones(len(table), bool)
        columns = fit_columns(table, names, self.how, fitted, problems)
        problems.tell()
        numbers = [Column(name, "number") for name in schema.labels if schema.task == "regression"]
        for told in doubts(table, [*columns, *numbers], schema.classes):
            self.say(f"{table.path}: {told}")
        used = {schema.id, schema.split, *schema.labels, *MASKS, *schema.kept, *(column.name for column in columns)}
        ignored = tuple(name for name in table.names if name not in used)
        schema = replace(schema, columns=columns, ignored=ignored, rows=int(fitted.sum()), training=not fitted.all())
        return with_profile(schema, table, fitted)

    def _choose(self, source: TableFile, roles: Edges) -> tuple[Schema, list[str], TableFile]:
        """Choose the roles of the columns of a node table. Return the schema, the names of the
        features, and the table.
        """
        problems, how, say = Problems(), self.how, self.say
        labels = tuple(filter(None, [_find(source, "label", None)])) if how.label is None else how.label
        chosen = [*(how.features or ()), *how.categorical, *how.widths, *how.numbers]
        chosen = [name for name in chosen if name in source.names or name not in how.edge_columns]
        for name in filter(None, (how.id, how.split_column, self.time, *labels, *chosen, *how.ignore, *how.keep)):
            problems.attempt(source.has, name)
        both = [name for name in labels if name in chosen and name not in how.ignore]
        problems += [f"{source.path}: '{name}' is the label, which cannot be a feature too" for name in both]
        problems.tell()
        id, split = _find(source, "id", how.id, needed=True), _find(source, "split", how.split_column)
        if not labels:
            looked = ", ".join(USUAL["label"])
            say(f"{source.path} has no label column (looked for {looked}): give label='COLUMN' to train on labels")
        left_out = {id, split, *labels, *MASKS, *how.ignore, *({self.time, *how.keep} - set(chosen))}
        names = [name for name in source.named if name not in left_out]
        if how.features is not None:
            names = [name for name in source.names if name in chosen and name not in how.ignore]
        texts = [id, *how.categorical, *how.widths, *({split, *how.keep} - {None, self.time, *chosen})]
        table = source.read(texts=texts).with_codes(name for name in names if name not in how.numbers)
        identifiers = tuple(name for name in names if name not in chosen and table.is_identifier(name))
        if identifiers:
            listed = ", ".join(identifiers)
            say(f"{source.path}: left out as identifiers: {listed}; numbers='{identifiers[0]}' keeps measurements")
        schema = Schema(id, roles, (), labels, how.task, split=split, identifiers=identifiers, kept=how.keep)
        schema = replace(schema, decimal=how.decimal, encoding=how.encoding)
        return schema, [name for name in names if name not in identifiers], table

    # -- edges --------------------------------------------------------------------------------------------------

    def _check_edges(self, schema: Schema, listed: TableFile, tables: _Tables, nodes: int) -> Schema:
        """Add the distributions of the edges to a schema that is fitted to these tables, and return it. If the schema
        was given, print a note about edges that differ from those in training.
        """
        roles, own = schema.edges, schema.edges.columns
        weight = None if roles.repeated == "count" else roles.weight
        if weight is not None and all(column.name != weight for column in own):
            own = (*own, Column(weight, "number"))
        table = arrow().Table.from_batches(tables.columns) if own else arrow().table({})
        values = replace(listed, names=tuple(table.column_names), table=table)
        degrees = TableFile.open(edge_counts(tables.blocks, roles.undirected, nodes))
        if self.schema is None:
            for told in doubts(values, own, ()):
                self.say(f"{listed.path}: {told}")
            of_values = with_profile(Profile(own, len(values)), values, np.ones(len(values), bool))
            counted = tuple(Column(name, "number") for name in degrees.names)
            of_degrees = with_profile(Profile(counted, nodes), degrees, np.ones(nodes, bool))
            return replace(schema, edges=replace(roles, values=of_values, degrees=of_degrees))
        compared: list[tuple[Schema | Profile, TableFile]] = [(roles.values, values)]
        if self.before is None and roles.time is None:  # otherwise only new or only early edges are counted
            compared.append((roles.degrees, degrees))
        number = sum(len(profile.columns) for profile, _ in compared)
        self._tell_drift(listed, moved_columns(*compared), f"{number} distributions of edges")
        return schema

    def _tell_drift(self, table: TableFile, moved: dict[str, str], of: str) -> None:
        """Print a note about ``moved``, the columns that differ from those in training, the worst first. If ``strict``,
        raise an error instead.
        """
        if not moved:
            return
        names = f"{len(moved)} of {of} differ from those in training, the worst first"
        listed = "; ".join(f"'{name}' ({words})" for name, words in list(moved.items())[:MOST_MOVED])
        more = f"; and {len(moved) - MOST_MOVED} more" if len(moved) > MOST_MOVED else ""
        if self.how.strict:
            raise table.error(f"{names}: {listed}{more}. Correct the table, or leave out strict=True")
        self.say(f"{table.path}: {names}: {listed}{more}")

    def _edges(self, table: TableFile, roles: Edges, known: Any) -> _Tables:
        """Read the edges. ``known`` contains the ids of the node table. If it is ``None``, all ids are nodes.

        Integer ids are read as integers. If some ids are not integers, the table is read again with ids as text.
        """
        pa, scan = arrow(), partial(self._scan, table, roles)
        if known is None or pa.types.is_integer(known.type):
            with suppress(NotWholeError):
                return scan(known, pa.int64())
        return scan((pa.array([]) if known is None else known).cast(pa.string()), pa.string(), known is None)

    def _scan(self, table: TableFile, roles: Edges, known: Any, kind: Any, grows: bool = False) -> _Tables:
        pa, path, unknown = arrow(), table.path, self.how.unknown
        ends, weight = (roles.source, roles.target), roles.weight
        more = list(dict.fromkeys([*(column.name for column in roles.columns), *([] if weight is None else [weight])]))
        types = dict.fromkeys(ends, kind) | ({} if weight is None else {weight: pa.float64()})
        absent, unweighted, strange = Faults(), Faults(), Faults()
        blocks: list[np.ndarray] = []
        rows = None if known is None or grows else len(known)
        weights: list[np.ndarray] = []
        columns: list[Any] = []
        skipped = 0
        types |= dict.fromkeys(Schema(roles.source, roles, roles.columns).as_text()[1:], pa.string())
        for row, block in table.blocks(list(dict.fromkeys([*types, *more])), types):
            sides = [table.ids_in(block, end, kind) for end in ends]
            for end, side in zip(ends, sides, strict=True):
                absent.add(side.is_null(), row, f"the edge has no '{end}'")
            if absent.count:
                continue
            kept: Any = slice(None) if self.early is None else self.early[row - table.first_row :][: len(block)]
            if known is None:
                parts = np.stack([side.to_numpy() for side in sides])
            else:
                # One call for both ends, since every call builds a lookup table of the texts.
                numbers, known = number_ids(pa.concat_arrays(sides), known, grows or unknown == "add")
                parts = numbers.reshape(2, -1)
                if unknown == "error":
                    where = "the node table" + " or the graph" * (self.before is not None)
                    for end, side, part in zip(ends, sides, parts, strict=True):
                        strange.add(part < 0, row, f"{end} '{{}}' is not in {where}", side)
                if unknown == "skip":
                    inside = np.all(parts >= 0, axis=0)
                    skipped += int((~inside[kept]).sum())
                    kept = inside if self.early is None else inside & kept
            if weight is not None:
                with reading(path):
                    values = block.column(weight).cast(pa.float32()).to_numpy(zero_copy_only=False)
                unweighted.add(~np.isfinite(values), row, f"'{weight}' is missing or not finite")
                unweighted.add(values < 0, row, f"'{weight}' is {{}}, and an edge counts 0 or more", values)
                weights.append(values[kept])
            if more:
                rest = block.select(more)
                columns.append(rest if isinstance(kept, slice) else rest.filter(pa.array(kept)))
            blocks.append(_keep(parts[:, kept], self.scratch))
            self.progress(len(block))
        problems = Problems(f"{path}, {faults}" for faults in (absent, unweighted) if faults.count)
        if strange.count:
            advice = f"add them to it (its ids are such as {' and '.join(map(repr, known[:2].to_pylist()))}), or "
            some = strange.count < sum(block.size for block in blocks)
            advice += "give unknown='skip' or unknown='add'" if some else "correct them"
            problems.append(f"{path}, {strange}: {advice}")
        problems.tell()
        if skipped:
            self.say(f"{path}: {skipped:,} edges have an end that is not a node, and are left out")
        if rows is not None and (added := len(known) - rows):
            alone = ": no edge has an end in the table, so compare the spelling of the ids"
            alone *= all(bool((block >= rows).all()) for block in blocks)
            self.say(f"{path}: {added:,} ids are not in the node table, and are added as nodes{alone}")
        fields: dict[str, Any] = {"edge_weight": np.concatenate(weights)} if weights else {}
        if known is not None:
            whole = pa.types.is_integer(known.type)
            fields["ids"] = known.to_numpy() if whole else np.array(known.to_pylist(), np.str_)
            return _Tables(roles, path, blocks, len(known), fields, columns)
        low, high = min(int(block.min()) for block in blocks), max(int(block.max()) for block in blocks)
        if low >= 0 and high < 8 * sum(block.shape[1] for block in blocks) + 1_000_000:
            return _Tables(roles, path, blocks, high + 1, fields, columns)
        if self.scratch is not None:
            gaps = f"{path}: ids from {low} to {high} have gaps"
            raise DatasetError(f"{gaps}, and are numbered in memory: leave memory out, or give a node table")
        own, places = np.unique(np.concatenate(blocks, axis=1), return_inverse=True)
        fields["ids"] = own.astype(np.int64)
        return _Tables(roles, path, [places.reshape(2, -1)], len(own), fields, columns)


# -- nodes ------------------------------------------------------------------------------------------------------------


def _times(table: TableFile, name: str, dates: str) -> tuple[np.ndarray, str]:
    """The times in the column ``name`` as float64 ``(rows,)``, NaN if missing; and their kind, such as ``dates``."""
    types, column = arrow().types, table.column(name)
    text = types.is_string(column.type) and column.null_count < len(column)
    format = date_format(table, name, dates) if text else ""
    if text and not format:
        raise table.error(f"'{name}' holds text such as '{column.drop_null()[0]}', and no times to split by")
    kind = "dates" if format or types.is_date(column.type) or types.is_timestamp(column.type) else "numbers"
    kind = "times of day" if types.is_time(column.type) else "durations" if types.is_duration(column.type) else kind
    return table.numbers(name, missing=True, format=format), kind


def _show_time(time: float, kind: str) -> str:
    return str(np.datetime64(round(86400 * time), "s")).removesuffix("T00:00:00") if kind == "dates" else f"{time:.15g}"


def _by_time(table: TableFile, name: str, dates: str, y: np.ndarray | None, say: Say) -> tuple[Split, float, str]:
    """Make the masks of a split by the times in the column ``name``, and print a note with the boundaries. Also return
    the first boundary, and its kind.
    """
    if y is None:
        raise table.error(f"a split by '{name}' needs labels, and the table has none")
    (times, kind), labelled = _times(table, name, dates), _has_label(y)
    masks, first = time_split(times, RANDOM_HIGH, labelled & ~np.isnan(times))
    shown = [_show_time(time, kind) for time in first]
    sizes = [f"{int(mask.sum()):,}" for mask in masks.values()]
    absent = int((labelled & np.isnan(times)).sum())
    lost = f"; {absent:,} labelled rows without '{name}' are in no part" if absent else ""
    parts = f"train before {shown[0]} ({sizes[0]}), val before {shown[1]} ({sizes[1]}), then test ({sizes[2]})"
    say(f"{table.path}: split by '{name}': {parts}{lost}")
    return masks, first[0], kind


def _tell_numbers(table: TableFile, schema: Schema, y: np.ndarray | None, say: Say) -> None:
    """Print a note about classes that are many whole numbers, and notes about classes such as -1 and None."""
    classes = schema.classes
    if len(classes) > MANY_NUMBERS and all(name.removeprefix("-").isdigit() for name in classes):
        told = f"'{schema.labels[0]}' has {len(classes):,} classes, which are all whole numbers"
        say(f"{table.path}: {told}: if they are numbers to predict, give task='regression'")
    for i, name in enumerate(classes if y is not None else ()):
        if name.strip().casefold() in UNLABELLED:
            told = f"'{schema.labels[0]}' is {name} in {np.count_nonzero(y == i):,} rows, and {name} is a class"
            say(f"{table.path}: {told}: if these rows are unlabelled, leave the cells empty")


def _tell_leaks(table: TableFile, schema: Schema, x: np.ndarray, y: np.ndarray | None, say: Say) -> None:
    """Print a note about columns that predict the label (nearly) perfectly on their own."""
    if y is not None and y.ndim == 1 and (leaks := leaking_columns(schema, x, y)):
        names = ", ".join(f"'{name}'" for name in list(leaks)[:MOST_MOVED])
        told = f"'{schema.labels[0]}' is predicted almost without mistakes by one column alone: {names}"
        say(f"{table.path}: {told}; ignore columns whose values are unknown at prediction time")


def _refuse_class(told: str) -> None:
    raise DatasetError(f"{told}: leave them empty, or import the old and new tables together for a new class")


def _has_label(y: np.ndarray) -> np.ndarray:
    return is_label(torch.from_numpy(y)).numpy()


def _masks(table: TableFile, schema: Schema, y: np.ndarray | None) -> Split:
    """Read the masks from the split column. If there is no split column, read them from the columns ``train_mask``,
    ``val_mask`` and ``test_mask``.
    """
    masks: Split = {}
    if schema.split is None:
        masks = {mask: table.numbers(mask) != 0 for mask in MASKS if mask in table.names}
    elif schema.split in table.names:
        values = [(value or "").strip().lower() for value in table.text(schema.split).to_pylist()]
        codes = np.array([SPLIT_VALUES.get(value, -2) if value else -1 for value in values])
        table.refuse(codes == -2, "'{}' is not a split: use train, val, test or empty", values)
        masks = {mask: codes == i for i, mask in enumerate(MASKS)}
    if y is not None:
        unlabelled = np.logical_or.reduce(list(masks.values())) & ~_has_label(y)
        table.refuse(unlabelled, f"the node is in a split but has no '{schema.labels[0]}': leave its split empty")
    train = masks.get("train_mask")
    return {} if y is None and (train is None or not train.any()) else masks


def _pad(fields: dict[str, Any], added: int, schema: Schema) -> dict[str, Any]:
    """Extend the node fields with missing values for ``added`` nodes, which are only in the edge list."""
    missing = {"i": -1, "f": np.nan, "b": False, "U": ""}
    for name in OF_NODES if added else ():
        if (values := fields.get(name)) is not None:
            value = schema.missing_row() if name == "x" else missing[values.dtype.kind]
            rows = np.broadcast_to(np.asarray(value, values.dtype), (added, *values.shape[1:]))
            fields[name] = _stacked(values, rows)
    return fields


def _keep(block: np.ndarray, scratch: Path | None) -> np.ndarray:
    """Return a block of edges, as int32 if the ids fit. If ``scratch`` is given, the block is memory-mapped from a new
    file in this folder.
    """
    limits = np.iinfo(np.int32)
    if not block.size or (limits.min <= block.min() and block.max() <= limits.max):
        block = block.astype(np.int32, copy=False)
    if scratch is None or not block.size:
        return block
    path = scratch / f"{secrets.token_hex(8)}.npy"
    with naming(path):
        np.save(path, block)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]
