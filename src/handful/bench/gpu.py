"""A training epoch on a GPU: PyG's ways and ours by turns in one process, against its matrix products alone.

For people who have one. Without a GPU the same is run at toy size, where Triton's interpreter stands for it: that shows
that the commands work, and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch

from handful.bench.epoch import LABELS, floor_epochs, floor_of, handful_epochs, timed
from handful.bench.pyg import layer_widths, pyg_epoch
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Cell, Table
from handful.kernels.dispatch import backend, has_triton, use
from handful.samplers import RandomNodes
from handful.training.record import environment

GRAPH = "synthetic?nodes=245000&degree=50&features=100&classes=47&train=0.08&val=0.02"
"""A tenth of the nodes of ogbn-products, with its degree, features and classes."""
TOY = "synthetic?nodes=40&degree=4&features=8&classes=3"
TOY_OPTIONS = {"hidden": 8, "layers": 2}
MEANINGLESS = (
    "These numbers have no meaning: there is no GPU here, and Triton's kernels were run on the CPU by its interpreter, "
    "at toy size."
)


def device_for_bench(asked: str | None) -> str:
    """The device that was asked for, else ``cuda`` where there is one, else ``cpu``, on which Triton is interpreted.

    Raises:
        HandfulError: there is no Triton, or its kernels were loaded without the interpreter.
    """
    device = asked or ("cuda" if torch.cuda.is_available() else "cpu")
    if not has_triton():
        raise HandfulError("bench gpu runs Triton's kernels, and there is no Triton: pip install triton")
    if torch.device(device).type == "cpu":
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            raise HandfulError("Triton was loaded without its interpreter: set TRITON_INTERPRET=1, and start again")
        os.environ["TRITON_INTERPRET"] = "1"  # Triton looks at it when it is imported
    return device


def bench_gpu(experiment: Experiment, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds per epoch of every way, and the memory that it takes on the device.

    Args:
        experiment: graph, model, parts, device and, as its first seed, the seed of weights, parts and dropout.
        rounds: how often each way is measured; the median counts.
        say: called with what is being done.
    """
    assert isinstance(experiment.sampler, RandomNodes)
    seed, parts, device = experiment.seeds[0], experiment.sampler.parts, torch.device(experiment.device)
    toy = device.type == "cpu"
    graph = experiment.load(seed)
    epochs: dict[str, Callable[[], Any]] = {
        "pyg_edge_index": pyg_epoch(experiment, graph, parts),
        "pyg_csr": pyg_epoch(experiment, graph, parts, csr=True),
        **handful_epochs(experiment, graph, seed),
        **floor_epochs(layer_widths(experiment, graph), -(-graph.num_nodes // parts), parts, device),
    }
    seconds: dict[str, list[float]] = {name: [] for name in epochs}
    peaks: dict[str, list[int]] = {name: [] for name in epochs}
    for k in range(rounds + 1):  # the first round warms up, and compiles
        for name, epoch in epochs.items():
            say(f"round {k} of {rounds}: {LABELS[name]}…")
            with use("triton") if toy else nullcontext():
                took, peak = measured(epoch, device)
            if k:
                seconds[name].append(took)
                peaks[name] += [] if peak is None else [peak]
    arrays = (graph.indptr, graph.indices, graph.x, graph.y, graph.train_mask)
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "parts": parts,
        "rounds": rounds,
        "device": "Triton's interpreter" if toy else device_name(device),
        "kernels": "triton" if toy else backend(device),
        "environment": environment(),
        "has_meaning": not toy,
        "graph_bytes": sum(t.nbytes for t in arrays if t is not None),
        "seconds": {name: median(times) for name, times in seconds.items()},
        "peak_bytes": {name: max(found) if found else None for name, found in peaks.items()},
    }


def measured(epoch: Callable[[], Any], device: torch.device) -> tuple[float, int | None]:
    """The seconds of an epoch, and the bytes that it takes on the device beyond what was there; ``None`` on the CPU."""
    if device.type != "cuda":
        return timed(epoch, device), None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    took = timed(epoch, device)
    return took, torch.cuda.max_memory_allocated(device) - before


def device_name(device: torch.device) -> str:
    """What the maker calls it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def gpu_table(result: dict[str, Any]) -> Table:
    """The result for people."""
    seconds, peaks, rows = result["seconds"], result["peak_bytes"], []
    for name, took in seconds.items():
        peak = "–" if peaks[name] is None else f"{peaks[name] / 2**30:.2f}"
        ratios = f"{took / floor_of(seconds, name):.2f}", f"{seconds['pyg_csr'] / took:.2f}"
        rows.append([Cell(text) for text in (LABELS[name], f"{took:.4f}", *ratios, peak)])
    what = f"{result['graph']}, {result['nodes']:,} nodes, {result['edges']:,} edges, {result['parts']} parts"
    title = f"A training epoch on {result['device']}: {what}; median of {result['rounds']}"
    return Table(title, ["", "seconds", "over its floor", "PyG CSR over it", "GiB beyond what stays"], rows)


def notes(result: dict[str, Any]) -> list[str]:
    """What goes with the table, to be pasted with it."""
    made = ", ".join(f"{name} {value}" for name, value in result["environment"].items())
    held = (
        f"handful's graph is on the device: {result['graph_bytes'] / 2**30:.2f} GiB more. PyG's loader is on the CPU."
    )
    return [f"{held} Kernels: {result['kernels']}. {made}", *([] if result["has_meaning"] else [MEANINGLESS])]
