"""Memory budgets: sizes with units, and the memory that a budget leaves to a process.

A budget limits anonymous memory (RssAnon): the memory of the process that is not backed by a file. Pages of
memory-mapped files and the system's file cache do not count, since the system frees them when it needs memory.
"""

from __future__ import annotations

import gc
import re
import shutil
from contextlib import suppress
from pathlib import Path

from handful.errors import HandfulError

UNITS = {"": 1, **{f"{prefix}B": 1000**i for i, prefix in enumerate("kMGT", 1)}}
UNITS |= {f"{prefix}iB": 1024**i for i, prefix in enumerate("KMGT", 1)} | {"B": 1}
_STATUS, _SYSTEM = Path("/proc/self/status"), Path("/proc/meminfo")


def as_bytes(size: int | str) -> int:
    """Convert ``size``, which is a number of bytes or a text with a unit, to bytes.

    >>> as_bytes("8GiB"), as_bytes("1.5 MB"), as_bytes(4096)
    (8589934592, 1500000, 4096)
    """
    result = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(size))
    units = {unit.lower(): scale for unit, scale in UNITS.items()}
    if isinstance(size, bool) or result is None or result[2].lower() not in units:
        raise HandfulError(f"a size is a number of bytes, or one with a unit, such as 8GiB or 500MB; got {size!r:.60}")
    count = float(result[1]) * units[result[2].lower()]
    if not 1 <= count < 2**63:
        raise HandfulError(f"a size must be at least one byte and below 8 EiB, got {size!r:.60}")
    return int(count)


def show_size(count: float) -> str:
    """Format a number of bytes with a unit.

    >>> show_size(1.5 * 2**30), show_size(3 * 2**20), show_size(700)
    ('1.5 GiB', '3.0 MiB', '700 bytes')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= UNITS[unit]:
            return f"{count / UNITS[unit]:,.1f} {unit}"
    return f"{count:.0f} bytes"


def anonymous() -> int:
    """The anonymous memory of this process in bytes; 0 if the system does not report it."""
    return read_sizes().get("RssAnon", 0)


def free_memory() -> int | None:
    """The number of bytes that this process may still allocate; ``None`` if the system does not report free memory."""
    held, result = read_sizes(), [free for name, free in read_sizes(_SYSTEM).items() if name == "MemAvailable"]
    with suppress(ImportError):  # Windows has no such limits.
        import resource

        for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY and name in held:
                result.append(max(0, most - held[name]))
    return min(result, default=None)


def read_sizes(path: Path = _STATUS) -> dict[str, int]:
    """Read sizes from lines such as ``Name: 123 kB`` in ``path``, as bytes by name; empty if there is no such file."""
    text = path.read_text() if path.exists() else ""
    return {name: 1024 * int(count) for name, count in re.findall(r"(\w+):\s+(\d+) kB", text)}


def room(memory: int | str, least: int, what: str) -> int:
    """The number of bytes of the budget ``memory`` that the process does not use yet.

    Raises:
        HandfulError: the budget leaves less than ``least``, the bytes that ``what`` needs; the message names a
            sufficient budget.

    >>> room("1PB", 0, "nothing")
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: a size is a number of bytes, or one with a unit, such as 8GiB or 500MB; got '1PB'
    """
    gc.collect()
    held, budget = anonymous(), as_bytes(memory)
    if budget - held < least:
        sizes = f"{show_size(least)} beside the {show_size(held)} that this process holds"
        enough = show_size(1.05 * (held + least))
        raise HandfulError(f"{what} needs {sizes}, and memory is {show_size(budget)}: give at least {enough}")
    return budget - held


def require_memory(needed: float, what: str) -> None:
    """Raise an error if fewer than ``needed`` bytes of memory are free.

    >>> require_memory(2**60, "the graph")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: the graph takes 1,048,576.0 TiB of memory, and ... are free
    """
    free = free_memory()
    if free is not None and needed > free:
        raise HandfulError(f"{what} takes {show_size(needed)} of memory, and {show_size(free)} are free")


def require_disk(needed: float, folder: Path, what: str) -> None:
    """Raise an error if fewer than ``needed`` bytes are free on the disk of ``folder``. The folder need not exist.

    >>> require_disk(1, Path("."), "a byte")
    """
    place = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise HandfulError(f"{what} takes {show_size(needed)} of disk, and {place} has room for {show_size(free)}")
