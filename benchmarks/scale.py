"""The time of training epochs with and without a memory budget, on synthetic graphs of several sizes on disk:
``python -m benchmarks.scale``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from handful.batch import Batch
from handful.bench.harness import SMALL, Say, measure_by_turns, seconds_of
from handful.budget import anonymous, as_bytes, free_memory, show_size
from handful.datasets import load, write
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Table, text_table
from handful.kernels.memory import release
from handful.kernels.threads import get_threads
from handful.report.tables import markdown
from handful.samplers import RandomNodes
from handful.training.callbacks import Callback
from handful.training.cost import graph_bytes
from handful.training.execution import InMemory, WithinBudget
from handful.training.loop import Loop, train_epoch
from handful.vocabulary import shown

PHASES = ("reading edges", "cutting parts", "reading features", "training")
"""The phases of an epoch: those that ``shuffled`` reports, and the training steps. The first phase includes the random
partition.
"""
_IO = Path("/proc/self/io")


def bench_scale(
    experiments: Sequence[Experiment], memory: int, rounds: int, folder: Path | None, say: Say
) -> dict[str, Any]:
    """Write each graph to disk, and train epochs on it alternately with and without the budget.

    Args:
        experiments: experiments with synthetic graphs; only the first seed of each is used.
        memory: the budget in bytes.
        rounds: the number of measurements with and without the budget; the result is the median.
        folder: where each graph is stored while it is measured; ``None`` for the system's temporary folder.
        say: called with the name of the current task.
    """
    if not _IO.exists():
        raise HandfulError("this reads /proc/self/io: run it on Linux")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    with TemporaryDirectory(prefix="handful-scale-", dir=folder) as place:
        saved = Path(place, "graph")
        for experiment in experiments:
            say(f"making {experiment.graph}…")
            made = seconds_of(partial(write, experiment.graph, saved, memory))
            say(f"training on {experiment.graph}…")
            row = measure(experiment.with_(graph=str(saved)), memory, rounds)
            rows.append({"name": experiment.graph, **row, "making_seconds": made})
            shutil.rmtree(saved)
    return {"threads": get_threads(), "memory": memory, "rounds": rounds, "graphs": rows}


class Watch(Callback):
    """Measure the time of each phase of an epoch. When a phase is reported, the time since the previous report is added
    to this phase.
    """

    def __init__(self) -> None:
        self.seconds, self.since = dict.fromkeys(PHASES, 0.0), time.perf_counter()

    def on_progress(self, loop: Loop, what: str, share: float) -> None:
        """Add the time since the last report to the phase ``what``."""
        now = time.perf_counter()
        self.seconds[what] += now - self.since
        self.since = now

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """Add the time since the last report to the training phase."""
        self.on_progress(loop, "training", 0.0)

    def on_epoch(self, loop: Loop) -> None:
        """Add the time since the last gradient to the training phase."""
        self.on_progress(loop, "training", 0.0)


def measure(experiment: Experiment, memory: int, rounds: int) -> dict[str, Any]:
    """Train epochs alternately with and without the budget, and measure time, peak memory and disk traffic."""
    seed = experiment.seeds[0]
    for execution in (InMemory(), WithinBudget(memory=1 << 50)):
        warm = experiment.with_(graph=SMALL).begin(load(SMALL), seed)
        warm.execution = replace(execution, known=warm.execution.known)
        train_epoch(warm)
    graph = experiment.load(seed)
    began = time.perf_counter()
    loop = experiment.begin(graph, seed, memory)
    prepared, known, size = time.perf_counter() - began, loop.execution.known, graph_bytes(graph)
    # Without a budget, the graph in the system's cache and the parts of an epoch must fit into memory.
    fits = 2 * size < (free_memory() or 0)
    ways = {**({"memory": InMemory(known=known)} if fits else {}), "budget": WithinBudget(known=known, memory=memory)}
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in ways}

    def run(way: str) -> float:
        loop.execution = ways[way]
        seen[way].append(measure_epoch(loop))
        return seen[way][-1]["seconds"]

    turns = measure_by_turns({way: partial(run, way) for way in ways}, rounds, say=lambda word: None)
    result = {way: {name: median(one[name] for one in epochs) for name in epochs[0]} for way, epochs in seen.items()}
    for way, epochs in seen.items():
        result[way]["peak_bytes"] = max(one["peak_bytes"] for one in epochs)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "graph_bytes": size,
        "prepare_seconds": prepared,
        "ways": result,
        "rate": turns.ratio("memory", "budget") if fits else None,
        "nanoseconds_per_edge": 1e9 * result["budget"]["reading edges"] / graph.num_edges,
    }


def measure_epoch(loop: Loop) -> dict[str, float]:
    """Train one epoch, and measure its time (total and per phase), its disk traffic, and its peak anonymous memory."""
    peak, on = 0, True

    def look() -> None:
        nonlocal peak
        while on:
            peak = max(peak, anonymous())
            time.sleep(0.002)

    release()
    before, looking = disk_bytes(), Thread(target=look, daemon=True)
    looking.start()
    watch = Watch()
    loop.callbacks, began = (watch,), watch.since
    train_epoch(loop)
    seconds, on = time.perf_counter() - began, False
    looking.join()
    traffic = {f"{name}_bytes": count - before[name] for name, count in disk_bytes().items()}
    return {"seconds": seconds, "peak_bytes": peak, **traffic, **watch.seconds}


def disk_bytes() -> dict[str, int]:
    """The bytes that this process has read from and written to disks."""
    counts = dict(re.findall(r"(\w+): (\d+)", _IO.read_text()))
    return {"read": int(counts["read_bytes"]), "written": int(counts["write_bytes"])}


def scale_tables(result: dict[str, Any]) -> list[Table]:
    """Make two tables: the result, and the time of each phase of an epoch within the budget."""
    head = ["nodes", "edges", "graph", "in memory, s", "budget, s", "rate", "peak", "disk read", "ns/edge"]
    rows, phases = [], []
    for graph in result["graphs"]:
        ways, budget = graph["ways"], graph["ways"]["budget"]
        row = [f"{graph['nodes']:,}", f"{graph['edges']:,}", show_size(graph["graph_bytes"])]
        row += [f"{ways['memory']['seconds']:.2f}" if "memory" in ways else "does not fit", f"{budget['seconds']:.2f}"]
        row += [shown(graph["rate"], "{:.2f}"), show_size(budget["peak_bytes"]), show_size(budget["read_bytes"])]
        rows.append([*row, f"{graph['nanoseconds_per_edge']:.1f}"])
        phases.append([row[0], *(f"{budget[phase]:.2f}" for phase in PHASES)])
    title = f"Epochs within {show_size(result['memory'])} and without a budget, {result['threads']} threads"
    return [text_table(title, head, rows), text_table("Seconds within the budget", ["nodes", *PHASES], phases)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--nodes", default="500000,4000000,20000000", help="numbers of nodes (%(default)s)")
    parser.add_argument("--degree", type=float, default=20.0, help="approximate mean degree (%(default)s)")
    parser.add_argument("--features", type=int, default=64, help="features per node, in float16 (%(default)s)")
    parser.add_argument("--train", type=float, default=0.01, help="share of training nodes (%(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="width of the layers of GraphSAGE (%(default)s)")
    parser.add_argument("--layers", type=int, default=3, help="their number (%(default)s)")
    parser.add_argument("--parts", type=int, default=32, help="m (%(default)s)")
    parser.add_argument("--memory", default="2GiB", help="the budget (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each way (%(default)s)")
    parser.add_argument("--out", type=Path, help="folder for the graphs during the measurement")
    asked = parser.parse_args(arguments)
    shape = {"hidden": asked.hidden, "layers": asked.layers, "norm": "ln"}
    made = f"degree={asked.degree}&classes=16&features={asked.features}&half=true"
    made += f"&train={asked.train}&val={asked.train / 10}"
    graphs = [f"synthetic?nodes={int(size)}&{made}" for size in asked.nodes.split(",")]
    whats = [Experiment(one, options=shape, sampler=RandomNodes(asked.parts), seeds=(42,)) for one in graphs]
    try:
        result = bench_scale(whats, as_bytes(asked.memory), asked.rounds, asked.out, partial(print, file=sys.stderr))
    except HandfulError as error:
        parser.error(str(error))
    for table in scale_tables(result):
        print(table.title, markdown(table), sep="\n\n")


if __name__ == "__main__":
    main()
