"""One commit's side of ``benchmarks/against.py``: ``python -P benchmarks/worker.py PASS_GRAPH EPOCH_GRAPH``.

It reads the name of a work from a line of stdin, does it, and answers with a line of JSON. The sources of the commit
are on its path: it uses the public names that old commits have too, and imports nothing else.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import handful as hf

EPOCHS = 2
"""How many epochs one measurement trains, after a first that the memory pool needs."""


Times = tuple[float, float]
"""Seconds, and seconds of the processor over all threads."""


def now() -> Times:
    """Both clocks."""
    return perf_counter(), process_time()


def since(begin: Times, end: Times, count: int = 1) -> Times:
    """The times of one of ``count`` works between two readings of the clocks."""
    return (end[0] - begin[0]) / count, (end[1] - begin[1]) / count


def pass_times(name: str) -> Callable[[], Times]:
    """The one pass over the edges: all subgraphs of an epoch of random node sampling, m = 10."""
    graph, sampler, epochs = hf.load(name), hf.RandomNodes(parts=10), itertools.count()

    def measure() -> Times:
        begin = now()
        for _ in sampler.subgraphs(graph, 0, next(epochs)):
            pass
        return since(begin, now())

    return measure


class Clock(hf.Callback):
    """When the epochs end."""

    def __init__(self) -> None:
        self.ends: list[Times] = []

    def on_epoch(self, loop: Any) -> None:
        """An epoch has ended."""
        self.ends.append(now())


def epoch_times(name: str) -> Callable[[], Times]:
    """An epoch of training: GraphSAGE 3×256, BatchNorm, m = 4, without its evaluation."""
    graph = hf.load(name)
    classes = 1 + int(graph.y[graph.train_mask].max())
    model = hf.make_model("sage", graph.x.shape[1], classes, hidden=256, layers=3, norm="bn")

    def measure() -> Times:
        clock, epochs = Clock(), EPOCHS + 1
        hf.fit(model, graph, hf.RandomNodes(parts=4), epochs=epochs, evaluate_every=epochs, callbacks=[clock])
        return since(clock.ends[0], clock.ends[-1], EPOCHS)

    return measure


def main(pass_graph: str, epoch_graph: str) -> None:
    make = {"pass": lambda: pass_times(pass_graph), "epoch": lambda: epoch_times(epoch_graph)}
    works: dict[str, Callable[[], Times]] = {}
    print(json.dumps({"package": hf.__file__}), flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name not in works:
            works[name] = make[name]()
            works[name]()  # compiles
        seconds, cpu = works[name]()
        print(json.dumps({"seconds": seconds, "cpu": cpu}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
