"""Epochs within a budget of memory against the same epochs without one, and how their cost grows with the graph."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from handful.batch import Batch
from handful.bench.harness import SMALL, Say, in_own_process, measure_by_turns, seconds_of
from handful.budget import anonymous, free_memory, show_size
from handful.datasets import load, write
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Table, text_table
from handful.kernels.memory import release
from handful.kernels.threads import get_threads, set_threads
from handful.training.callbacks import Callback
from handful.training.cost import graph_bytes
from handful.training.execution import InMemory, WithinBudget
from handful.training.loop import Loop, train_epoch

PHASES = ("reading edges", "cutting parts", "reading features", "training")
"""What ``shuffled`` says it does, the deal being the first of it, and the steps on what it has made."""
_IO = Path("/proc/self/io")


def bench_scale(
    experiments: Sequence[Experiment], memory: int, rounds: int, folder: Path | None, say: Say
) -> dict[str, Any]:
    """Make each graph on disk, and train epochs on it with and without the budget, by turns in a process of its own.

    Args:
        experiments: each on a made-up graph; the first seed counts.
        memory: the budget in bytes.
        rounds: how often each way is measured; the median counts.
        folder: where the graphs are put for the while; the system's folder for temporary files when ``None``.
        say: called with what is being done.
    """
    if not _IO.exists():
        raise HandfulError("this is measured by what Linux tells of a process")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    rows = []
    with TemporaryDirectory(prefix="handful-scale-", dir=folder) as place:
        saved = Path(place, "graph")
        for experiment in experiments:
            say(f"making {experiment.graph}…")
            made = seconds_of(partial(write, experiment.graph, saved, memory))
            say(f"training on {experiment.graph}…")
            row = in_own_process(measure, experiment.with_(graph=str(saved)), memory, rounds, get_threads())
            if row is None:
                raise HandfulError(f"the system ended the process that trained on {experiment.graph}")
            rows.append({"name": experiment.graph, **row, "making_seconds": made})
            shutil.rmtree(saved)
    return {"threads": get_threads(), "memory": memory, "rounds": rounds, "graphs": rows}


class Watch(Callback):
    """Times the phases of an epoch within a budget: the time since the last word is of the phase that a word names."""

    def begin(self) -> None:
        """An epoch begins."""
        self.seconds, self.since = dict.fromkeys(PHASES, 0.0), time.perf_counter()

    def on_progress(self, loop: Loop, what: str, share: float) -> None:
        """A block of a phase is done."""
        now = time.perf_counter()
        self.seconds[what] += now - self.since
        self.since = now

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """A step is nearly done."""
        self.on_progress(loop, "training", 0.0)

    def on_epoch(self, loop: Loop) -> None:
        """The rest of the last step."""
        self.on_progress(loop, "training", 0.0)


def measure(experiment: Experiment, memory: int, rounds: int, threads: int) -> dict[str, Any]:
    """Epochs with and without the budget by turns, in this process: seconds, CPU seconds, memory, bytes of the disk."""
    set_threads(threads)
    seed, watch = experiment.seeds[0], Watch()
    for execution in (InMemory(), WithinBudget(memory=1 << 50)):
        warm = experiment.with_(graph=SMALL).begin(load(SMALL), seed)
        warm.execution = replace(execution, known=warm.execution.known)
        train_epoch(warm)
    graph = experiment.load(seed)
    began = time.perf_counter()
    loop = experiment.begin(graph, seed, memory)
    prepared, known = time.perf_counter() - began, loop.execution.known
    loop.callbacks = (watch,)
    size = graph_bytes(graph)
    # Without a budget the pages of the graph should stay in the system's cache, beside what an epoch makes of it.
    fits = 2 * size < (free_memory() or 0)
    ways = {**({"memory": InMemory(known=known)} if fits else {}), "budget": WithinBudget(known=known, memory=memory)}
    seen: dict[str, list[dict[str, float]]] = {way: [] for way in ways}

    def run(way: str) -> float:
        loop.execution = ways[way]
        seen[way].append(measure_epoch(loop, watch))
        return seen[way][-1]["seconds"]

    turns = measure_by_turns({way: partial(run, way) for way in seen}, rounds, say=lambda word: None)
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
        "rate_cpu": result["memory"]["cpu_seconds"] / result["budget"]["cpu_seconds"] if fits else None,
        "nanoseconds_per_edge": 1e9 * result["budget"]["reading edges"] / graph.num_edges,
    }


def measure_epoch(loop: Loop, watch: Watch) -> dict[str, float]:
    """One epoch: what it took, and the most anonymous memory that the process held."""

    def epoch() -> None:
        watch.begin()
        train_epoch(loop)

    release()
    before, start = disk_bytes(), time.process_time()
    seconds, peak = while_watched(epoch)
    cpu = time.process_time() - start
    traffic = {f"{name}_bytes": count - before[name] for name, count in disk_bytes().items()}
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak, **traffic, **watch.seconds}


def while_watched(work: Callable[[], object]) -> tuple[float, int]:
    """The seconds that ``work`` takes, and the most anonymous memory that this process holds meanwhile."""
    peak, on = 0, True

    def look() -> None:
        nonlocal peak
        while on:
            peak = max(peak, anonymous())
            time.sleep(0.002)

    looking = Thread(target=look, daemon=True)
    looking.start()
    seconds, on = seconds_of(work), False
    looking.join()
    return seconds, peak


def disk_bytes() -> dict[str, int]:
    """The bytes that this process has had read from and written to disks."""
    counts = dict(re.findall(r"(\w+): (\d+)", _IO.read_text()))
    return {"read": int(counts["read_bytes"]), "written": int(counts["write_bytes"])}


def scale_tables(result: dict[str, Any]) -> list[Table]:
    """The result for people, and where the seconds of an epoch within the budget went."""
    head = ["nodes", "edges", "graph", "in memory, s", "budget, s", "rate", "CPU", "peak", "disk read", "ns/edge"]
    rows, phases = [], []
    for graph in result["graphs"]:
        ways, budget = graph["ways"], graph["ways"]["budget"]
        row = [f"{graph['nodes']:,}", f"{graph['edges']:,}", show_size(graph["graph_bytes"])]
        row += [f"{ways['memory']['seconds']:.2f}" if "memory" in ways else "does not fit", f"{budget['seconds']:.2f}"]
        row += ["" if graph[rate] is None else f"{graph[rate]:.2f}" for rate in ("rate", "rate_cpu")]
        row += [show_size(budget["peak_bytes"]), show_size(budget["read_bytes"])]
        rows.append([*row, f"{graph['nanoseconds_per_edge']:.1f}"])
        phases.append([row[0], *(f"{budget[phase]:.2f}" for phase in PHASES)])
    title = f"Epochs within {show_size(result['memory'])} and without a budget, {result['threads']} threads"
    return [text_table(title, head, rows), text_table("Seconds within the budget", ["nodes", *PHASES], phases)]
