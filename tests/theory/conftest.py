from __future__ import annotations

from collections.abc import Iterator

import pytest

from handful.kernels.threads import get_threads, set_threads


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The graphs of these tests are so small that a second thread only waits."""
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)
