from __future__ import annotations

from collections.abc import Iterator
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handful.kernels.threads import get_threads, set_threads
from handful.samplers.chunks import in_chunks, in_order


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_threads()
    set_threads(request.param)
    yield request.param
    set_threads(before)


@given(st.integers(0, 40), st.integers(1, 12))
def test_chunks_are_full_but_the_last_and_keep_the_order(count: int, size: int) -> None:
    nodes = np.arange(count)[::-1]
    chunks = in_chunks(nodes, size)
    assert [node for chunk in chunks for node in chunk] == nodes.tolist()
    assert all(len(chunk) == size for chunk in chunks[:-1])
    assert len(chunks) == -(-count // size)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_draws_come_in_order_whatever_the_threads(threads: int, steps: int) -> None:
    assert list(in_order(lambda step: step * step, steps)) == [step * step for step in range(steps)]


def test_as_many_are_drawn_at_once_as_there_are_threads(threads: int) -> None:
    together = Barrier(threads, timeout=20)  # nobody passes before all have come

    def draw(step: int) -> int:
        together.wait()
        return step

    assert list(in_order(draw, 2 * threads)) == list(range(2 * threads))


def test_nothing_is_drawn_before_it_is_asked_for(threads: int) -> None:
    drawn: list[int] = []
    steps = in_order(lambda step: drawn.append(step) or step, 3 * threads)
    assert drawn == []
    assert next(steps) == 0
    assert sorted(drawn) == list(range(threads))


def test_an_error_in_a_draw_is_raised(threads: int) -> None:
    def draw(step: int) -> int:
        if step == 2:
            raise KeyError("lost")
        return step

    with pytest.raises(KeyError, match="lost"):
        list(in_order(draw, 4))
