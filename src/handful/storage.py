"""A graph on disk: a folder of memory-mapped ``.npy`` files and a JSON header with checksums.

Opening a folder does not load the arrays into memory. When a user opens a folder for the first time, it is
verified in full: sizes, checksums, and all checks of ``Graph``. Then a stamp, with the sizes and times of the files, is
written to the user's own cache, where no other user can write. While the stamp matches the files, the folder opens
without verification.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO, TypeVar

import numpy as np
import torch
from torch import Tensor

from handful.errors import DatasetError, GraphError, blaming, explaining
from handful.files import naming, private, private_map, write_text
from handful.graph import MASKS, Graph
from handful.kernels.gather import rows_between
from handful.kernels.sparse import arrays_of, dense, is_sparse, sparse_rows

T = TypeVar("T")
Entries = dict[str, dict[str, Any]]
"""The entry of each array in a header: dtype, shape, size and checksum."""
FORMAT = "handful-graph"
VERSION = 3
HEADER = "graph.json"
AT_ONCE = 1 << 22
"""The number of values that ``with_dense_features`` writes at a time."""
SWAP_TRIES, SWAP_SECONDS = 100, 0.02
"""The number of attempts to read a graph that is being replaced, and the seconds between two attempts."""
SPARSE = ("x_indptr", "x_columns", "x_values", "x_width")
"""The arrays of sparse features, instead of ``x``."""
ARRAYS = ("indptr", "indices", "x", "y", "edge_weight", "edge_attr", "ids", "kept", *MASKS)
FIELDS = ("name", "undirected", "num_classes", "metric", "class_names", "schema", "task", "positive")


def is_saved(path: str | Path) -> bool:
    """Whether ``path`` is a folder with the header of a saved graph. Files other than the header are not checked.

    >>> is_saved("no-such-folder")
    False
    """
    return (Path(path) / HEADER).is_file()


def save(graph: Graph, path: str | Path) -> Path:
    """Write ``graph`` to the folder ``path``, completely or not at all. An older graph at ``path`` is replaced.

    Args:
        graph: any graph; its tensors are copied to the CPU first.
        path: a new folder, an empty folder, or the folder of a saved graph.

    Returns:
        The path of the folder.

    Raises:
        DatasetError: ``path`` is a file, or a folder with other contents.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = save(Graph.from_edge_index([[0, 1], [1, 0]], name="pair"), folder + "/pair")
    ...     open_graph(path)
    Graph(pair: undirected, 2 nodes, 2 edges, 0 features, 0 classes)
    """
    with saving(path) as folder:
        write_graph(folder, graph)
    return Path(path)


def with_dense_features(graph: Graph, scratch: Path | None = None) -> Graph:
    """``graph``, with dense features. Those of a graph with sparse features are made once, in a temporary file in the
    folder ``scratch``; by default, in the system's folder for temporary files.
    """
    if graph.x is None or not is_sparse(graph.x):
        return graph
    if "dense" not in vars(graph):
        with naming(scratch or Path(gettempdir())), TemporaryFile(prefix="handful-", dir=scratch) as file:
            rows = max(1, AT_ONCE // max(1, graph.num_features))
            for lo in range(0, graph.num_nodes, rows):
                file.write(dense(rows_between(graph.x, lo, min(lo + rows, graph.num_nodes))).numpy().data)
            file.flush()
            x = np.memmap(file, np.float32, "c", shape=tuple(graph.x.shape))
        vars(graph)["dense"] = replace(graph, x=torch.from_numpy(x))
    return vars(graph)["dense"]  # type: ignore[no-any-return]


def write_graph(folder: Folder, graph: Graph, without: tuple[str, ...] = ()) -> None:
    """Write ``graph`` to an open folder, except the arrays in ``without``."""
    folder.fields = {name: getattr(graph, name) for name in FIELDS}
    arrays = {name: values for name in ARRAYS if (values := getattr(graph, name)) is not None}
    if graph.x is not None and is_sparse(graph.x):
        width = torch.tensor([graph.num_features])
        arrays |= zip(SPARSE, (*arrays_of(arrays.pop("x")), width), strict=True)
    for name, values in arrays.items():
        if name not in without:
            folder.write(name, values)


@dataclass
class Folder:
    """A graph folder that is being written, one array at a time. The arrays are not checked: the caller must write a
    valid graph.

    Args:
        path: the temporary folder of the files. The caller may put scratch files into this folder, and must remove
            them.
        fields: the fields of ``Graph`` that are not arrays. The caller must set the fields before ``saving`` ends.
        arrays: the header entry of each array that is complete.
    """

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)
    arrays: Entries = field(default_factory=dict)

    @contextmanager
    def array(self, name: str, dtype: str, row: tuple[int, ...] = ()) -> Iterator[ArrayFile]:
        """Open a file for the array ``name``. The caller appends blocks of rows; the file is complete when the ``with``
        block ends.

        Args:
            name: one of ``ARRAYS`` and ``SPARSE``.
            dtype: the name of the array's torch dtype, such as ``float32``.
            row: the shape of a row.
        """
        with (self.path / f"{name}.npy").open("wb") as file, ThreadPoolExecutor(1) as worker:
            out = ArrayFile(file, worker, np.dtype(_stored(dtype)), row)
            yield out
            self.arrays[name] = {"dtype": dtype, **out.finish()}

    def write(self, name: str, values: Tensor | np.ndarray) -> None:
        """Write the whole array ``name``."""
        with self.array(name, str(values.dtype).removeprefix("torch."), tuple(values.shape[1:])) as out:
            out.append(values)

    def write_header(self, header: dict[str, Any]) -> None:
        """Write the header file: ``header``, followed by the entries of the arrays."""
        text = json.dumps({**header, "arrays": self.arrays}, ensure_ascii=False, indent=1)
        (self.path / HEADER).write_text(text, encoding="utf-8")


@contextmanager
def saving(path: str | Path) -> Iterator[Folder]:
    """Open a graph folder, which the caller writes piece by piece.

    The folder appears at ``path`` only if the ``with`` block ends without an error.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as home:
    ...     with saving(home + "/pair") as folder:
    ...         for name, values in {"indptr": [0, 1, 2], "indices": [1, 0]}.items():
    ...             with folder.array(name, "int64" if name == "indptr" else "int32") as out:
    ...                 for value in values:
    ...                     out.append(np.array([value]))
    ...         folder.fields = {"name": "pair", "undirected": True, "metric": ""}
    ...     open_graph(home + "/pair")
    Graph(pair: undirected, 2 nodes, 2 edges, 0 features, 0 classes)
    """
    path = Path(path)
    _wait_until_settled(path, lambda: _refuse_other(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = sibling(path)
    try:
        aside.mkdir()  # a signal right after this also removes it
        folder = Folder(aside)
        yield folder
        folder.arrays = {name: folder.arrays[name] for name in (*ARRAYS, *SPARSE) if name in folder.arrays}
        fields = {name: folder.fields.get(name) for name in FIELDS}
        folder.write_header({"format": FORMAT, "version": VERSION, **fields})
        _swap_in(aside, path)
        _write_stamp(path, _stamp(path, folder.arrays))
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def open_graph(path: str | Path, verify: bool = False) -> Graph:
    """Open the graph in the folder ``path``. The arrays are memory-mapped.

    Changes to the tensors stay in memory; they do not change the files.

    Args:
        path: the folder that ``save`` made.
        verify: whether to check every byte, even if the stamp matches the files.

    Raises:
        DatasetError: the folder is not a saved graph, or one of its files is missing, truncated or changed.
        GraphError: the files have not changed, but they do not hold a valid graph.

    >>> open_graph("no-such-folder")
    Traceback (most recent call last):
        ...
    handful.errors.DatasetError: no-such-folder is not a saved graph: it has no graph.json
    """
    path = Path(path)
    return _wait_until_settled(path, lambda: _opened(path, read_header(path), verify))


def _wait_until_settled(path: Path, look: Callable[[], T]) -> T:
    """Call ``look`` and return its result. If ``look`` fails because another process replaces ``path``, retry."""
    for _ in range(SWAP_TRIES):
        before = _stamp(path, {})
        try:
            return look()
        except (DatasetError, GraphError, FileNotFoundError):
            if _stamp(path, {}) == before and not any(path.parent.glob(f".{path.name}-*")):
                raise
        time.sleep(SWAP_SECONDS)
    return look()


def _refuse_other(path: Path) -> None:
    """Raise an error if ``path`` exists and is neither a saved graph nor an empty folder."""
    if path.exists() and not is_saved(path) and (not path.is_dir() or any(path.iterdir())):
        raise DatasetError(f"{path} exists and is not a saved graph: choose another place")


def _opened(path: Path, header: dict[str, Any], verify: bool) -> Graph:
    arrays, confirm = open_arrays(path, header["arrays"], verify)
    with blaming(path):
        if not set(arrays).isdisjoint(SPARSE):
            arrays["x"] = _sparse_features(arrays)
        graph = Graph(**read_fields(header), **arrays, checked=confirm is None)
    vars(graph)["opened"] = path.resolve()
    if confirm is not None:
        confirm()
    return graph


def _sparse_features(arrays: dict[str, Any]) -> Tensor:
    """Remove the arrays ``SPARSE`` from ``arrays``, and return their matrix."""
    parts = [arrays.pop(name, None) for name in SPARSE]
    if "x" in arrays or not all(
        part is not None and part.ndim == 1 and part.is_floating_point() == (name == "x_values")
        for name, part in zip(SPARSE, parts, strict=True)
    ):
        raise GraphError(f"its sparse features need {', '.join(SPARSE)}, each a vector, and no x")
    wrong = (RuntimeError, TypeError, ValueError, IndexError, OverflowError)
    with explaining("its sparse features are no matrix: {}", *wrong, kind=GraphError):
        if int(parts[0][-1]) != len(parts[1]):
            raise ValueError("the starts of its rows do not end at the number of its columns")
        return sparse_rows(*parts[:3], width=int(parts[3]))


def read_fields(header: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``Graph`` in a header: all fields that are not arrays."""
    fields = {name: header.get(name) for name in FIELDS}
    return fields | ({"class_names": tuple(fields["class_names"])} if fields["class_names"] is not None else {})


