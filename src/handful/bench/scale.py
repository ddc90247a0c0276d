"""Epochs within a budget of memory against the same epochs without one, and how their cost grows with the graph."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from threading import Thread
from typing import Any

from handful.batch import Batch
from handful.budget import anonymous, as_bytes, free_memory, in_words
from handful.datasets import load, write
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Cell, Table
from handful.kernels.memory import release
from handful.kernels.threads import get_threads, set_threads
from handful.samplers import RandomNodes
from handful.training.callbacks import Callback
from handful.training.execution import InMemory, WithinBudget
from handful.training.loop import Loop, train_epoch

SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A graph to train on first, so that compiling is not measured."""
PHASES = ("reading edges", "cutting parts", "reading features", "training")
"""What ``shuffled`` says it does, the deal being the first of it, and the steps on what it has made."""
_IO = Path("/proc/self/io")


@dataclass(frozen=True)
class Shape:
    """A made-up graph, what is trained on it, and within which budget."""

    nodes: int
    degree: float
    features: int
    train: float
    parts: int
    hidden: int
    layers: int
    memory: int
    rounds: int
    seed: int

    @property
    def graph(self) -> str:
        """Its name as a data set, with features in float16."""
        rest = f"features={self.features}&half=true&train={self.train}&val={self.train / 10}&seed={self.seed}"
        return f"synthetic?nodes={self.nodes}&degree={self.degree}&classes=16&{rest}"

    def experiment(self, graph: str) -> Experiment:
        """GraphSAGE with LayerNorm by random nodes on ``graph``."""
        how: Any = {"hidden": self.hidden, "layers": self.layers, "norm": "ln", "seeds": (self.seed,)}
        return Experiment(graph, sampler=RandomNodes(self.parts), **how)


