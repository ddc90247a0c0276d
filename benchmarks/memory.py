"""Peak memory of full-graph and random-part epochs, PyG's and ours, each in its own process: ``python -m
benchmarks.memory``.

Unless told, of GraphSAGE with 5 layers, LayerNorm and dropout 0.3, with 10 parts of a made-up graph of 12M edges.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from handful.bench.epoch import GRAPH
from handful.bench.harness import SMALL, Say, seconds_of
from handful.bench.pyg import pyg_epoch
from handful.datasets import load
from handful.errors import HandfulError, unknown
from handful.experiment import Experiment
from handful.finding import Table, text_table
from handful.graph import Graph
from handful.kernels.threads import get_threads, set_threads
from handful.report.tables import markdown
from handful.samplers import FullGraph, RandomNodes
from handful.training.cost import peak_ram, resting_ram
from handful.training.loop import train_epoch

T = TypeVar("T")
MEMORY_WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "pyg_full": ("PyG, full graph", {"sampler": FullGraph()}),
    "pyg_rns": ("PyG, random parts", {}),
    "handful_full": ("handful, full graph", {"sampler": FullGraph()}),
    "handful_rns": ("handful, random parts", {}),
    "handful_rns_untrimmed": ("handful, random parts, untrimmed", {"trim": False}),
    "handful_rns_bf16": ("handful, random parts, bf16", {"precision": "bf16"}),
}
"""Ways to train of which the memory is measured: how people call each, and how it changes the experiment."""


def bench_memory(experiment: Experiment, ways: Sequence[str], pyg_steps: int, say: Say) -> dict[str, Any]:
    """Seconds and peak memory of an epoch of full-graph and random-part training, each way in a process of its own.

    Args:
        experiment: graph, model, parts and, as its first seed, the seed.
        ways: some of ``MEMORY_WAYS``.
        pyg_steps: how many parts PyG trains on; the rest is taken to last as long. 0 for all.
        say: called with what is being done.
    """
    for way in ways:
        if way not in MEMORY_WAYS:
            raise HandfulError(unknown("way", way, MEMORY_WAYS))
    result = {}
    for way in ways:
        say(f"{MEMORY_WAYS[way][0]}…")
        result[way] = in_own_process(measure_memory, way, experiment, pyg_steps, get_threads())
    asked = {"graph": experiment.graph, "model": experiment.model, "seed": experiment.seeds[0]}
    options = {name: experiment.options.get(name) for name in ("hidden", "layers", "norm", "dropout")}
    how = {**experiment.sampler.options(), "pyg_steps": pyg_steps, "threads": get_threads()}
    return {"shape": asked | options | how, "ways": result}


def measure_memory(way: str, experiment: Experiment, pyg_steps: int, threads: int) -> dict[str, float] | None:
    """Train one epoch in this process: what it took above the loaded graph; ``None`` if memory ran out."""
    set_threads(threads)
    run, pyg = experiment.with_(**MEMORY_WAYS[way][1]), way.startswith("pyg")
    parts = run.sampler.options().get("parts", 1)
    steps = min(pyg_steps or parts, parts) if pyg else parts

    def epoch_on(graph: Graph) -> Callable[[], None]:
        return pyg_epoch(run, graph, most=steps) if pyg else partial(train_epoch, run.begin(graph, run.seeds[0]))

    epoch_on(load(SMALL))()
    epoch = epoch_on(run.load(run.seeds[0]))
    before = resting_ram()
    try:
        seconds = seconds_of(epoch) * parts / steps
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return None
        raise
    return {"seconds": seconds, "graph_rss_bytes": before, "above_graph_bytes": peak_ram() - before}


def in_own_process(work: Callable[..., T], *args: Any) -> T | None:
    """The result of ``work(*args)`` in a new process; ``None`` if the system ended it, for lack of memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_me_first) as process:
        try:
            return process.submit(work, *args).result()
        except BrokenProcessPool:
            return None


def _end_me_first() -> None:
    """Make Linux end this process, and no other, if memory runs out."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def memory_table(result: dict[str, Any]) -> Table:
    """The result for people."""
    rows = []
    for way, found in result["ways"].items():
        row = ["does not fit", "", ""]
        if found is not None:
            sizes = (found[name] / 2**30 for name in ("above_graph_bytes", "graph_rss_bytes"))
            row = [f"{found['seconds']:.2f}", *(f"{size:.2f}" for size in sizes)]
        rows.append([MEMORY_WAYS[way][0], *row])
    what = "{layers}×{hidden} {model} ({norm}), {parts} parts, {threads} threads, on {graph}".format(**result["shape"])
    return text_table(f"An epoch of {what}", ["", "seconds", "above the graph, GiB", "the graph, GiB"], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--graph", default=GRAPH, help="%(default)s")
    parser.add_argument("--model", default="sage", help="sage or gat (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="width of its layers (%(default)s)")
    parser.add_argument("--layers", type=int, default=5, help="their number (%(default)s)")
    parser.add_argument("--parts", type=int, default=10, help="m (%(default)s)")
    parser.add_argument("--ways", default=",".join(MEMORY_WAYS), help="some of %(default)s")
    parser.add_argument(
        "--pyg-steps", type=int, default=0, help="parts that PyG trains on, for the time of all; 0: all"
    )
    asked = parser.parse_args(arguments)
    shape = {"hidden": asked.hidden, "layers": asked.layers, "norm": "ln", "dropout": 0.3}
    what = Experiment(asked.graph, model=asked.model, options=shape, sampler=RandomNodes(asked.parts), seeds=(42,))
    try:
        result = bench_memory(what, asked.ways.split(","), asked.pyg_steps, partial(print, file=sys.stderr))
    except HandfulError as error:
        parser.error(str(error))
    table = memory_table(result)
    print(table.title, markdown(table), sep="\n\n")


if __name__ == "__main__":
    main()