def open_arrays(path: Path, entries: Entries, verify: bool = False) -> tuple[dict[str, Any], Callable[[], None] | None]:
    """Memory-map the arrays of a folder. Also return a function that marks the files as verified.

    The caller calls the returned function after the arrays have passed all checks. The checksum of every file is
    checked here, unless this user has verified the same files before. In that case, ``None`` is returned instead of the
    function.

    Args:
        path: the folder.
        entries: the header entry of each array.
        verify: whether to check every byte even if the files have been verified before.
    """
    for name in entries:
        refuse_odd(path / f"{name}.npy")
    stamp = _stamp(path, entries)
    trusted = not verify and _is_stamped(path, stamp)
    if not trusted:
        for name, entry in entries.items():
            _verify(path / f"{name}.npy", entry)
    arrays = {name: _map(path / f"{name}.npy", entry) for name, entry in entries.items()}
    return arrays, None if trusted else partial(_write_stamp, path, stamp)


# -- writing --------------------------------------------------------------------------------------------------------


class ArrayFile:
    """A ``.npy`` file that is written block by block, and its checksum. ``np.save`` would write the same bytes.

    Another thread writes a block and updates the checksum while the caller makes the next block. Do not change a block
    after ``append``.
    """

    def __init__(self, file: BinaryIO, worker: Executor, dtype: np.dtype[Any], row: tuple[int, ...]) -> None:
        self.dtype, self.row, self.rows = dtype, row, 0
        self._file, self._worker, self._sum, self._size = file, worker, 0, 0
        self._writing: Future[Any] = worker.submit(file.write, self._header())

    def _header(self) -> bytes:
        """The header of the file. The length of the header does not depend on the number of rows: numpy pads it."""
        out = io.BytesIO()
        shape = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(out, {**shape, "shape": (self.rows, *self.row)})
        return out.getvalue()

    def append(self, rows: Tensor | np.ndarray) -> None:
        """Append rows, converted to the dtype of the file. The bits of bfloat16 are stored as int16."""
        if isinstance(rows, Tensor):
            rows = rows.detach().cpu()
            rows = (rows.view(torch.int16) if rows.dtype == torch.bfloat16 else rows).numpy()
        block = np.ascontiguousarray(rows, self.dtype)
        if block.shape[1:] != self.row:
            raise ValueError(f"rows of shape {block.shape[1:]} for an array of rows of shape {self.row}")
        self._writing.result()
        self.rows += len(block)
        if block.size:
            self._writing = self._worker.submit(self._write, block.reshape(-1).view(np.uint8))

    def _write(self, data: np.ndarray) -> None:
        with naming(Path(self._file.name)):
            self._file.write(data.data)
        self._sum, self._size = zlib.crc32(data.data, self._sum), self._size + data.nbytes

    def finish(self) -> dict[str, Any]:
        """Write the remaining bytes, and return the entry for the graph's header.

        The checksum covers the data first, and then numpy's header, which is known only at the end.
        """
        self._writing.result()
        first = self._header()
        self._file.seek(0)
        self._file.write(first)
        self._file.flush()
        os.fsync(self._file.fileno())
        crc = f"{zlib.crc32(first, self._sum):08x}"
        return {"shape": [self.rows, *self.row], "bytes": len(first) + self._size, "crc32": crc, "from": len(first)}


