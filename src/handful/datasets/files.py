"""Read graphs from files: ``.npz``, the dictionary of a PyG ``Data``, CSV or Parquet tables, or a graph saved by
handful.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from handful.convert import from_mapping, unused
from handful.datasets.arrays import ArrayFile
from handful.datasets.importer import OPTIONS, import_tables
from handful.datasets.tables import SUFFIXES
from handful.errors import DatasetError, blaming, readable
from handful.graph import Graph
from handful.shuffle.shards import is_sharded, open_shards
from handful.storage import is_saved, open_graph

KINDS = "a .npz file, a .pt file, a folder with edges and nodes tables, or a graph that handful saved"


def read_graph(path: str | Path, nodes: str | Path | None = None, *, fold: int | None = None, **fields: Any) -> Graph:
    """Read the graph at ``path``, in any of the formats below.

    Args:
        path: a ``.npz`` with ``edge_index`` (2, E) and any of ``x``, ``y``, ``edge_weight``, ``num_nodes``,
            ``num_classes``, ``class_names`` and a split (``train_mask`` …, or ``train_idx`` …); a ``.pt`` with a
            dictionary of the same arrays, as ``torch.save(data.to_dict(), path)`` writes it; an edge list, or a folder
            with ``edges`` and ``nodes`` tables (see ``import_tables``); a folder that ``save`` made; or a folder of
            shards, if all ranks read it.
        fold: the column of the masks, if the masks are matrices with one column per split.
        nodes: the node table, if ``path`` is an edge list.
        fields: fields of ``Graph``, which replace those of the file; also ``schema``, ``progress``, ``say`` and the
            options of ``import_tables``, which only tables use.

    Raises:
        DatasetError: the file is missing, unreadable, or lacks an array that a graph needs.
        GraphError: the file can be read, but is not a valid graph.

    >>> import numpy
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     numpy.savez(folder + "/mine.npz", edge_index=[[0, 1], [1, 0]], y=[0, 1])
    ...     read_graph(folder + "/mine.npz")
    Graph(mine: undirected, 2 nodes, 2 edges, 0 features, 2 classes)
    """
    path = Path(path)
    if not (path.is_file() or path.is_dir()):  # to read a pipe or a device may never end
        raise DatasetError(f"{path} does not exist, or is neither a file nor a folder: give {KINDS}")
    tables = {name: fields.pop(name) for name in (*OPTIONS, "schema", "progress", "say") if name in fields}
    if is_sharded(path) or (is_saved(path) and nodes is None):
        graph: Graph = open_shards(path) if is_sharded(path) else open_graph(path)
        return graph.replace(**fields) if fields else graph
    fields = {"name": path.name.split(".")[0]} | fields
    if is_tables(path):
        return import_tables(path, nodes, split=None, **tables, **fields)
    if nodes is not None:
        raise DatasetError(f"{path} is no edge list, and {nodes} is a node table: give an edge list beside it")
    if path.suffix == ".npz":
        store: Mapping[str, Any] = ArrayFile(path)
    elif path.suffix in (".pt", ".pth"):
        store = _read_pt(path)
    else:
        raise DatasetError(f"{path} is not a graph file: give {KINDS}")
    with blaming(path):
        graph = from_mapping(store, fold, **fields)
    if lost := unused(map(str, store)):
        tables.get("say", warnings.warn)(f"{path}: a graph cannot hold {', '.join(lost)}: not used")
    return graph


def is_tables(path: Path) -> bool:
    """Whether ``path`` is an edge list, or a folder with ``edges`` and ``nodes`` tables.

    >>> is_tables(Path("edges.csv.gz")), is_tables(Path("graph.npz"))
    (True, False)
    """
    if path.is_dir():
        return not is_saved(path)
    return path.suffix not in (".npz", ".pt", ".pth") and bool(set(path.suffixes) & set(SUFFIXES))


def _read_pt(path: Path) -> dict[str, Any]:
    with readable(path, "classes are not loaded; write it with torch.save(data.to_dict(), path)"):
        store = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(store, dict):
        raise DatasetError(f"{path} holds a {type(store).__name__}, not a dictionary of tensors")
    for name, value in store.items():
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_meta:
            continue
        # A view may repeat one stored number many times.
        if value.nbytes > (held := value.untyped_storage().nbytes()):
            raise DatasetError(f"{path}: '{name}' has shape {tuple(value.shape)} and {held:,} bytes: save a clone()")
    return store
