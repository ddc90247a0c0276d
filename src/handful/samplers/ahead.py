"""Prefetching: the next results are made while the current result is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def run_ahead(calls: Iterable[Callable[[], T]], depth: int = 1, threads: int = 1) -> Iterator[T]:
    """Yield the results of all calls, in order. ``threads`` threads run the next ``depth`` calls while the consumer
    uses the current result.

    Besides the current result, at most ``depth`` other results exist, including unfinished results. An error in a call
    is raised in the consumer. If the consumer stops early, it waits for the running calls, and no other call starts.

    >>> list(run_ahead([lambda: 1, lambda: 4], depth=2))
    [1, 4]
    """
    workers = ThreadPoolExecutor(threads, thread_name_prefix="handful-ahead")
    coming: deque[Future[T]] = deque()
    try:
        for call in calls:
            coming.append(workers.submit(call))
            if len(coming) > depth:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        workers.shutdown(cancel_futures=True)


def ahead(items: Iterator[T], depth: int = 1) -> Iterator[T]:
    """Yield ``items`` in order. A thread computes the items, at most ``depth`` items ahead of the consumer."""
    making: Iterator[Any] = run_ahead(repeat(partial(next, items, _END)), depth)
    for item in making:
        if item is _END:
            return
        yield item
        del item
