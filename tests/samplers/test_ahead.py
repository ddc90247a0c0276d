"""Working ahead changes neither the items nor their order, hides no error and leaves no thread behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from handful.samplers.ahead import ahead, run_ahead


def workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("handful-ahead")]


@pytest.mark.parametrize("depth", [1, 3, 50])
def test_same_items_in_the_same_order(depth: int) -> None:
    items = [object() for _ in range(20)]
    assert list(ahead(iter(items), depth)) == items
    assert not workers()


def test_none_and_nothing_are_items_like_others() -> None:
    assert list(ahead(iter([None, None]))) == [None, None]
    assert list(ahead(iter([]))) == []


def test_an_error_arrives_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("lost")

    seen: list[int] = []
    with pytest.raises(KeyError, match="lost"):
        seen.extend(ahead(items()))
    assert seen == [1, 2]
    assert not workers()


def test_leaving_early_stops_the_producer() -> None:
    made = []

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            yield made[-1]

    loop = ahead(endless())
    assert [next(loop) for _ in range(3)] == [0, 1, 2]
    loop.close()  # type: ignore[attr-defined]
    assert not workers()
    assert len(made) <= 3 + 1  # one waiting or being made


def test_works_ahead_but_not_further_than_told() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(100):
            made.append(i)
            yield i

    loop = ahead(items(), depth=2)
    next(loop)
    deadline = time.monotonic() + 10
    while len(made) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    assert len(made) == 3  # one given, two waiting or being made
    loop.close()  # type: ignore[attr-defined]


def test_calls_run_on_several_threads_and_their_results_come_in_order() -> None:
    together = threading.Barrier(2, timeout=10)

    def call(number: int) -> int:
        together.wait()  # the two run at once
        return number

    assert list(run_ahead((lambda number=n: call(number) for n in range(4)), depth=2, threads=2)) == [0, 1, 2, 3]
    assert not workers()