def sibling(path: Path) -> Path:
    """An unused name beside ``path``, for a folder that will replace it."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}")


def _swap_in(aside: Path, path: Path) -> None:
    """Rename ``aside`` to ``path``. An older folder at ``path`` is removed only after the new folder is there."""
    old: Path | None = None
    with suppress(FileNotFoundError):
        old = path.rename(sibling(path))
    try:
        aside.rename(path)
    except OSError:
        if is_saved(path):  # another process has just put its folder there: ours replaces that folder
            _swap_in(aside, path)
        else:
            if old is not None:
                old.rename(path)
            raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


# -- reading --------------------------------------------------------------------------------------------------------


def read_header(path: Path, kind: str = FORMAT, version: int = VERSION) -> dict[str, Any]:
    """Read the header of a saved graph or a shard: the fields of the graph, and the entry of each array.

    Raises:
        DatasetError: ``path`` does not have a valid header.
    """
    if not is_saved(path):
        raise DatasetError(f"{path} is not a saved graph: it has no {HEADER}")
    refuse_odd(path / HEADER)
    try:
        header = json.loads((path / HEADER).read_text(encoding="utf-8"))
        if header["format"] != kind:
            raise KeyError("format")
        if header["version"] != version:
            words = f"{path} was saved in version {header['version']} of the format"
            raise DatasetError(f"{words}, and this handful reads {version}: save it again, or use another release")
        unknown = set(header["arrays"]) - {*ARRAYS, *SPARSE}
        missing = {"indptr", "indices"} - set(header["arrays"]) or {*FIELDS} - {*header}
        kinds = {"dtype": str, "shape": list, "bytes": int, "crc32": str, "from": int}
        shaped = all(type(entry[key]) is kind for entry in header["arrays"].values() for key, kind in kinds.items())
        odd = not isinstance(header["name"], str) or type(header["num_classes"]) not in (int, type(None))
        if unknown or missing or not shaped or odd or not isinstance(header["class_names"], list | None):
            raise KeyError("arrays")
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise DatasetError(f"{path / HEADER} is not the header of a saved graph or shard: write it again") from None
    return header  # type: ignore[no-any-return]


def refuse_odd(path: Path) -> None:
    """Raise an error if ``path`` is not a plain file: a link may lead anywhere, and a pipe may never end."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise DatasetError(f"{path} is missing: copy the whole folder, or save the graph again") from None
    if not stat.S_ISREG(mode):
        kind = "a link" if stat.S_ISLNK(mode) else "not a plain file"
        raise DatasetError(f"{path} is {kind}: copy the files themselves, or save the graph again")


