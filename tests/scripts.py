"""The modules of ``benchmarks/`` and ``examples/``, which are no part of the package."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def script(name: str, folder: str = "benchmarks") -> Any:
    """The module ``<folder>/<name>.py``."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module(f"{folder}.{name}")
