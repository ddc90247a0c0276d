"""Exact inference within a memory budget: the outputs of layers are stored in files, and are read block by block.

The targets of a layer are split into chunks that fit into the budget. The rows of a chunk's sources are read block by
block, in ascending order, and each block is added to the sums of the chunk's targets (``Blocked``). The output of a
chunk is written to a file before the next chunk starts, so that a killed job can be continued (``OnDisk``).
"""

from __future__ import annotations

import json
import os
import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency, inverse_root
from handful.budget import show_size
from handful.errors import HandfulError, readable
from handful.files import private_map, read_bytes, seal, text_fingerprint, unseal, write_json
from handful.graph import Graph, fingerprint
from handful.kernels.attention import SLOPE, Scores
from handful.kernels.attention_numba import forward
from handful.kernels.bfloat16 import array
from handful.kernels.blocks import BlockedEdges, add_block, attend_block, by_blocks
from handful.kernels.memory import release
from handful.nn.network import Chunks, Network
from handful.samplers.ahead import run_ahead
from handful.samplers.full import full_adjacency
from handful.shuffle.epoch import fetch

Progress = Callable[[int, int, int], None]
"""A progress function, which is called with the index of the pass over the nodes, the number of finished rows, and the
number of all rows.
"""
STATE = "state.json"
RECORD_SECONDS = 5.0
"""The minimum time between two writes of the progress to ``state.json``, in seconds."""
FEWEST_ROWS = 256
"""A memory budget must suffice for a chunk and for a block with this many rows each."""


# -- products ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blocked(Adjacency):
    """An adjacency whose products read the rows of the sources block by block, for example from a memory-mapped file.

    A sum adds the sources one after another, in ascending order. The result equals that of ``Adjacency`` up to
    rounding.

    Args:
        dtype: the dtype of the model's parameters and of the products; the file may have another dtype.
        shift: a block has 2^shift sources.
        whole: the full adjacency, if this object contains only some of its rows; ``None`` if this object is the full
            adjacency.
    """

    in_memory: ClassVar[bool] = False

    dtype: torch.dtype = torch.float32
    shift: int = 16
    whole: Blocked | None = None

    def rows(self, lo: int, hi: int) -> Blocked:
        return self.cut(lo, hi, whole=self.whole or self)

    def own(self, x: Tensor) -> Tensor:
        return super().own(x).to(self.dtype)

    @cached_property
    def gcn_scale(self) -> Tensor:
        if self.whole is not None:
            return self.whole.gcn_scale
        out, step = torch.empty(self.num_sources), 1 << self.shift
        for lo in range(0, self.num_sources, step):
            hi = min(lo + step, self.num_sources)
            out[lo:hi] = inverse_root(self.rows(lo, hi).own_degree_with_loops)
        return out

    def matmul(
        self, x: Tensor, left: Tensor | None = None, right: Tensor | None = None, base: Tensor | None = None
    ) -> Tensor:
        out = torch.zeros(self.num_targets, x.shape[1], dtype=self.dtype)
        none = np.empty(0, out.numpy().dtype)
        for block, begin, rows in self._blocks(x):
            scale = none if right is None else right[begin : begin + len(rows)].to(self.dtype).numpy()
            add_block(self._edges, block, scale, rows, out.numpy())
        if left is not None:
            out.mul_(left.to(self.dtype)[:, None])
        return out if base is None else out.add_(base)

    def attend(self, x: Tensor, a_source: Tensor, a_target: Tensor) -> Tensor:
        a_src, a_dst = a_source.numpy(), a_target.to(self.dtype).contiguous()
        none = x.new_empty(*x.shape[:2], 0, dtype=self.dtype)  # only the softmax, without a sum of rows
        found = forward(self.indptr, self.indices, Scores(none, a_source, a_dst, self.offset), keep=False)[2]
        score = torch.nn.functional.leaky_relu(self.own(a_source) + a_dst, SLOPE)
        out = ((score - found[0]).exp() * found[1])[..., None] * self.own(x)
        of_rows = a_dst.numpy(), found.numpy()
        for block, begin, rows in self._blocks(x):
            sources = a_src[begin : begin + len(rows)], rows
            attend_block(self._edges, block, begin - self.offset, *of_rows, *sources, out.numpy())
        return out

    @cached_property
    def _edges(self) -> BlockedEdges:
        weight = torch.empty(0, dtype=self.dtype) if self.weight is None else self.weight.to(self.dtype)
        return by_blocks(self.indptr.numpy(), self.indices.numpy(), weight.numpy(), self.num_sources, self.shift)

    def _blocks(self, x: Tensor) -> Iterator[tuple[int, int, np.ndarray]]:
        """For each block that contains a source of these edges: its index, its first source, and its rows. The next
        block is read from the disk while the current one is added.
        """

        def read(block: int) -> tuple[int, int, np.ndarray]:
            begin = block << self.shift
            rows = array(x[begin : begin + (1 << self.shift)])
            fetch(rows, 0, len(rows))
            return block, begin, rows

        return run_ahead(partial(read, block) for block in np.flatnonzero(np.diff(self._edges.starts)).tolist())


