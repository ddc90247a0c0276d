"""A plan: an estimate of the memory, disk space, network traffic and time that a training run needs. The plan is
computed from the size of the graph and a short calibration.

The calibration makes batches of a small synthetic graph with the same mean degree, features, classes and fraction of
training nodes, and scales the costs up in proportion to the nodes and edges. Two costs are timed at or near the true
size, since small data would fit into caches: a training step, on a batch of zeros; and the pass over the edges, which
looks up the part of a random node for every edge.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.batch import Batch
from handful.budget import anonymous, free_memory, show_size
from handful.datasets import load
from handful.datasets.shape import Shape, shape_of
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.graph import Graph
from handful.kernels.subgraph import cut
from handful.nn.backbone import parameter_count
from handful.samplers import FullGraph, RandomNodes
from handful.samplers.induced import part_dtype
from handful.samplers.random_node import dealing
from handful.shuffle.epoch import NEAR, part_bytes
from handful.shuffle.scratch import SLACK
from handful.training.cost import LiveBytes, StepCost, graph_bytes, resting_ram, small_batch, step_cost, units
from handful.training.execution import gather, trimmer, widened
from handful.training.first_hop import Known, know, structure
from handful.training.loop import Loop, evaluate

SMALL_NODES, SMALL_EDGES, SMALL_FEATURES = 200_000, 3_000_000, 40_000_000
"""The maximum size of the calibration graph: the maximum numbers of nodes, edges and feature values (nodes times
features).
"""
SMALLER = 0.25
"""The size of a second calibration graph, relative to the first one. The two graphs show how the time to make batches
grows with the size.
"""
MOST_CODES = 1 << 27
"""The maximum length of the array of parts when the pass over the edges is timed. Beyond this length, the time per edge
no longer grows.
"""
MOST_UNITS = 1_000_000
"""The maximum size of the batch on which a step is timed: the number of its nodes, rows and edges together."""
TIMED_EDGES = 1 << 22
TIMED_BYTES = 1 << 27
PARTS = (1, 2, 4, 8, 16, 32, 64)
"""The values of m for which a plan shows the memory, in addition to the requested m."""
ARITHMETIC = 10**9
"""For graphs with at least this many edges, a plan states that its figures are extrapolated."""


@dataclass(frozen=True)
class Part:
    """The costs of one part if the graph is split into m parts, scaled up from a part of the small graph."""

    m: int
    step_bytes: int
    """Memory of a training step: the activations, the gradients, and the features of the batch."""
    cut_bytes: int
    """Memory that is needed to renumber and trim the part."""
    needed: float
    """The number of nodes whose features an epoch reads, divided by the number of all nodes."""

    def budget(self, shape: Shape, base: int) -> int:
        """The smallest ``--memory`` for an out-of-core epoch."""
        held = base + max(self.step_bytes, shape.nodes + self.cut_bytes)  # the partition is freed before the first step
        return held * SLACK // (SLACK - 1)

    def scratch(self, shape: Shape, memory: int | None, base: int) -> int:
        """The size of the scratch files, in bytes. Scratch files hold data for later steps that do not fit into
        ``memory``.
        """
        waits = shape.edges // self.m * (shape.index_bytes + 4 * shape.weighted) + 8 * shape.nodes
        waits = max(waits, int(self.needed * (shape.feature_bytes + 8 * shape.nodes)))
        return 0 if memory is None else max(0, waits - max(0, memory - self.budget(shape, base)))

    def read(self, shape: Shape) -> int:
        """The number of bytes that an epoch reads from a saved graph: all edges, the needed features, and the small
        gaps between these features on disk.
        """
        touched = 1 - math.exp(-self.needed * NEAR / max(1, shape.row_bytes))
        return shape.topology_bytes + shape.nodes + int(shape.feature_bytes * touched)


@dataclass(frozen=True)
class Plan:
    """The costs of a training run. Times are in seconds, and ``None`` if they were not measured."""

    shape: Shape
    m: int
    parts: tuple[Part, ...]
    base: int
    """Anonymous memory of the process, without the graph and the batch."""
    resident: int
    """Resident memory of the process, including code and libraries, without the graph and the batch."""
    evaluation_bytes: int
    """Memory of an exact evaluation, including the layer outputs of all nodes."""
    available: int
    """Free memory of this machine, in bytes."""
    memory: int | None
    processes: int
    parameters: int
    epoch_seconds: float | None = None
    evaluation_seconds: float | None = None
    disk_rate: float | None = None
    """The read speed of the disk, in bytes per second."""
    reading_seconds: float = 0.0
    """The time per epoch for waiting on the disk, in seconds. An epoch reads scratch files, and it reads the graph from
    the disk if the graph does not fit into the system's cache.
    """

    @property
    def chosen(self) -> Part:
        """The costs of a part for the requested m."""
        return next(part for part in self.parts if part.m == self.m)

    def ram(self, part: Part) -> int:
        """Memory of the process if it trains with the graph in memory. The arrays of a saved graph are included: they
        are memory-mapped, and become resident when they are read.
        """
        shape = self.shape
        inside = shape.edges * shape.index_bytes // part.m if part.m > 1 else 0  # the edges inside a part
        training = shape.nodes + inside + max(part.step_bytes, part.cut_bytes)
        return self.resident + shape.total_bytes + max(training, self.evaluation_bytes)

    def fits(self, part: Part) -> str:
        """How training with parts of this size fits: ``in memory``, ``in the budget``, ``with --memory``, or ``no``."""
        if self.memory is not None:
            return "in the budget" if part.budget(self.shape, self.base) <= self.memory else "no"
        if self.ram(part) <= self.available:
            return "in memory"
        return "with --memory" if part.budget(self.shape, self.base) <= self.available else "no"

    @property
    def smallest(self) -> int | None:
        """The smallest m that fits; ``None`` if no m fits."""
        return next((part.m for part in sorted(self.parts, key=lambda p: p.m) if self.fits(part) != "no"), None)

    @property
    def sent_replicated(self) -> int:
        """The number of bytes that each rank sends per epoch if every rank has the whole graph: the gradients of every
        step.
        """
        return int(2 * 4 * self.parameters * self.m * (self.processes - 1) / self.processes)

    @property
    def sent_sharded(self) -> int:
        """The number of bytes that each rank sends per epoch if each rank has a shard of the graph: edges inside parts,
        feature rows that other ranks need, and gradients.
        """
        shape, share = self.shape, (self.processes - 1) / self.processes**2
        edges = shape.edges / self.m * (shape.index_bytes + 4 * shape.weighted)
        return int(share * (edges + self.chosen.needed * shape.nodes * (shape.row_bytes + 8))) + self.sent_replicated

    def to_json(self) -> dict[str, Any]:
        """Convert all figures to plain values, in bytes and seconds."""
        of_graph = ("name", "nodes", "edges", "features", "outputs", "train", "judged", "known")
        same: tuple[str, ...] = ("memory", "available", "processes", "parameters", "sent_replicated", "sent_sharded")
        same += ("epoch_seconds", "reading_seconds", "evaluation_seconds")
        return {
            "graph": {name: getattr(self.shape, name) for name in of_graph} | {"bytes": self.shape.total_bytes},
            "parts": self.m,
            **{name: getattr(self, name) for name in same},
            "disk_bytes_per_second": self.disk_rate,
            "smallest_parts": self.smallest,
            "arithmetic": self.shape.edges >= ARITHMETIC,
            "by_parts": [
                {
                    "parts": part.m,
                    "step_bytes": part.step_bytes,
                    "ram_bytes": self.ram(part),
                    "least_memory": part.budget(self.shape, self.base),
                    "scratch_bytes": part.scratch(self.shape, self.memory, self.base),
                    "read_bytes": part.read(self.shape),
                    "fits": self.fits(part),
                }
                for part in self.parts
            ],
        }


def plan(experiment: Experiment, memory: int | None = None, processes: int = 1, timed: bool = True) -> Plan:
    """The cost of running ``experiment`` on this machine.

    Args:
        experiment: an experiment with the sampler ``rns`` or ``full``. The graph is loaded only if its size cannot be
            determined without loading it.
        memory: a budget of anonymous memory, as for ``fit``.
        processes: the number of processes that train together.
        timed: whether to measure times, which takes a few seconds.

    >>> large = "synthetic?nodes=100000000&degree=16&features=4&train=0.01"
    >>> found = plan(Experiment(large, hidden=8, layers=2), timed=False)
    >>> found.chosen.m, found.shape.edges
    (4, 1600000000)
    """
    if not isinstance(experiment.sampler, RandomNodes | FullGraph):
        raise HandfulError(f"a plan is for the samplers rns and full, not {experiment.sampler.name}")
    if isinstance(experiment.sampler, RandomNodes) and experiment.sampler.fraction is not None:
        raise HandfulError("a plan is for parts: leave fraction out")
    shape = shape_of(experiment.graph, experiment.split, experiment.root)
    if not shape.features:
        raise HandfulError(f"{shape.name} has no features to train on: give it some")
    m = experiment.sampler.parts if isinstance(experiment.sampler, RandomNodes) else 1
    small = small_graph(shape)
    scale = shape.nodes / small.num_nodes
    here = experiment.with_(graph="synthetic", split=None, task=None, metric=None, positive=None, class_weight="none")
    loop = here.begin(small, seed=here.seeds[0])
    wide = widened(small, loop.execution.known)
    held, shape = graph_bytes(wide), replace(shape, hops=wide.num_features // small.num_features - 1)
    with LiveBytes() as counted:
        evaluate(loop)
    wanted = sorted({m, *(PARTS if isinstance(experiment.sampler, RandomNodes) else ())})
    parts = tuple(part_of(loop, shape, k, scale) for k in wanted if k <= small.num_nodes)
    base, resident, evaluation = anonymous() - held, resting_ram() - held, int(scale * counted.peak)
    free, parameters = free_memory() or 1 << 62, parameter_count(loop.model)
    result = Plan(shape, m, parts, base, resident, evaluation, free, memory, processes, parameters)
    return with_seconds(result, loop, scale) if timed else result


def fitting_parts(experiment: Experiment, memory: int) -> Experiment:
    """``experiment`` with the smallest number of parts m that fits into the budget. The candidates are ``PARTS`` and
    the experiment's own m.

    Raises:
        HandfulError: no m fits, or the sampler is not ``rns``.
    """
    sampler = dealing(experiment.sampler)
    result = plan(experiment, memory, timed=False)
    if result.smallest is None:
        least = min(part.budget(result.shape, result.base) for part in result.parts)
        raise HandfulError(f"no m up to {PARTS[-1]} fits into {show_size(memory)}: give at least {show_size(least)}")
    return experiment.with_(sampler=replace(sampler, parts=result.smallest))


def small_graph(shape: Shape, share: float = 1.0) -> Graph:
    """A small synthetic graph with the proportions of ``shape``, to calibrate a plan. Its number of nodes is
    ``share`` times the number of nodes of ``shape``, but at most ``share`` times ``SMALL_NODES``.
    """
    degree = max(1.0, shape.edges / shape.nodes)
    most = min(SMALL_NODES, int(SMALL_EDGES / degree), SMALL_FEATURES // max(1, shape.features))
    most = int(share * min(most, shape.nodes))
    classes = max(2, min(shape.outputs, most // 20))
    n = max(2 * classes, min(shape.nodes, max(most, 2000)))
    degree = min(degree, n / classes / 2)
    half = "&half=true" if shape.element == 2 else ""
    train = min(1.0, max(shape.train / shape.nodes, 2 / n))
    val = min(1 - train, 0.5 * shape.judged / shape.nodes)
    name = f"synthetic?nodes={n}&degree={degree:.4f}&features={shape.features}&classes={classes}{half}"
    return load(f"{name}&train={train:.6f}&val={val:.6f}")


def part_of(loop: Loop, shape: Shape, m: int, scale: float) -> Part:
    """The costs of one part if the graph is split into ``m`` parts."""
    known = loop.execution.known
    graph = widened(loop.graph, known)
    sampler = replace(loop.sampler, parts=m) if isinstance(loop.sampler, RandomNodes) and m > 1 else FullGraph()
    needed, looked, sizes = 0, 0, []
    trimmed, width = trimmer(loop.model, loop.settings.trim, known), None if known is None else known.width
    cost: StepCost | None = None
    for looked, sample in enumerate(sampler.sample(graph, seed=0, epoch=0), start=1):
        nodes, edges = sample.num_nodes, sample.layers[0].num_edges
        sample = trimmed(sample)
        needed += sample.num_nodes
        sample = structure(sample, known)
        if cost is None and len(sample.targets):
            cost = step_cost(loop.model, graph, sample, loop.loss_on, scale, width)
        if cost is not None:
            whole = part_bytes(int(scale * nodes), int(scale * edges), shape.nodes, shape.weighted)
            sizes.append((cost(sample, scale), whole))
        if len(sizes) == 2:  # parts are alike
            needed = int(needed / looked * m)
            break
    step, whole = map(max, zip(*sizes, strict=True)) if sizes else (0, 0)
    return Part(m, step, whole, min(1.0 * m, needed / graph.num_nodes))


# -- seconds ----------------------------------------------------------------------------------------------------------


def with_seconds(untimed: Plan, loop: Loop, scale: float) -> Plan:
    """The plan ``untimed`` with the times of an epoch and of an evaluation added.

    The time of an epoch has three parts: the pass over the edges; the time to make batches, scaled up from the small
    graph; and the training steps. One step is timed on a batch of the true size, or of size ``MOST_UNITS`` if that is
    smaller. The batch of the small graph itself would stay in the cache, and the measured time would be too short.
    """
    shape, graph, known = untimed.shape, loop.graph, loop.execution.known

    def batches(graph: Graph, known: Known | None) -> list[Batch]:
        return list(gather(graph, loop.sampler.sample(graph, seed=0, epoch=0), loop.model, loop.settings.trim, known))

    def making(graph: Graph, known: Known | None) -> float:
        cutting = cut_seconds(graph.num_nodes, untimed.m) * graph.num_edges if passes else 0.0
        return max(0.0, fastest(lambda: batches(graph, known)) - cutting)

    passes = untimed.m > 1 or untimed.memory is not None
    rate = cut_seconds(shape.nodes, untimed.m) if passes else 0.0
    made, smaller = making(graph, known), small_graph(shape, SMALLER)
    if graph.num_nodes > smaller.num_nodes:  # the fixed time of a batch does not grow
        its_own = None if known is None else know(smaller, loop.model, loop.settings)
        each = max(0.0, made - making(smaller, its_own)) / (graph.num_nodes - smaller.num_nodes)
        made += each * (shape.nodes - graph.num_nodes)
    all_batches = batches(graph, known)
    typical = next((one for one in all_batches if len(one.targets)), all_batches[0])
    grown = min(scale, max(1.0, MOST_UNITS / units(typical)))
    batch = small_batch(graph, typical, grown, typical.x.shape[1])
    step = fastest(lambda: loop.loss_on(loop.model, batch).backward())  # type: ignore[no-untyped-call]
    loop.model.zero_grad(set_to_none=True)
    seconds = rate * shape.edges + made + len(all_batches) * step * scale / grown
    judged = scale * fastest(lambda: evaluate(loop))
    disk, reading = None, 0.0
    if untimed.memory is not None or shape.folder is not None:
        disk = disk_rate(shape.folder)
        if shape.total_bytes > untimed.available - (untimed.memory or 0):  # else the files stay in the system's cache
            features = untimed.chosen.read(shape) - shape.topology_bytes
            reading = max(0.0, shape.topology_bytes / disk - rate * shape.edges) + features / disk
        # Data beyond the budget are written and read again.
        reading += 2 * untimed.chosen.scratch(shape, untimed.memory, untimed.base) / disk
    epoch = (seconds + reading) / untimed.processes
    return replace(untimed, epoch_seconds=epoch, evaluation_seconds=judged, disk_rate=disk, reading_seconds=reading)


def fastest(work: Callable[[], Any]) -> float:
    """The time of the fastest of a few runs, in seconds; the first run is a warm-up and does not count."""
    return min(timeit.repeat(work, number=1, repeat=3)[1:])


def cut_seconds(nodes: int, m: int) -> float:
    """The time per edge, in seconds, of the pass that finds the edges inside parts. The graph has ``nodes`` nodes and
    ``m`` parts.
    """
    n, rng = min(nodes, MOST_CODES), np.random.default_rng(0)
    part = rng.integers(0, m, n, dtype=part_dtype(m))
    indices = rng.integers(0, n, TIMED_EDGES, dtype=np.int32)
    rows = min(n, TIMED_EDGES // 16)
    indptr = np.arange(rows + 1, dtype=np.int64) * TIMED_EDGES // rows
    return fastest(lambda: cut(0, indptr, indices, part, m)) / TIMED_EDGES


def disk_rate(folder: Path | None) -> float:
    """Measure the sequential read speed, in bytes per second, on the largest file of a saved graph. If there is no
    saved graph or its files are small, measure the speed on a temporary file.
    """
    files = [] if folder is None else sorted(folder.glob("*.npy"), key=lambda file: file.stat().st_size)
    if files and files[-1].stat().st_size >= TIMED_BYTES // 4:
        return _read_rate(files[-1])
    with tempfile.NamedTemporaryFile() as made:
        made.write(os.urandom(1 << 20) * (TIMED_BYTES >> 20))
        made.flush()
        os.fsync(made.fileno())
        return _read_rate(Path(made.name))


def _read_rate(path: Path) -> float:
    """The speed, in bytes per second, at which a memory-mapped file is read in blocks, as in an epoch."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, TIMED_BYTES, os.POSIX_FADV_DONTNEED)
    mapped = np.memmap(path, np.uint8, "r")[:TIMED_BYTES]
    began = time.perf_counter()
    for lo in range(0, len(mapped), 1 << 22):
        np.array(mapped[lo : lo + (1 << 22)])
    return len(mapped) / max(1e-9, time.perf_counter() - began)
