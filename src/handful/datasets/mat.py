"""Dense numbers from MATLAB 5 files, which scipy's ``savemat`` writes too.

scipy's own reader trusts the tags of a file and ends the process with a signal where one is wrong, so that it is not
for files that others may have made. This one holds every length against the bytes that are there.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from handful.budget import require_memory
from handful.errors import DatasetError

HEADER = 128
MATRIX, COMPRESSED = 14, 15
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""The types of numbers in a file, by the code in their tag."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""The types of dense arrays, whose values may be stored in a narrower type."""


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """The dense arrays of real numbers in a file, by name; all others are passed over.

    Raises:
        DatasetError: it is not a whole file of this format.
    """
    try:
        data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        order = {b"IM": "<", b"MI": ">"}.get(data[HEADER - 2 : HEADER].tobytes())
        if order is None:
            raise ValueError("it does not begin as one")
        return dict(_arrays(data[HEADER:], order, str(path)))
    except (OSError, ValueError, struct.error, zlib.error) as error:
        raise DatasetError(f"{path} is not a whole .mat file ({error}): remove it and fetch it again") from None


def _arrays(data: np.ndarray, order: str, what: str) -> Iterator[tuple[str, np.ndarray]]:
    while len(data):
        kind, held, data = _element(data, order, padded=False)
        if kind == COMPRESSED:
            kind, held, _ = _element(np.frombuffer(_inflated(held, order, what), np.uint8), order)
        if kind == MATRIX:
            found = _array(held, order, what)
            if found is not None:
                yield found


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


def _inflated(packed: np.ndarray, order: str, what: str) -> bytes:
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
