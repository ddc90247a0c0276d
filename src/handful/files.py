"""The user's folders, and atomic writes: write a temporary file, then rename it."""

from __future__ import annotations

import json
import math
import mmap
import os
import platform
import secrets
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path


def place(text: str) -> Path | None:
    """Convert ``text`` to a path. The result is ``None`` if the path is not valid: it is too long, contains a null
    byte, or has an unknown user after ``~``.
    """
    with suppress(OSError, ValueError, RuntimeError):
        path = Path(text).expanduser()
        with suppress(FileNotFoundError):
            path.stat()
        return path
    return None


def home(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder for data sets and partitions: ``root`` if given, otherwise ``$HANDFUL_HOME`` if set, otherwise a
    folder in the user's cache.

    >>> home("data").name
    'data'
    """
    chosen = root or os.environ.get("HANDFUL_HOME")
    return Path(chosen).expanduser() if chosen else user_cache_path("handful", appauthor=False, opinion=False)


def private(name: str) -> Path:
    """The folder ``name`` in the user's own cache, where no other user can write. This folder does not depend on
    ``$HANDFUL_HOME``.

    >>> private("verified").name
    'verified'
    """
    return user_cache_path("handful", appauthor=False, opinion=False) / name


def private_map(path: Path) -> mmap.mmap:
    """Map a file into writable memory. Writes do not change the file.

    No memory is reserved for these writes, since Linux could otherwise not map a file that is larger than the memory.
    """
    with path.open("rb") as file:
        if sys.platform == "win32":
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        return mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE)


# Python defines MAP_NORESERVE since version 3.13.
_USUAL = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
_NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if _USUAL else 0)


def read_bytes(path: Path) -> bytes:
    """Read a file. A pipe or a device raises ``OSError``, since reading it might never end.

    >>> read_bytes(Path("/dev/zero"))
    Traceback (most recent call last):
        ...
    OSError: /dev/zero is not a plain file
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(f"{path} is not a plain file")
    return path.read_bytes()


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a temporary file next to ``path``, then rename it to ``path``. If writing fails, ``path`` does not change.

    Args:
        path: the file to write or to replace; its folder is created if needed.
        write: a function that writes the file; it is called with the path of the temporary file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_aside(Path(folder, "new", "a.bin"), lambda aside: aside.write_bytes(b"abc"))
    ...     Path(folder, "new", "a.bin").read_bytes()
    b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        write(aside)
        # The content reaches the disk before the rename: a power failure leaves the old file or this one.
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A context manager that adds the name of ``path`` to system errors that have no file name, such as the error of a
    full disk.

    >>> with naming(Path("big.bin")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device: 'big.bin'
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in UTF-8.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_text(Path(folder, "a.txt"), "text")
    ...     Path(folder, "a.txt").read_text()
    'text'
    """
    write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` to ``path`` as indented JSON, after the conversion ``plain``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_json(Path(folder, "a.json"), {"loss": math.nan})
    ...     print(Path(folder, "a.json").read_text(), end="")
    {
      "loss": null
    }
    """
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record to JSON values, and add their checksum under the key ``crc32``.

    >>> unseal(seal({"epoch": 1, "loss": math.nan}))
    {'epoch': 1, 'loss': None}
    """
    value = plain(dict(record))
    return {**value, "crc32": text_fingerprint(value)}


def unseal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Check the checksum of a record, and remove it. A record that has no checksum, because it was written by hand, is
    accepted.

    >>> unseal({**seal({"epoch": 1}), "epoch": 2})
    Traceback (most recent call last):
        ...
    ValueError: it has changed since it was written: its checksum differs
    """
    value = {name: one for name, one in record.items() if name != "crc32"}
    if "crc32" in record and record["crc32"] != text_fingerprint(value):
        raise ValueError("it has changed since it was written: its checksum differs")
    return value


def text_fingerprint(value: Any) -> str:
    """A checksum of JSON values, which does not depend on the order of keys.

    >>> text_fingerprint({"a": 1, "b": 2}) == text_fingerprint({"b": 2, "a": 1}) != text_fingerprint({})
    True
    """
    return f"{zlib.crc32(json.dumps(value, sort_keys=True).encode()):08x}"


def plain(value: Any) -> Any:
    """Convert ``value`` to JSON values: NaN and infinity become ``None``, numbers of numpy and torch become Python
    numbers, and tuples become lists.

    >>> plain({1: (2.5, math.inf)})
    {'1': [2.5, None]}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return plain(value.item()) if hasattr(value, "item") and not isinstance(value, float) else value
