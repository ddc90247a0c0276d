"""Sort edges into the rows of a CSR within a memory budget: the edges of each range of rows are written to a file, and
then each file is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from handful.budget import show_size
from handful.errors import DatasetError, GraphError
from handful.files import naming
from handful.kernels.buckets import in_buckets, sorted_rows
from handful.kernels.csr import index_dtype
from handful.kernels.threads import get_threads, run
from handful.storage import Folder

Blocks = Iterator[tuple[np.ndarray, np.ndarray]]
FAN = 6
"""A range of rows is split into at most 2⁶ smaller ranges at a time."""
RECORD_NUMBERS = 2
"""A record consists of two numbers: a target and a source."""
BLOCK = 1 << 22
"""The maximum number of edges in a block. Larger blocks are not faster."""


@dataclass(frozen=True)
class _Bucket:
    """The rows ``lo`` to ``lo + 2^shift - 1``, and the file with their records."""

    path: Path
    lo: int
    shift: int


class EdgeSort:
    """Sorts a stream of edges by rows.

    Args:
        folder: the folder for scratch files, which take 8 bytes per edge if ids are int32. They are removed at the end.
        num_nodes: N.
        room: the memory budget, in bytes.
        both: whether to add the reverse of every edge.
        loops: whether edges from a node to itself are kept.
        repeated: whether all copies of a repeated edge are kept.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sort = EdgeSort(Path(folder), num_nodes=3, room=1 << 20, both=True, loops=False, repeated=False)
    ...     sort.add(np.array([0, 1]), np.array([2, 1]))
    ...     [(counts.tolist(), sources.tolist()) for counts, sources in sort.rows() if len(sources)]
    [([1], [2]), ([1], [0])]
    """

    def __init__(self, folder: Path, num_nodes: int, room: int, *, both: bool, loops: bool, repeated: bool) -> None:
        self.both, self.loops, self.repeated = both, loops, repeated
        self.folder, self.num_nodes, self.room = folder, num_nodes, room
        self.dtype = np.dtype(index_dtype(num_nodes))
        self._whole = _Bucket(folder / "edges", 0, max(0, num_nodes - 1).bit_length())
        self._seen = 0

    @property
    def block(self) -> int:
        """The maximum number of edges in a block. The temporary arrays of a block take half of ``room``."""
        return int(min(max(self.room // (8 * RECORD_NUMBERS * self.dtype.itemsize), 1), BLOCK))

    def add(self, rows: np.ndarray, columns: np.ndarray) -> None:
        """Add at most ``block`` edges: edge i goes from ``columns[i]`` to ``rows[i]``.

        Raises:
            GraphError: an end of an edge is not a node.
        """
        self._scatter(self._whole, *(end.astype(self.dtype, copy=False) for end in (rows, columns)), both=self.both)
        self._seen += len(rows)

    def rows(self) -> Blocks:
        """For each range of rows, in order, yield the number of sources of each row, and the sources, in ascending
        order within each row.
        """
        buckets = self._cut(self._whole)
        while some := list(islice(buckets, get_threads())):
            yield from run(lambda k, _: self._sort(some[k]), [(k, k + 1) for k in range(len(some))])

    # -- ranges of rows -----------------------------------------------------------------------------------------

    def _parts(self, bucket: _Bucket) -> list[_Bucket]:
        shift = max(0, bucket.shift - FAN)
        los = range(bucket.lo, min(bucket.lo + (1 << bucket.shift), self.num_nodes), 1 << shift)
        return [_Bucket(bucket.path.with_name(f"{bucket.path.name}-{k}"), lo, shift) for k, lo in enumerate(los)]

    def _scatter(self, bucket: _Bucket, rows: np.ndarray, columns: np.ndarray, *, both: bool) -> None:
        """Split ``bucket`` into ranges, and append each edge, and its reverse if ``both``, to the file of the range of
        its row.
        """
        parts = self._parts(bucket)
        records, starts, bad = in_buckets(rows, columns, self.num_nodes, bucket.lo, parts[0].shift, len(parts), both)
        if bad >= 0:
            ends = f"{rows[bad]} and {columns[bad]}"
            raise GraphError(f"edge {self._seen + bad} joins {ends}: node ids run from 0 to {self.num_nodes - 1}")
        for part, lo, hi in zip(parts, starts[:-1], starts[1:], strict=True):
            if hi > lo:
                with naming(part.path), part.path.open("ab") as file:
                    file.write(records[lo:hi].reshape(-1).view(np.uint8).data)

    def _cut(self, bucket: _Bucket) -> Iterator[_Bucket]:
        """Split a bucket into ranges that fit into memory, and yield them in order. A range that does not fit is split
        again.
        """
        for part in self._parts(bucket):
            # A sort needs memory for the sources, and for three numbers per row.
            needed, fits = _size(part.path) // RECORD_NUMBERS + 24 * (1 << part.shift), self.room // (get_threads() + 1)
            if needed <= fits:
                yield part
                continue
            if part.shift == 0:
                lacking, size = show_size((get_threads() + 1) * (needed - fits)), show_size(needed)
                raise DatasetError(f"the edges of node {part.lo} alone take {size} to sort: give {lacking} more memory")
            records = self._records(part)
            for lo in range(0, len(records), self.block):
                some = np.ascontiguousarray(records[lo : lo + self.block].T)
                self._scatter(part, *some, both=False)
            part.path.unlink()
            yield from self._cut(part)

    def _records(self, bucket: _Bucket) -> np.ndarray:
        if not _size(bucket.path):
            return np.empty((0, RECORD_NUMBERS), self.dtype)
        return np.memmap(bucket.path, self.dtype, "r").reshape(-1, RECORD_NUMBERS)

    def _sort(self, bucket: _Bucket) -> tuple[np.ndarray, np.ndarray]:
        rows = min(1 << bucket.shift, self.num_nodes - bucket.lo)
        counts, sources = sorted_rows(self._records(bucket), bucket.lo, rows, self.loops, self.repeated)
        bucket.path.unlink(missing_ok=True)
        return counts, sources


def write_edges(folder: Folder, num_nodes: int, room: int, blocks: Callable[[int], Blocks], **options: bool) -> None:
    """Write ``indptr`` and ``indices`` of a saved graph.

    Args:
        folder: the folder of the graph.
        num_nodes, room: as for ``EdgeSort``.
        blocks: a function that takes the maximum number of edges in a block, and yields the rows and columns of all
            edges in blocks.
        options: ``both``, ``loops`` and ``repeated``, as for ``EdgeSort``.
    """
    with TemporaryDirectory(dir=folder.path) as scratch:
        sort = EdgeSort(Path(scratch), num_nodes, room, **options)
        for rows, columns in blocks(sort.block):
            sort.add(rows, columns)
        with folder.array("indptr", "int64") as indptr, folder.array("indices", str(sort.dtype)) as indices:
            end = np.zeros(1, np.int64)
            indptr.append(end)
            for counts, sources in sort.rows():
                ends = end + np.cumsum(counts)
                end = ends[-1:]
                indptr.append(ends)
                indices.append(sources)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
