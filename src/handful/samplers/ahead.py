"""Prepare the next batch while the current one trains."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def ahead(items: Iterator[T], depth: int = 1) -> Iterator[T]:
    """The same items in the same order, made by a thread that is at most ``depth`` items ahead of the consumer.

    Beside the item in use there are never more than ``depth`` others, one that is still being made included. An error
    in the producer is raised here; leaving the loop early stops the producer.
    """
    queue: SimpleQueue[Any] = SimpleQueue()
    room = Semaphore(depth)
    stopped = False

    def produce() -> None:
        try:
            while room.acquire() and not stopped:
                item = next(items, _END)
                queue.put((item, None))
                if item is _END:
                    return
                del item
        except BaseException as error:
            queue.put((None, error))

    worker = Thread(target=produce, name="handful-ahead", daemon=True)
    worker.start()
    try:
        while True:
            item, error = queue.get()
            if error is not None:
                raise error
            if item is _END:
                return
            room.release()
            yield item
            del item
    finally:
        stopped = True
        room.release()
        worker.join()
