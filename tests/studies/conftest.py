"""One small graph for all studies."""

from __future__ import annotations

import pytest

from cut import cut_debian


@pytest.fixture(scope="session")
def small_debian(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a cut-down Debian graph."""
    return cut_debian(tmp_path_factory.mktemp("graph") / "cut.npz")
