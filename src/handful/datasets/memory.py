"""Whether what is asked for fits into this machine, asked before it is made."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from handful.errors import HandfulError

_SYSTEM = Path("/proc/meminfo")
_PROCESS = Path("/proc/self/status")


def require_memory(needed: float, what: str) -> None:
    """Refuse what takes more bytes than are free.

    >>> require_memory(2**60, "the graph")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    handful.errors.HandfulError: the graph takes 1,073,741,824.0 GiB of memory, and ... GiB are free
    """
    free = free_memory()
    if free is not None and needed > free:
        size, room = (f"{count / 2**30:,.1f} GiB" for count in (needed, free))
        raise HandfulError(f"{what} takes {size} of memory, and {room} are free")


def free_memory() -> int | None:
    """The bytes that this process may still take; ``None`` where the system does not tell."""
    found = []
    with suppress(OSError, ValueError, KeyError):
        found.append(_kib(_SYSTEM)["MemAvailable"])
    with suppress(ImportError, OSError, ValueError, KeyError):
        import resource

        held = _kib(_PROCESS)
        for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                found.append(max(0, most - held[name]))
    return min(found, default=None)


def _kib(path: Path) -> dict[str, int]:
    """The lines ``Name: 123 kB`` of a file of the kernel, in bytes."""
    return {name: 1024 * int(count) for name, count in re.findall(r"(\w+):\s+(\d+) kB", path.read_text())}
