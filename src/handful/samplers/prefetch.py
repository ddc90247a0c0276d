"""Prepare the next batch while the current one trains."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Iterator[T], ahead: int = 1) -> Iterator[T]:
    """The same items in the same order, made by a thread that runs at most ``ahead`` of the consumer.

    An error in the producer is raised here; leaving the loop early stops the producer.
    """
    queue: Queue[Any] = Queue(maxsize=ahead)
    stop = Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            try:
                queue.put(item, timeout=0.1)
                return True
            except Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put((item, None)):
                    return
            put(_END)
        except BaseException as error:
            put((None, error))

    worker = Thread(target=produce, name="handful-prefetch", daemon=True)
    worker.start()
    try:
        while (entry := queue.get()) is not _END:
            item, error = entry
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        worker.join()