# -- outputs of layers ------------------------------------------------------------------------------------------------


class OnDisk(Chunks):
    """Computes layers in chunks of rows that fit into ``room`` bytes, and stores the results in files.

    An unfinished job in the folder is continued: ``state.json`` records the progress of each pass.

    Args:
        folder: a folder that only this job uses; the caller removes it.
        room: the memory that may be used, in bytes.
        width: the width of the widest layer, counted in float32 values.
        edge_bytes: the memory per edge of a chunk, in bytes.
        safe: whether the files must survive a crash of the machine, not only of the process.
        progress: called after every chunk.
    """

    def __init__(
        self, folder: Path, room: int, width: int, edge_bytes: int, safe: bool = False, progress: Progress | None = None
    ) -> None:
        self.folder, self.edge_bytes, self.safe = folder, edge_bytes, safe
        self.progress = progress or (lambda which, done, count: None)
        self._passes: list[dict[str, Any]] = []
        self._calls, self._recorded, self._spent = 0, time.monotonic(), set[int]()
        if (path := folder / STATE).exists():
            with readable(path, f"remove {folder}, and begin again", HandfulError):
                state = unseal(json.loads(read_bytes(path)))
                self._passes, room = state["passes"], min(room, state["room"])  # keep the job's chunk size
        self.room = room
        # A chunk needs memory for its sums, its own rows, a few outputs, and two blocks of sources.
        self.row_bytes = 4 * 6 * width + 64
        super().__init__(max(1, room // 2 // self.row_bytes))
        self.shift = max(0, min(20, (room // 4 // (2 * 4 * width)).bit_length() - 1))

    def of_targets(self, adj: Adjacency) -> list[int]:
        """The boundaries of chunks of targets. The rows and edges of each chunk fit into half of ``room``."""
        indptr, cuts, most = adj.indptr.numpy(), [0], self.room // 2

        def size(end: int) -> int:
            return end * self.row_bytes + int(indptr[end]) * self.edge_bytes

        while (lo := cuts[-1]) < adj.num_targets:
            end = bisect_right(range(adj.num_targets + 1), size(lo) + most, lo, key=size) - 1
            if end == lo:
                needed = size(lo + 1) - size(lo)
                sizes = f"{show_size(needed)}, and there is room for {show_size(most)}"
                more = show_size(2 * (needed - most))
                raise HandfulError(f"the edges of node {lo} alone take {sizes}: give {more} more memory")
            cuts.append(end)
        return cuts

    def split(self, x: Tensor) -> Iterator[Tensor]:
        for rows in super().split(x):
            yield rows
            release()  # as after a chunk that is written

    def collect(self, make: Callable[[int, int], Tensor], cuts: Sequence[int]) -> Tensor:
        self.drop_spent()
        which, count = self._calls, cuts[-1]
        self._calls += 1
        if which == len(self._passes):
            self._passes.append({"done": 0, "count": count, "shape": None, "dtype": None})
        one = self._passes[which]
        if one["count"] != count:
            raise HandfulError(f"{self.folder} is of another job: remove it, or choose another place")
        if one["done"] < count or one["shape"] is None:
            self._write(which, make, cuts)
        self.progress(which, count, count)
        if not self._path(which).exists():  # the pass that needed this file is done
            return torch.empty(count, *one["shape"], dtype=getattr(torch, one["dtype"]), device="meta")
        return self._map(which)

    def _write(self, which: int, make: Callable[[int, int], Tensor], cuts: Sequence[int]) -> None:
        one, path = self._passes[which], self._path(which)
        if not path.exists():
            one |= {"done": 0, "shape": None}
        with path.open("r+b" if path.exists() else "w+b") as file:
            for lo, hi in pairwise(cuts) if len(cuts) > 1 else [(0, 0)]:
                if hi <= one["done"] and one["shape"] is not None:
                    continue
                rows = make(lo, hi).contiguous()
                size = one["count"] * rows[:1].nbytes
                try:
                    if one["shape"] is None:
                        one |= {"shape": list(rows.shape[1:]), "dtype": str(rows.dtype).removeprefix("torch.")}
                        if size and hasattr(os, "posix_fallocate"):  # allocate the whole file before the pass begins
                            os.posix_fallocate(file.fileno(), 0, size)
                    file.seek(lo * rows[:1].nbytes)
                    file.write(rows.reshape(-1).view(torch.uint8).numpy().data if rows.numel() else b"")
                except OSError as error:
                    what = f"{show_size(size)} of a layer's output could not be written to {self.folder}"
                    raise HandfulError(f"{what} ({error.strerror}): make room there, or use another place") from None
                one["done"] = hi
                del rows
                release()  # chunks differ in size, so the C library cannot reuse their memory
                self.progress(which, hi, one["count"])
                if time.monotonic() - self._recorded > RECORD_SECONDS and hi < one["count"]:
                    self._record(file)
            self._record(file)

    def _record(self, file: BinaryIO) -> None:
        file.flush()
        if self.safe:
            os.fsync(file.fileno())
        write_json(self.folder / STATE, seal({"room": self.room, "passes": self._passes}))
        self._recorded = time.monotonic()

    def _map(self, which: int) -> Tensor:
        one = self._passes[which]
        shape, dtype = (one["count"], *one["shape"]), getattr(torch, one["dtype"])
        size = torch.Size(shape).numel() * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype)
        if self._path(which).stat().st_size < size:
            raise HandfulError(f"{self._path(which)} is cut short: remove {self.folder}, and begin again")
        tensor = torch.frombuffer(private_map(self._path(which)), dtype=dtype, count=size // dtype.itemsize).view(shape)
        weakref.finalize(tensor, self._spent.add, which)
        return tensor

    def drop_spent(self) -> None:
        """Remove the files of earlier passes whose results are no longer in use. The file of the last pass is kept."""
        for old in [old for old in self._spent if old < self._calls - 1]:
            self._path(old).unlink(missing_ok=True)
            self._spent.discard(old)

    def _path(self, which: int) -> Path:
        return self.folder / f"pass-{which}.bin"


# -- inference --------------------------------------------------------------------------------------------------------


def least_room(model: Network, graph: Graph) -> int:
    """The minimum memory for ``infer_within``, in bytes: one value per node, and a few rows of the widest layer."""
    return 4 * graph.num_nodes + 4 * FEWEST_ROWS * (4 * 6 * _width(model) + 64)


def _width(model: Network) -> int:
    """The width of the widest layer, including the features, counted in float32 values."""
    return max(max(p.shape) * p.itemsize // 4 for p in model.parameters())


def infer_within(
    model: Network, graph: Graph, room: int, folder: Path, safe: bool = False, progress: Progress | None = None
) -> Tensor:
    """Run ``model.infer`` on ``graph`` with ``room`` bytes of memory. The result is memory-mapped from a file in
    ``folder``.
    """
    assert graph.x is not None
    dtype = next(model.parameters()).dtype
    edge_bytes = 8 + (0 if graph.edge_weight is None else 8 + dtype.itemsize)
    if graph.has_loops or graph.edge_weight is not None:
        edge_bytes += 24  # the ends of an edge as int64, to find loops and to add up weights
    scale = 4 * graph.num_nodes  # the degrees of GCN
    chunks = OnDisk(folder, room - scale, _width(model), edge_bytes, safe, progress)
    full = full_adjacency(graph)
    adj = Blocked(**{one.name: getattr(full, one.name) for one in fields(full)}, dtype=dtype, shift=chunks.shift)
    out = model.infer(graph.x, adj, chunks)
    chunks.drop_spent()
    return out


def job_name(model: Network, graph: Graph) -> str:
    """A folder name that identifies these weights and this graph."""
    weights = [p.detach() for _, p in sorted(model.state_dict().items())]
    names = {"model": type(model).__name__, "options": model.options, "graph": graph.identity()}
    return f"{fingerprint(*weights)}-{text_fingerprint(names)}"


def forget(scratch: Path) -> None:
    """Remove the files of all jobs in ``scratch``, and then the folder itself if it is empty."""
    for folder in [state.parent for state in scratch.glob(f"*/{STATE}")]:
        for path in [*folder.glob("pass-*.bin"), *folder.glob("lock*"), folder / STATE]:
            path.unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError):
        scratch.rmdir()
