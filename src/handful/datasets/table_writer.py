"""A graph from tables straight to a saved folder: its edges never are in memory together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from handful.budget import room
from handful.datasets.edge_sort import EdgeSort
from handful.datasets.importer import Columns, Handling, read_parts
from handful.datasets.schema import Say, Schema
from handful.datasets.splits import drawn_split
from handful.datasets.tables import Source
from handful.errors import GraphError
from handful.graph import Graph
from handful.kernels.buckets import imbalance
from handful.random import derived_seed
from handful.storage import FIELDS, saving, write_arrays

LEAST = 32 << 20
"""The bytes to sort edges in that are asked for at least."""
READ = 1 << 22
"""How many edges are looked at together."""


def write_tables(
    edges: Source,
    nodes: Source | None,
    path: Path,
    memory: int | str,
    columns: Columns | None = None,
    how: Handling | None = None,
    *,
    split: str,
    seed: int,
    schema: Schema | None = None,
    progress: Callable[[int], None] = lambda rows: None,
    say: Say,
    **fields: Any,
) -> None:
    """Save the graph that ``read_tables`` makes of an edge list and a node table in the folder ``path``, in the same
    bytes; of the tables, only that of the nodes is in memory as a whole.

    Args:
        edges, nodes, columns, how, schema, progress, say, fields: as ``read_tables`` takes them; edges without weights,
            and ids that are in a node table or whole numbers without large gaps.
        path: as ``handful.storage.save`` takes it.
        memory: the anonymous memory that this process may hold, such as ``"4GiB"``.
        split, seed: the split to draw where there are labels and none is given, unless there is a ``schema``.

    Raises:
        DatasetError: the tables cannot be used, or not within a budget.
        HandfulError: it is too little memory.
    """
    with saving(path) as folder:
        scratch = folder.path / "scratch"
        scratch.mkdir()
        given: dict[str, Any] = {"schema": schema, "progress": progress, "say": say}
        parts = read_parts(edges, nodes, columns, how, **given, scratch=scratch / "edges.bin")
        graph = _without_edges(parts.found | fields, parts.scanned.num_nodes, parts.where)
        if graph.y is not None and graph.train_mask is None and schema is None:
            graph = graph.replace(**drawn_split(graph, split, seed))
        write_arrays(folder, graph, without=("indptr", "indices"))
        roles, ends = parts.roles, parts.scanned.edge_index
        symmetric = is_balanced(ends)
        both = roles.undirected and not symmetric
        repeated = not both and roles.repeated is None
        space = room(memory, LEAST, "sorting the edges")
        sort = EdgeSort(scratch, graph.num_nodes, space, both=both, loops=True, repeated=repeated)
        for lo in range(0, ends.shape[1], sort.block):
            sources, targets = np.ascontiguousarray(ends[:, lo : lo + sort.block])
            sort.add(targets, sources)
        sort.write(folder)
        (scratch / "edges.bin").unlink()
        scratch.rmdir()
        folder.fields = {name: getattr(graph, name) for name in FIELDS} | {"undirected": symmetric or roles.undirected}


def _without_edges(fields: dict[str, Any], num_nodes: int, where: Path) -> Graph:
    """The graph but for its edges: what is checked of all else, and what follows from it."""
    try:
        return Graph(torch.zeros(num_nodes + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32), **fields)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from None


def is_balanced(ends: np.ndarray) -> bool:
    """Whether every edge of ``ends``, ``(2, E)``, is there as often as its reverse; by two hashes of 64 bits.

    >>> is_balanced(np.array([[0, 1, 2], [1, 0, 2]])), is_balanced(np.array([[0, 1], [1, 2]]))
    (True, False)
    """
    totals = [0, 0]
    for lo in range(0, ends.shape[1], READ):
        sources, targets = np.ascontiguousarray(ends[:, lo : lo + READ])
        totals = [total + imbalance(targets, sources, derived_seed(k)) for k, total in enumerate(totals)]
    return all(total % 2**64 == 0 for total in totals)
