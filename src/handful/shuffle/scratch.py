"""``Scratch``: arrays that wait for the turn of their part, in memory while they may, else in files without a name; and
``Budget``: room for what comes next, made by sending what waits in memory to files."""

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
"""One part in so many of a budget is left for what is not counted: the allocator's gaps, small tensors, Python."""


class Written(NamedTuple):
    """An array in a file."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


class Scratch:
    """For each name and part an array that comes in pieces: ``append`` them, then ``take`` them in order, once.

    Pieces are held in memory until ``spill`` is asked to make room: then those of the last parts, which have the
    longest to wait, go to a file. There is one for each name; it has no entry in its folder, so that nothing is left
    when the process ends in whatever way, and its room is given back when the last piece was taken.

    Args:
        folder: where the files are; the system's folder for temporary files (``$TMPDIR``) when ``None``.

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
        """Bytes in memory."""
        self.written = 0
        """Bytes that went to files, in all."""
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
        """One more piece of the array ``name`` of ``part``; it must own its memory, and may not be changed any more."""
        self._pieces.setdefault(part, {}).setdefault(name, []).append(piece)
        self.held += piece.nbytes

    def take(self, name: str, part: int) -> Iterator[np.ndarray]:
        """The pieces of an array in their order; each is forgotten when the next one is asked for."""
        pieces = self._pieces.get(part, {}).pop(name, [])
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            if isinstance(piece, Written):
                yield self._read(name, piece)
                self._done(name)
            else:
                self.held -= piece.nbytes
                yield piece

    def expect(self, part: int) -> None:
        """Let the system begin to read what waits in files for ``part``: a hint, where there is such a thing."""
        if not hasattr(os, "posix_fadvise"):  # Linux has it
            return
        for name, pieces in self._pieces.get(part, {}).items():
            for piece in pieces:
                if isinstance(piece, Written):
                    os.posix_fadvise(self._files[name].fileno(), piece.offset, piece.size, os.POSIX_FADV_WILLNEED)

    def rows(self, name: str, part: int) -> int:
        """How many rows all pieces of an array have."""
        return sum(piece.shape[0] for piece in self._pieces[part][name])

    def joined(self, name: str, part: int) -> np.ndarray:
        """All pieces of an array as one, in the smallest type that fits them; there must be one at least."""
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
        """Move at least ``size`` bytes from memory to files, or all there is.

        Raises:
            HandfulError: there is no room for the files.
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
            raise HandfulError(
                f"the scratch folder {self.folder} {what}, after {self.written / 2**30:.2f} GiB: free some room, "
                "name a folder on another disk by TMPDIR, or give more memory"
            ) from None
        self.written += piece.nbytes
        self._waiting[name] += 1
        return Written(offset, piece.shape, piece.dtype)

    def _read(self, name: str, piece: Written) -> np.ndarray:
        file, count = self._files[name], math.prod(piece.shape)
        file.seek(piece.offset)
        out = np.fromfile(file, piece.dtype, count)
        if len(out) < count:
            raise HandfulError(f"a scratch file in {self.folder} was cut short: run it again")
        return out.reshape(piece.shape)

    def _done(self, name: str) -> None:
        """One piece less waits in the file of ``name``; an empty file is given back."""
        self._waiting[name] -= 1
        if self._waiting[name] == 0:
            self._files.pop(name).close()


class Budget:
    """So many bytes of anonymous memory for the whole process: libraries, model and activations included.

    What is held is asked of the system again and again, so that nothing is left out of the account.

    Args:
        memory: the bytes.
        parts: m, for the words of the error.
    """

    def __init__(self, memory: int, parts: int) -> None:
        self.memory, self.parts = memory, parts

    def free(self) -> int:
        """How much more may be taken."""
        return self.memory - self.memory // SLACK - anonymous()

    def make_room(self, needed: int, scratch: Scratch, what: str) -> None:
        """Move what waits in memory to files until ``needed`` more bytes fit into the budget.

        Raises:
            HandfulError: they do not fit even so.
        """
        if needed <= self.free():
            return
        release()
        while needed > (free := self.free()):
            if scratch.held == 0:
                raise self.too_small(needed, free, what)
            scratch.spill(needed - free)  # of which the allocator may keep some, in the gaps between other arrays
            release()

    def holds(self, needed: int, scratch: Scratch) -> bool:
        """Whether ``needed`` more bytes fit when all that waits in memory has gone to files."""
        release()
        return needed <= self.free() + scratch.held

    def require(self, needed: int, scratch: Scratch, what: str) -> None:
        """Refuse what the budget does not hold.

        Raises:
            HandfulError: it does not.
        """
        if not self.holds(needed, scratch):
            raise self.too_small(needed, self.free() + scratch.held, what)

    def too_small(self, needed: int, free: int, what: str) -> HandfulError:
        """The error that says what would do; what a part needs falls about as its nodes do."""
        held = self.memory - self.memory // SLACK - free
        enough = (held + needed) * SLACK / (SLACK - 1)
        unit = 2**30 if enough >= 2**30 else 2**20
        rounded_up = math.ceil(enough * 10 / unit) * unit / 10
        parts = f"at least {math.ceil(self.parts * needed / free)} parts, or " if free > 0 else ""
        return HandfulError(
            f"{what} of {self.parts} takes {show_size(needed)} beside the {show_size(held)} that this process holds, "
            f"and memory is {show_size(self.memory)}: use {parts}memory {show_size(rounded_up)}"
        )