def _verify(path: Path, entry: dict[str, Any]) -> None:
    if (size := path.stat().st_size) != entry["bytes"]:
        how = "cut short" if size < entry["bytes"] else "too long"
        raise DatasetError(f"{path} is {how}: it has {size:,} bytes of {entry['bytes']:,}; copy or save it again")
    if _crc32(path, entry["from"]) != entry["crc32"]:
        raise DatasetError(f"{path} has changed since it was saved: its checksum differs; copy or save it again")


def _stored(dtype: str) -> str:
    """The numpy dtype in which a torch dtype is stored."""
    return "int16" if dtype == "bfloat16" else dtype


def _map(path: Path, entry: dict[str, Any]) -> Tensor | np.ndarray:
    try:
        with np.errstate(over="raise"):  # a header may claim an impossible shape
            read = np.lib.format.open_memmap(path, mode="r")
        array = np.empty(read.shape, read.dtype)
        if read.size:
            flat = np.frombuffer(private_map(path), read.dtype, read.size, read.offset)
            array = flat.reshape(read.shape, order="C" if read.flags.c_contiguous else "F")
    except (ValueError, EOFError, OSError, ArithmeticError) as error:
        raise DatasetError(f"{path} is not a readable .npy file: {str(error).splitlines()[0]}") from None
    stored = _stored(entry["dtype"])
    if str(array.dtype) != stored or list(array.shape) != entry["shape"]:
        raise DatasetError(f"{path} holds {array.dtype} {array.shape}, and its header says {stored} {entry['shape']}")
    if path.stem in ("ids", "kept"):
        return array
    try:
        tensor = torch.from_numpy(array)
    except (TypeError, ValueError):  # text, dates, numbers in the other byte order
        raise DatasetError(f"{path} holds {array.dtype}, and must hold plain numbers: save the graph again") from None
    return tensor.view(torch.bfloat16) if entry["dtype"] == "bfloat16" else tensor


