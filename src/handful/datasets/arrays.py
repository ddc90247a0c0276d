"""ArrayFile in ``.npz`` archives, each read when it is asked for, and only if its sizes agree.

What an archive says of itself is not believed: the shape in an array's header, the length of the member, the packed
length and the length of the file are held against each other, and against the memory of this machine, before anything
is read. Members that nobody asks for are never unpacked.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from handful.budget import require_memory
from handful.errors import DatasetError

DEFLATE_RATIO = 1032
"""Deflate cannot pack more bytes into one."""
AGAIN = "make or copy the file again"


class ArrayFile(Mapping[str, np.ndarray]):
    """The arrays of a ``.npz`` file by name; Python objects are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, np.ndarray] = {}
        if not path.is_file():
            raise DatasetError(f"{path} does not exist, or is no file")
        with path.open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise DatasetError(f"{path} holds a single array, not an archive of arrays: write it with numpy.savez")
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        except (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
            raise DatasetError(f"{path} is not a readable .npz archive ({error}): write it with numpy.savez") from None

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
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(info) as file:
                shape, _, dtype = _header(file)
                if dtype.hasobject:
                    words = "which are not loaded: store it as numbers or as text of fixed length"
                    raise DatasetError(f"{what} holds Python objects, {words}")
                if dtype.kind not in "biufUS":
                    raise DatasetError(f"{what} holds {dtype}: store it as numbers or as text")
                size = math.prod(shape) * dtype.itemsize
                held = info.file_size - file.tell()
                if size != held:
                    raise DatasetError(f"{what} has the shape {shape} of {size:,} bytes, and {held:,} bytes: {AGAIN}")
                packed = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}.get(info.compress_type, math.inf)
                if info.file_size > packed * info.compress_size or info.compress_size > self.path.stat().st_size:
                    raise DatasetError(f"{what} cannot be as long as it says it is: {AGAIN}")
                require_memory(size, what)
            with zipfile.ZipFile(self.path) as archive, archive.open(info) as file:
                array: np.ndarray = npy.read_array(file, allow_pickle=False)
        except DatasetError:
            raise
        except Exception as error:  # numpy, zipfile and zlib raise many kinds, and all mean the same to the user.
            said = str(error).splitlines()[0] if str(error) else "cut short"
            raise DatasetError(f"{what} is damaged ({said}): {AGAIN}") from None
        return array.astype(array.dtype.newbyteorder("="), copy=False)


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(file)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format is not that of plain arrays")
    shape, fortran, dtype = read(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    return shape, fortran, dtype


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
