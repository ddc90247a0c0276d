"""Steps over chunks of nodes: cut them, and draw for several at once, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from handful.kernels.threads import get_threads, run

T = TypeVar("T")


def in_chunks(nodes: np.ndarray, size: int) -> list[np.ndarray]:
    """``nodes`` in pieces of ``size``; the last one is what is left.

    >>> [chunk.tolist() for chunk in in_chunks(np.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    return [nodes[lo : lo + size] for lo in range(0, len(nodes), size)]


def in_order(draw: Callable[[int], T], steps: int) -> Iterator[T]:
    """``draw(step)`` for every step in order, as many steps at once as there are threads.

    >>> list(in_order(lambda step: step * step, 4))
    [0, 1, 4, 9]
    """
    threads = get_threads()
    for lo in range(0, steps, threads):
        yield from run(lambda step, _: draw(step), [(k, k + 1) for k in range(lo, min(lo + threads, steps))])
