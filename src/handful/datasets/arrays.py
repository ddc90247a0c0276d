"""Read arrays from ``.npz`` and MATLAB 5 files that may be damaged or malicious.

The headers of a file are not trusted: before an array is read, its length is compared with the size of the file and
with the free memory. Python objects are never loaded.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.lib import format as npy

from handful.budget import require_disk, require_memory
from handful.errors import DatasetError, readable

# -- .npz -----------------------------------------------------------------------------------------------------------


class ArrayFile(Mapping[str, np.ndarray]):
    """The arrays of a ``.npz`` file by name, each read on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[str, np.ndarray] = {}
        if not path.is_file():
            raise DatasetError(f"{path} does not exist, or is no file")
        with readable(path, "write it with numpy.savez"), zipfile.ZipFile(path) as archive:
            self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._read:
            return self._read[name]
        info, what = self._members[name], f"{self.path}: array '{name}'"
        require_memory(info.file_size, what)  # zipfile returns at most the size in the header
        read_it = readable(what, "write it again, as numbers or as text")
        with read_it, zipfile.ZipFile(self.path) as archive, archive.open(info) as file:
            array: np.ndarray = npy.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError(f"it is longer than its shape {array.shape}")
        if array.dtype.kind not in "biufUS":
            raise DatasetError(f"{what} holds {array.dtype}: store it as numbers or as text")
        self._read[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return self._read[name]


def whole(values: np.ndarray, what: str) -> np.ndarray:
    """Convert whole numbers to int64. Floats beyond 2⁵³ are rejected, since they do not represent integers exactly.

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

CONVERT = """
import sys, numpy, scipy.io
found = scipy.io.loadmat(sys.argv[1]).items()
numpy.savez(sys.argv[2], **{k: v for k, v in found if isinstance(v, numpy.ndarray) and v.dtype.kind in "iuf"})
"""


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """Read the dense arrays of real numbers from a MATLAB 5 file, by name; other arrays are skipped.

    scipy reads the file in a separate process, since a damaged file can crash scipy.

    Raises:
        DatasetError: ``path`` is not a complete MATLAB 5 file.
    """
    with readable(path, "remove it and fetch it again"), TemporaryDirectory(dir=path.parent) as folder:
        require_memory(path.stat().st_size, str(path))
        require_disk(path.stat().st_size, path, f"{path} as arrays")
        out = Path(folder, "arrays.npz")
        done = subprocess.run([sys.executable, "-c", CONVERT, path, out], capture_output=True, text=True)
        if done.returncode:
            raise ValueError((done.stderr.strip().splitlines() or ["scipy ended with a signal"])[-1])
        return dict(ArrayFile(out))
