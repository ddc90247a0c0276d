"""Graphs from files: ``.npz``, PyG ``Data`` as a plain dictionary, CSV or Parquet tables, a folder of handful's own."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from handful.convert import from_mapping
from handful.datasets.importer import read_tables
from handful.datasets.tables import SUFFIXES
from handful.errors import DatasetError, GraphError
from handful.graph import Graph
from handful.storage import is_saved, open_graph

KINDS = "a .npz file, a .pt file, a folder with edges and nodes tables, or a graph that handful saved"


TABLES = ("columns", "how", "schema", "progress", "say")
"""The arguments of ``read_tables`` that ``read_graph`` passes on."""


def read_graph(path: str | Path, nodes: str | Path | None = None, *, fold: int | None = None, **fields: Any) -> Graph:
    """The graph at ``path``, in any format of this module.

    Args:
        path: a ``.npz`` with ``edge_index`` (2, E) and any of ``x``, ``y``, ``edge_weight``, ``num_nodes``,
            ``num_classes``, ``class_names`` and a split (``train_mask`` …, or ``train_idx`` …); a ``.pt`` with the same
            in a dictionary, as ``torch.save(data.to_dict(), path)`` makes it; an edge list, or a folder with ``edges``
            and ``nodes`` tables (see ``read_tables``); or a folder that ``save`` made.
        fold: which column to take where masks are matrices with one column per split.
        nodes: the node table, where ``path`` is an edge list.
        fields: as for ``Graph``; they replace what the file says. For tables also ``columns``, ``how``, ``schema``,
            ``progress`` and ``say`` of ``read_tables``, which mean nothing to other formats.

    Raises:
        DatasetError: the file is missing, unreadable, or lacks what a graph needs.
        GraphError: the file can be read, but is not a valid graph.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(folder + "/mine.npz", edge_index=np.array([[0, 1], [1, 0]]), y=np.array([0, 1]))
    ...     read_graph(folder + "/mine.npz")
    Graph(mine: undirected, 2 nodes, 2 edges, 0 features, 2 classes)
    """
    path = Path(path)
    tables = {name: fields.pop(name) for name in TABLES if name in fields}
    fields = {"name": path.name.split(".")[0]} | fields
    if is_tables(path):
        if path.is_dir():
            return read_tables(_table(path, "edges"), _table(path, "nodes"), **tables, **fields)
        return read_tables(path, nodes, **tables, **fields)
    if nodes is not None:
        raise DatasetError(f"{path} is no edge list, and {nodes} is a node table: give an edge list beside it")
    if is_saved(path):
        graph = open_graph(path)
        fields.pop("name")
        return graph.replace(**fields) if fields else graph
    if not path.exists():
        raise DatasetError(f"{path} does not exist: give {KINDS}")
    if path.suffix == ".npz":
        store = read_npz(path)
    elif path.suffix in (".pt", ".pth"):
        store = _read_pt(path)
    else:
        raise DatasetError(f"{path} is not a graph file: give {KINDS}")
    if store.get("edge_index") is None:
        raise DatasetError(f"{path} has no edge_index; it holds {', '.join(sorted(map(str, store))) or 'nothing'}")
    try:
        return from_mapping(store, fold, **fields)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def is_tables(path: Path) -> bool:
    """Whether ``path`` is an edge list, or a folder with ``edges`` and ``nodes`` tables.

    >>> is_tables(Path("edges.csv.gz")), is_tables(Path("graph.npz"))
    (True, False)
    """
    if path.is_dir():
        return not is_saved(path)
    return path.suffix not in (".npz", ".pt", ".pth") and bool(set(path.suffixes) & set(SUFFIXES))


def _table(folder: Path, stem: str) -> Path:
    found = [file for file in sorted(folder.iterdir()) if file.name.split(".")[0] == stem and file.is_file()]
    if not found:
        raise DatasetError(f"{folder} has no table '{stem}' ({', '.join(stem + s for s in SUFFIXES)}): give {KINDS}")
    if len(found) > 1:
        raise DatasetError(f"{folder} has both {found[0].name} and {found[1].name}: keep one of them")
    return found[0]


def read_npz(path: Path) -> dict[str, Any]:
    """All arrays of an archive; Python objects are refused."""
    if not path.exists():
        raise DatasetError(f"{path} does not exist")
    try:
        archive = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise DatasetError(f"{path} is not a readable .npz archive: write it with numpy.savez") from None
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DatasetError(f"{path} holds a single array, not an archive of arrays: write it with numpy.savez")
    with archive:
        return {name: _member(archive, name, path) for name in archive.files}


def _member(archive: Any, name: str, path: Path) -> np.ndarray:
    try:
        array: np.ndarray = archive[name]
    except ValueError as error:
        if "allow_pickle" in str(error):
            reason = "holds Python objects, which are not loaded: store it as numbers or as text of fixed length"
        else:
            reason = f"cannot be read: {str(error).splitlines()[0]}"
        raise DatasetError(f"{path}: array '{name}' {reason}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError):
        raise DatasetError(f"{path}: array '{name}' is damaged: make or copy the file again") from None
    return array


def _read_pt(path: Path) -> dict[str, Any]:
    try:
        store = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds here, and all mean the same to the user.
        if "weights_only" in str(error) or "Unsupported" in str(error):
            raise DatasetError(
                f"{path} holds pickled classes, which are not loaded: write it with torch.save(data.to_dict(), path)"
            ) from None
        raise DatasetError(f"{path} is not a readable torch file: {str(error).splitlines()[0]}") from None
    if not isinstance(store, dict):
        raise DatasetError(f"{path} holds a {type(store).__name__}, not a dictionary of tensors")
    return store
