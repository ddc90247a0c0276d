"""What the tests of commands share: a graph of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphs import make_graph
from npz import write_npz
from threads import one_thread

__all__ = ["npz", "one_thread"]


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """A graph in a file, ``my.npz``."""
    return write_npz(tmp_path / "my.npz", make_graph(400))
