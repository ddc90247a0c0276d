"""Arrays from ``.npz`` and MATLAB 5 files that others may have made.

What a file says of itself is not believed: lengths are held against the bytes that are there, and against the memory
of this machine, before anything is read. Python objects are never loaded.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from handful.budget import require_memory
from handful.errors import DatasetError, readable

# -- .npz -----------------------------------------------------------------------------------------------------------


class ArrayFile(Mapping[str, np.ndarray]):
    """The arrays of a ``.npz`` file by name, each read when it is first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, np.ndarray] = {}
        if not path.is_file():
            raise DatasetError(f"{path} does not exist, or is no file")
        with path.open("rb") as file:
            if file.read(6) == npy.MAGIC_PREFIX:
                raise DatasetError(f"{path} holds a single array, not an archive of arrays: write it with numpy.savez")
        with readable(path, "write it with numpy.savez"), zipfile.ZipFile(path) as archive:
            self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            self._read[name] = self._member(name, self._members[name])
        return self._read[name]

    def _member(self, name: str, info: zipfile.ZipInfo) -> np.ndarray:
        what = f"{self.path}: array '{name}'"
        require_memory(info.file_size, what)  # zipfile gives no more than the member tells
        read_it = readable(what, "write it again, as numbers or as text")
        with read_it, zipfile.ZipFile(self.path) as archive, archive.open(info) as file:
            array: np.ndarray = npy.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError(f"it is longer than its shape {array.shape}")
        if array.dtype.kind not in "biufUS":
            raise DatasetError(f"{what} holds {array.dtype}: store it as numbers or as text")
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def whole(values: np.ndarray, what: str) -> np.ndarray:
    """Numbers as int64, each of them whole and exact: a float beyond 2⁵³ stands for several.

    >>> whole(np.array([1.0, 2.0]), "the labels")
    array([1, 2])
    >>> whole(np.array([0.5]), "the labels")
    Traceback (most recent call last):
        ...
    handful.errors.DatasetError: the labels must be whole numbers, and the first that is not is 0.5, at 0
    """
    flat = values.reshape(-1)
    if values.dtype.kind == "f":
        fine = (flat == np.round(flat)) & (np.abs(flat) < 2**53)
    elif values.dtype.kind in "iu":
        fine = flat <= np.iinfo(np.int64).max
    else:
        fine = np.zeros(flat.shape, bool)
    if not fine.all():
        at = int(np.argmin(fine))
        raise DatasetError(f"{what} must be whole numbers, and the first that is not is {flat[at]}, at {at}")
    return values.astype(np.int64)


# -- MATLAB 5 -------------------------------------------------------------------------------------------------------

HEADER = 128
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""The types of numbers in a file, by the code in their tag."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""The types of dense arrays, whose values may be stored in a narrower type."""


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """The dense arrays of real numbers in a file, by name; all others are passed over.

    scipy's own reader trusts the tags of a file and ends the process with a signal where one is wrong.

    Raises:
        DatasetError: it is not a whole file of this format.
    """
    with readable(path, "remove it and fetch it again"):
        data = np.memmap(path, np.uint8, "r")
        order = {b"IM": "<", b"MI": ">"}.get(data[HEADER - 2 : HEADER].tobytes())
        if order is None:
            raise ValueError("it does not begin as a .mat file of version 5")
        return dict(_arrays(data[HEADER:], order, str(path)))


def _arrays(data: np.ndarray, order: str, what: str) -> Iterator[tuple[str, np.ndarray]]:
    while len(data):
        kind, held, data = _element(data, order, padded=False)
        if kind == COMPRESSED:
            kind, held, _ = _element(np.frombuffer(_inflate(held, order, what), np.uint8), order)
        if kind == MATRIX:
            result = _array(held, order, what)
            if result is not None:
                yield result


def _element(data: np.ndarray, order: str, padded: bool = True) -> tuple[int, np.ndarray, np.ndarray]:
    """The code of the first element, its bytes, and what follows it. One of at most four bytes may have a short tag."""
    kind, size = struct.unpack(f"{order}II", data[:8].tobytes())
    if kind >> 16:
        kind, size, begin, step = kind & 0xFFFF, kind >> 16, 4, 8
    else:
        begin, step = 8, 8 + (size + 7) // 8 * 8 if padded else 8 + size
    if begin + size > len(data):
        raise ValueError(f"an element of {size:,} bytes is cut short")
    return kind, data[begin : begin + size], data[step:]


def _inflate(packed: np.ndarray, order: str, what: str) -> bytes:
    """The one element that is packed; no more is unpacked than its tag tells."""
    unpacker = zlib.decompressobj()
    tag = unpacker.decompress(packed.tobytes(), 8)
    _, size = struct.unpack(f"{order}II", tag)
    require_memory(2.0 * size, what)
    rest = unpacker.decompress(unpacker.unconsumed_tail, size) if size else b""
    return tag + rest


def _array(data: np.ndarray, order: str, what: str) -> tuple[str, np.ndarray] | None:
    """Name and values of a matrix: flags, dimensions, name, numbers; ``None`` if it is not dense and real."""
    _, flags, data = _element(data, order)
    _, sizes, data = _element(data, order)
    _, name, data = _element(data, order)
    (flag,) = struct.unpack(f"{order}I", flags[:4].tobytes())
    dtype, is_complex = CLASSES.get(flag & 0xFF), flag & 0x800
    if dtype is None or is_complex:
        return None
    kind, values, _ = _element(data, order)
    if kind not in STORED:
        raise ValueError(f"numbers of the type {kind}")
    shape = tuple(np.frombuffer(sizes.tobytes(), f"{order}i4").tolist())
    numbers = np.frombuffer(values, f"{order}{STORED[kind]}")
    if any(length < 0 for length in shape) or math.prod(shape) != len(numbers):
        raise ValueError(f"{len(numbers):,} numbers for the shape {shape}")
    require_memory(float(len(numbers) * np.dtype(dtype).itemsize), what)
    return name.tobytes().decode("latin1"), numbers.astype(dtype).reshape(shape, order="F")