def bench_scale(shapes: Sequence[Shape], folder: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Make each graph on disk, and train epochs on it with and without the budget, by turns in a process of its own.

    Args:
        shapes: what to measure.
        folder: where the graphs are put for the while; the system's folder for temporary files when ``None``.
        say: called with what is being done.
    """
    if not _IO.exists():
        raise HandfulError("this is measured by what Linux tells of a process")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    place = Path(mkdtemp(prefix="handful-scale-", dir=folder))
    rows = []
    try:
        for shape in shapes:
            say(f"making {shape.nodes:,} nodes…")
            began = time.perf_counter()
            write(shape.graph, place / "graph", shape.memory)
            made = time.perf_counter() - began
            say(f"training on {shape.nodes:,} nodes…")
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                rows.append(process.submit(measure, shape, place / "graph", get_threads()).result())
            rows[-1]["making_seconds"] = made
            shutil.rmtree(place / "graph")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return {"threads": get_threads(), "graphs": rows}


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


def measure(shape: Shape, folder: Path, threads: int) -> dict[str, Any]:
    """Epochs with and without the budget by turns, in this process: seconds, CPU seconds, memory, bytes of the disk."""
    set_threads(threads)
    warm = shape.experiment(SMALL)
    for execution in (InMemory(), WithinBudget(memory=1 << 50)):
        loop = warm.begin(load(SMALL), shape.seed)
        loop.execution = execution
        train_epoch(loop)
    graph = shape.experiment(str(folder)).load(shape.seed)
    watch = Watch()
    loop = shape.experiment(str(folder)).begin(graph, shape.seed)
    loop.callbacks = (watch,)
    arrays = [one for one in (graph.indptr, graph.indices, graph.x, graph.y) if one is not None]
    size = sum(array.nbytes for array in arrays)
    # Without a budget the pages of the graph should stay in the system's cache, beside what an epoch makes of it.
    fits = 2 * size < (free_memory() or 0)
    ways = {**({"memory": InMemory()} if fits else {}), "budget": WithinBudget(memory=shape.memory)}
    seen: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for _ in range(shape.rounds):
        for way, execution in ways.items():
            loop.execution = execution
            seen[way].append(_epoch(loop, watch))
    found = {way: {name: median(one[name] for one in epochs) for name in epochs[0]} for way, epochs in seen.items()}
    for way, epochs in seen.items():
        found[way]["peak_bytes"] = max(one["peak_bytes"] for one in epochs)
    budget = found["budget"]
    return {
        **{name: getattr(shape, name) for name in Shape.__dataclass_fields__},
        "edges": graph.num_edges,
        "graph_bytes": size,
        "ways": found,
        "rate": found["memory"]["seconds"] / budget["seconds"] if "memory" in found else None,
        "rate_cpu": found["memory"]["cpu_seconds"] / budget["cpu_seconds"] if "memory" in found else None,
        "nanoseconds_per_edge": 1e9 * budget["reading edges"] / graph.num_edges,
    }


def _epoch(loop: Loop, watch: Watch) -> dict[str, float]:
    """One epoch: what it took, and the most anonymous memory that the process held."""
    release()
    peak, on = 0, True

    def look() -> None:
        nonlocal peak
        while on:
            peak = max(peak, anonymous())
            time.sleep(0.002)

    looking = Thread(target=look, daemon=True)
    looking.start()
    before, cpu, began = _io(), time.process_time(), time.perf_counter()
    watch.begin()
    train_epoch(loop)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    on = False
    looking.join()
    after = _io()
    traffic = {f"{name}_bytes": after[name] - before[name] for name in ("read", "written")}
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_bytes": peak, **traffic, **watch.seconds}


def _io() -> dict[str, int]:
    """The bytes that this process has had read from and written to disks."""
    told = {name: int(count) for name, count in re.findall(r"(\w+): (\d+)", _IO.read_text())}
    return {"read": told["read_bytes"], "written": told["write_bytes"]}


def shapes_of(nodes: Sequence[int], memory: int | str, **rest: Any) -> list[Shape]:
    """One shape for each number of nodes.

    >>> [shape.nodes for shape in shapes_of([10, 20], "1GiB", degree=2, features=1, train=0.1, parts=2, hidden=8,
    ...     layers=1, rounds=1, seed=0)]
    [10, 20]
    """
    return [Shape(nodes=count, memory=as_bytes(memory), **rest) for count in nodes]


def scale_table(payload: dict[str, Any]) -> Table:
    """The result for people."""
    head = ["nodes", "edges", "graph", "in memory, s", "budget, s", "rate", "CPU", "peak", "disk read", "ns/edge"]
    rows = []
    for row in payload["graphs"]:
        ways = row["ways"]
        inside = f"{ways['memory']['seconds']:.2f}" if "memory" in ways else "does not fit"
        rates = ["" if row[name] is None else f"{row[name]:.2f}" for name in ("rate", "rate_cpu")]
        budget = ways["budget"]
        texts = [f"{row['nodes']:,}", f"{row['edges']:,}", in_words(row["graph_bytes"]), inside]
        texts += [f"{budget['seconds']:.2f}", *rates, in_words(budget["peak_bytes"]), in_words(budget["read_bytes"])]
        rows.append([Cell(text) for text in (*texts, f"{row['nanoseconds_per_edge']:.1f}")])
    first = payload["graphs"][0]
    what = f"{first['layers']}×{first['hidden']} sage (ln), {first['parts']} parts, memory {in_words(first['memory'])}"
    return Table(f"Epochs of {what}, {payload['threads']} threads", head, rows)


def phases_table(payload: dict[str, Any]) -> Table:
    """Where the seconds of an epoch within the budget went."""
    rows = []
    for row in payload["graphs"]:
        seconds = [row["ways"]["budget"][phase] for phase in PHASES]
        rows.append([Cell(f"{row['nodes']:,}"), *(Cell(f"{one:.2f}") for one in seconds)])
    return Table("Seconds of an epoch within the budget", ["nodes", *PHASES], rows)