def _crc32(path: Path, start: int) -> str:
    """The checksum of a file, computed as if the first ``start`` bytes were at the end of the file."""
    crc = 0
    with path.open("rb") as file:
        first = file.read(max(start, 0))
        while block := file.read(1 << 22):
            crc = zlib.crc32(block, crc)
    return f"{zlib.crc32(first, crc):08x}"


# -- the stamp ------------------------------------------------------------------------------------------------------


def _stamp(path: Path, entries: Entries) -> str:
    """The inode, size and times of every file, as JSON; empty if a file is missing.

    Only the system can set the inode's change time, so the stamp of a changed file never matches.
    """
    try:
        stats = {file: (path / file).lstat() for file in (HEADER, *(f"{name}.npy" for name in entries))}
    except OSError:
        return ""
    return json.dumps({name: [s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for name, s in stats.items()})


def _stamp_file(path: Path) -> Path:
    return private("verified") / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"


def _is_stamped(path: Path, stamp: str) -> bool:
    with suppress(OSError):
        return bool(stamp) and _stamp_file(path).read_bytes() == stamp.encode()
    return False


def _write_stamp(path: Path, stamp: str) -> None:
    with suppress(OSError):  # Without a cache, every opening verifies the files.
        write_text(_stamp_file(path), stamp)
