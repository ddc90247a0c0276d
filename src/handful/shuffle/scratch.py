"""``Scratch`` stores arrays for later steps, in memory or in unnamed files. ``Budget`` is a memory limit: it moves
stored arrays to files when memory is needed.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, NamedTuple, Self

import numpy as np

from handful.budget import anonymous, show_size
from handful.errors import HandfulError
from handful.kernels.memory import release

SLACK = 16
"""1 / SLACK of a budget is reserved for memory that no estimate includes: allocator gaps, small tensors, Python."""


class Written(NamedTuple):
    """An array in a file."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    size: int
    """The size in bytes."""


class Scratch:
    """A store of arrays, by name and part. Each array consists of pieces: ``append`` adds a piece, and ``take`` returns
    and removes the pieces, in order.

    Pieces stay in memory until ``spill`` makes room. ``spill`` moves pieces to files, one file for each name. It begins
    with the pieces of the last parts, which are needed last. A file has no name in its folder, so nothing remains if
    the process is killed. The space of a file is released after its last piece is taken.

    Args:
        folder: the folder of the files; ``None`` for the system's folder for temporary files (``$TMPDIR``).

    >>> with Scratch() as scratch:
    ...     scratch.append("x", 0, np.arange(3))
    ...     scratch.append("x", 0, np.arange(2))
    ...     scratch.spill(1)
    ...     [piece.tolist() for piece in scratch.take("x", 0)], scratch.held, scratch.written
    ([[0, 1, 2], [0, 1]], 0, 24)
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(gettempdir()) if folder is None else folder
        self.held = 0
        """The number of bytes in memory."""
        self.written = 0
        """The total number of bytes written to files."""
        self._pieces: dict[int, dict[str, list[np.ndarray | Written]]] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._waiting: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pieces.clear()
        for file in self._files.values():
            file.close()
        self._files.clear()

    def append(self, name: str, part: int, piece: np.ndarray) -> None:
        """Add a piece to the array ``name`` of ``part``. The piece must own its memory and must not change later."""
        self._pieces.setdefault(part, {}).setdefault(name, []).append(piece)
        self.held += piece.nbytes

    def take(self, name: str, part: int) -> Iterator[np.ndarray]:
        """Yield the pieces of an array in order; each piece is released when the next piece is requested."""
        pieces = self._pieces.get(part, {}).pop(name, [])
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            if isinstance(piece, Written):
                yield self._read(name, piece)
                self._waiting[name] -= 1
                if self._waiting[name] == 0:
                    self._files.pop(name).close()
            else:
                self.held -= piece.nbytes
                yield piece

    def expect(self, part: int) -> None:
        """Ask the system to read the files of ``part`` ahead, if the system supports reading ahead."""
        if not hasattr(os, "posix_fadvise"):  # Linux has this call
            return
        for name, pieces in self._pieces.get(part, {}).items():
            for piece in pieces:
                if isinstance(piece, Written):
                    os.posix_fadvise(self._files[name].fileno(), piece.offset, piece.size, os.POSIX_FADV_WILLNEED)

    def rows(self, name: str, part: int) -> int:
        """The number of rows in all pieces of an array."""
        return sum(piece.shape[0] for piece in self._pieces[part][name])

    def joined(self, name: str, part: int) -> np.ndarray:
        """Join all pieces of an array, in their smallest common dtype. There must be at least one piece."""
        pieces = self._pieces[part][name]
        if len(pieces) == 1:
            return next(self.take(name, part))
        shape = self.rows(name, part), *pieces[0].shape[1:]
        out, at = np.empty(shape, np.result_type(*{piece.dtype for piece in pieces})), 0
        for piece in self.take(name, part):
            out[at : at + len(piece)] = piece
            at += len(piece)
        return out

    def spill(self, size: int) -> None:
        """Move at least ``size`` bytes, or all bytes if there are fewer, from memory to files.

        Raises:
            HandfulError: the disk is full.
        """
        for part in sorted(self._pieces, reverse=True):
            for name, pieces in self._pieces[part].items():
                for k, piece in enumerate(pieces):
                    if size <= 0:
                        return
                    if isinstance(piece, np.ndarray):
                        pieces[k] = self._write(name, piece)
                        self.held -= piece.nbytes
                        size -= piece.nbytes

    def _write(self, name: str, piece: np.ndarray) -> Written:
        try:
            if name not in self._files:
                self._files[name] = TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115  (closed below)
                self._waiting[name] = 0
            file = self._files[name]
            offset = file.seek(0, 2)
            left = np.ascontiguousarray(piece).data.cast("B") if piece.size else memoryview(b"")
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            what = "is full" if full else f"cannot be written: {error.strerror}"
            where = f"the scratch folder {self.folder} {what}, after {show_size(self.written)}"
            raise HandfulError(f"{where}: free some room, set TMPDIR to another disk, or give more memory") from None
        self.written += piece.nbytes
        self._waiting[name] += 1
        return Written(offset, piece.shape, piece.dtype, piece.nbytes)

    def _read(self, name: str, piece: Written) -> np.ndarray:
        file, count = self._files[name], math.prod(piece.shape)
        file.seek(piece.offset)
        out = np.fromfile(file, piece.dtype, count)
        if len(out) < count:
            raise HandfulError(f"a scratch file in {self.folder} was cut short: run it again")
        return out.reshape(piece.shape)


class Budget:
    """A limit on the anonymous memory of the whole process, including libraries, model and activations.

    Every call reads the memory in use from the system, so all memory counts.

    Args:
        memory: the limit in bytes.
        parts: m, the number of parts, for the error message.
    """

    def __init__(self, memory: int, parts: int) -> None:
        self.memory, self.parts = memory, parts

    def free(self) -> int:
        """The number of bytes that may still be allocated."""
        return self.memory - self.memory // SLACK - anonymous()

    def make_room(self, needed: int, scratch: Scratch, what: str) -> None:
        """Move stored arrays to files until ``needed`` more bytes fit into the budget.

        Raises:
            HandfulError: the bytes do not fit, even with all stored arrays in files.
        """
        if needed <= self.free():
            return
        release()
        while needed > (free := self.free()):
            if scratch.held == 0:
                raise self.too_small(needed, free, what)
            scratch.spill(needed - free)  # the allocator may keep some of these bytes in gaps between other arrays
            release()

    def require(self, needed: int, scratch: Scratch, what: str) -> None:
        """Check that ``needed`` more bytes would fit if all stored arrays were in files.

        Raises:
            HandfulError: the bytes do not fit.
        """
        release()
        if needed > (free := self.free() + scratch.held):
            raise self.too_small(needed, free, what)

    def too_small(self, needed: int, free: int, what: str) -> HandfulError:
        """Make an error that suggests a sufficient budget and a sufficient number of parts.

        The memory of a part is about proportional to its number of nodes.
        """
        held = self.memory - self.memory // SLACK - free
        enough = 1.05 * (held + needed) * SLACK / (SLACK - 1)  # the message rounds it
        parts = f"at least {math.ceil(self.parts * needed / free)} parts, or " if free > 0 else ""
        sizes = f"{show_size(needed)} beside the {show_size(held)} that this process holds"
        limit = f"memory is {show_size(self.memory)}: use {parts}memory {show_size(enough)}"
        return HandfulError(f"{what} of {self.parts} takes {sizes}, and {limit}")
