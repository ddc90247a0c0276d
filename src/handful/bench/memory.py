"""The peak memory and the time of a training epoch, each way in a process of its own.

What is reported is the largest resident size above that of the loaded graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from handful.bench.pyg import pyg_epoch
from handful.datasets import load
from handful.errors import HandfulError, unknown
from handful.experiment import Experiment
from handful.finding import Cell, Table
from handful.graph import Graph
from handful.kernels.threads import get_threads, set_threads
from handful.samplers import FullGraph, RandomNodes
from handful.training.cost import peak_ram, resting_ram
from handful.training.loop import train_epoch

WAYS = {
    "pyg_full": "PyG, full graph",
    "pyg_rns": "PyG, random parts",
    "handful_full": "handful, full graph",
    "handful_rns": "handful, random parts",
    "handful_rns_untrimmed": "handful, random parts, untrimmed",
    "handful_rns_bf16": "handful, random parts, bf16",
}
GRAPH = "synthetic?nodes=245000&degree=50&features=100&classes=47&train=0.08&val=0.02"
SMALL = "synthetic?nodes=2000&degree=5&features=8&classes=3"
"""A graph on which each way is run first, so that compiling is not measured."""


def bench_memory(
    experiment: Experiment, ways: Sequence[str], pyg_steps: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Peak memory of full-graph and random-part epochs, PyG's and ours.

    Args:
        experiment: graph, model (``sage`` or ``gat``), parts and, as its first seed, the seed.
        ways: some of ``WAYS``.
        pyg_steps: how many parts PyG trains on; the rest is taken to last as long. 0 for all.
        say: called with what is being done.
    """
    assert isinstance(experiment.sampler, RandomNodes)
    for way in ways:
        if way not in WAYS:
            raise HandfulError(unknown("way", way, WAYS))
    options = experiment.options
    for option, value, known in (("model", experiment.model, ("sage", "gat")), ("norm", options["norm"], ("bn", "ln"))):
        if value not in known:
            raise HandfulError(unknown(option, value, known))
    parts, threads = experiment.sampler.parts, get_threads()
    results: dict[str, dict[str, float] | None] = {}
    for way in ways:
        say(f"{WAYS[way]}…")
        results[way] = in_own_process(way, experiment, pyg_steps or parts, threads)
    shape = {
        "graph": experiment.graph,
        "parts": parts,
        "model": experiment.model,
        **{name: options[name] for name in ("hidden", "layers", "norm", "dropout")},
        "pyg_steps": pyg_steps or parts,
        "threads": threads,
        "seed": experiment.seeds[0],
    }
    return {"shape": shape, "ways": results}


def in_own_process(way: str, experiment: Experiment, pyg_steps: int, threads: int) -> dict[str, float] | None:
    """Seconds per epoch and bytes above the graph; ``None`` if the system ended the process for lack of memory."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(way, experiment, pyg_steps, threads, theirs), name=f"bench-{way}")
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = None
    process.join()
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[no-any-return]


def _child(way: str, experiment: Experiment, pyg_steps: int, threads: int, answer: Connection) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # if memory runs out, this is the process to end
    except OSError:
        pass
    try:
        answer.send(measure_epoch(way, experiment, pyg_steps, threads))
    except HandfulError as error:
        answer.send(error)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        answer.send(None)


def measure_epoch(way: str, experiment: Experiment, pyg_steps: int, threads: int) -> dict[str, float]:
    """Train one epoch in this process."""
    set_threads(threads)
    seed = experiment.seeds[0]
    one_epoch(load(SMALL), way, experiment, pyg_steps)()
    graph = experiment.load(seed)
    epoch = one_epoch(graph, way, experiment, pyg_steps)
    before, start = resting_ram(), perf_counter()
    share = epoch()
    seconds = (perf_counter() - start) / share
    return {
        "seconds": seconds,
        "peak_rss_bytes": peak_ram(),
        "graph_rss_bytes": before,
        "above_graph_bytes": peak_ram() - before,
    }


def one_epoch(graph: Graph, way: str, experiment: Experiment, pyg_steps: int) -> Callable[[], float]:
    """One epoch of a way to train; the share of an epoch that it was."""
    assert isinstance(experiment.sampler, RandomNodes)
    if way.startswith("pyg"):
        return pyg_epoch(experiment, graph, 1 if "full" in way else experiment.sampler.parts, most=pyg_steps)
    run = experiment.with_(
        sampler=FullGraph() if "full" in way else experiment.sampler,
        precision="bf16" if way.endswith("bf16") else "fp32",
        trim=not way.endswith("untrimmed"),
    )
    loop = run.begin(graph, experiment.seeds[0])

    def epoch() -> float:
        train_epoch(loop)
        return 1.0

    return epoch


def memory_table(payload: dict[str, Any]) -> Table:
    """The result for people."""
    shape = payload["shape"]
    what = f"{shape['layers']}×{shape['hidden']} {shape['model']} ({shape['norm']})"
    rows = []
    for way, row in payload["ways"].items():
        if row is None:
            rows.append([Cell(WAYS[way]), Cell("does not fit"), Cell(""), Cell("")])
            continue
        sizes = (f"{row[key] / 2**30:.2f}" for key in ("above_graph_bytes", "graph_rss_bytes"))
        rows.append([Cell(text) for text in (WAYS[way], f"{row['seconds']:.2f}", *sizes)])
    title = f"An epoch of {what}, {shape['parts']} parts, {shape['threads']} threads, on {shape['graph']}"
    return Table(title, ["", "seconds", "above the graph, GiB", "the graph, GiB"], rows)
