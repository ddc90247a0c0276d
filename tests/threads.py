"""One thread, for tests whose graphs are so small that a second one only waits; a conftest imports the fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from handful.kernels.threads import get_threads, set_threads


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)
