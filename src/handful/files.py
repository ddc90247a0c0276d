"""Where files are kept, and files that are never half-written: write aside, then rename."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path


def home(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder for data sets and partitions: ``root``, else ``$HANDFUL_HOME``, else one in the user's cache.

    >>> home("data").name
    'data'
    """
    chosen = root or os.environ.get("HANDFUL_HOME")
    return Path(chosen).expanduser() if chosen else user_cache_path("handful", appauthor=False, opinion=False)


def write_aside(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside ``path``, then rename it; a failure leaves ``path`` as it was.

    Args:
        path: the file to write or to replace; its folder is made if there is none.
        write: called with the path of the file to write.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_aside(Path(folder, "new", "a.bin"), lambda aside: aside.write_bytes(b"abc"))
    ...     Path(folder, "new", "a.bin").read_bytes()
    b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


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
    """Write ``value`` to ``path`` as indented JSON; see ``plain`` for what it may hold.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_json(Path(folder, "a.json"), {"loss": math.nan})
    ...     print(Path(folder, "a.json").read_text(), end="")
    {
      "loss": null
    }
    """
    write_text(path, json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n")


def plain(value: Any) -> Any:
    """``value`` as JSON has it: NaN and infinity as null, numbers of numpy and torch as plain ones, tuples as lists.

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
