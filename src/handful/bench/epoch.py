"""The time of a training epoch in PyG and in handful, and the time of the matrix products of handful's epoch alone. The
measurements alternate.

All epochs train the same network on parts of the same graph: by default GraphSAGE with BatchNorm, residual connections,
dropout and Adam. The floor is the time of the dense matrix products in handful's epoch, forward and backward. Each
product uses its fastest layout on the device.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from handful.bench.harness import Say, measure_by_turns, seconds_of
from handful.bench.pyg import layer_widths, pyg_epoch
from handful.experiment import VARIANTS, Experiment
from handful.finding import Table, text_table
from handful.graph import Graph
from handful.kernels.dispatch import backend
from handful.kernels.linear import native_bfloat16
from handful.kernels.threads import get_threads
from handful.nn.network import usable_device
from handful.samplers.random_node import dealing
from handful.training.cost import graph_bytes
from handful.training.loop import train_epoch
from handful.training.record import environment
from handful.vocabulary import BENCHED

Epoch = Callable[[], Any]
"""A function that runs an epoch."""
PIECES: dict[str, tuple[str, ...]] = {
    "aggregation": ("Product", "_Convolution", "sparse", "scatter", "index_select", "index_add", "gather"),
    "products": ("mm", "linear"),
    "norm, ReLU, dropout": ("NormAct", "_Act", "norm", "relu", "threshold", "dropout", "bernoulli"),
    "optimiser": ("Optimizer", "adam", "addcdiv", "addcmul", "lerp", "sqrt"),
}
"""The pieces of an epoch, each with substrings of operation names. A profiled operation belongs to the first piece with
a matching substring.
"""
GRAPH = "synthetic?nodes=245000&degree=50&features=100&classes=47&train=0.08&val=0.02"
"""A synthetic graph like ogbn-products, with a tenth of the nodes of ogbn-products."""


def bench_epoch(experiment: Experiment, rounds: int, say: Say) -> dict[str, Any]:
    """Measure the time per epoch of every variant (PyG, handful, and the floors), and the ratios of these times. On a
    CPU, also measure the pieces of each epoch. On a GPU, also measure the peak memory.

    Args:
        experiment: the graph, model, parts and device; its first seed determines weights, parts and dropout.
        rounds: the number of measurements of each variant; the result is the median.
        say: called with the name of the current task.
    """
    device, parts = usable_device(experiment.device), dealing(experiment.sampler).parts
    graph = experiment.load(experiment.seeds[0])
    epochs = {
        "pyg_edge_index": pyg_epoch(experiment, graph),
        "pyg_csr": pyg_epoch(experiment, graph, csr=True),
        **handful_epochs(experiment, graph),
        **floor_epochs(layer_widths(experiment, graph), rows_of_layers(experiment, graph), parts, device),
    }
    pieces, peaks = {}, {}
    for name, epoch in epochs.items():
        say(f"warming up: {BENCHED[name]}…")
        epoch()
        if device.type == "cuda":
            peaks[name] = peak_bytes(epoch, device)
        else:
            pieces[name] = profile(epoch)
    turns = measure_by_turns({name: partial(seconds_of, epochs[name], device) for name in epochs}, rounds, say)
    ours = [name for name in epochs if name.startswith("handful")]
    over_floor = {f"{name}_over_floor": turns.ratio(name, floor_of(name, epochs)) for name in ours}
    over_ours = {f"{way}_over_{name}": turns.ratio(way, name) for way in ("pyg_edge_index", "pyg_csr") for name in ours}
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "graph_bytes": graph_bytes(graph),
        "parts": parts,
        "threads": get_threads(),
        "rounds": rounds,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "kernels": backend(device),
        "environment": environment(),
        "seconds": turns.medians,
        "ratio": over_floor | over_ours,
        "pieces": pieces,
        "peak_bytes": peaks,
    }


# -- the ways to train ------------------------------------------------------------------------------------------------


def handful_epochs(experiment: Experiment, graph: Graph) -> dict[str, Epoch]:
    """Functions, by name, that each run one epoch of a variant of handful's training loop, without evaluation."""
    ways: dict[str, dict[str, Any]] = {"fp32": {}, "bf16": {"precision": "bf16"}}
    if experiment.make_model(graph, 0).hop is not None:
        ways |= {"exact": {"first_hop": "exact"}, "mean_field": VARIANTS["rns-mean-field"]}
    loops = {name: experiment.with_(**how).begin(graph, experiment.seeds[0]) for name, how in ways.items()}
    return {f"handful_{name}": partial(train_epoch, loop) for name, loop in loops.items()}


def rows_of_layers(experiment: Experiment, graph: Graph) -> list[int]:
    """The number of rows that each layer computes in a part. The last layer computes the training nodes, and the other
    layers compute all nodes. The last layer also computes all nodes if an output projection follows it.
    """
    parts = dealing(experiment.sampler).parts
    nodes, targets = (-(-count // parts) for count in (graph.num_nodes, len(graph.train_nodes)))
    layers = int(experiment.options["layers"])
    return [nodes] * (layers - 1) + [nodes if experiment.options.get("output_projection") else targets]


def floor_epochs(widths: list[int], rows_of: list[int], parts: int, device: torch.device) -> dict[str, Epoch]:
    """Functions, by name, that each compute only the dense products of an epoch. Each product uses its fastest layout
    on ``device``, and has its own buffers.

    A layer has two products of the same shape: one for the neighbours and one for the node itself. The two products can
    run one after the other or as one product of twice the width, with each operand in row or column order. The fastest
    layout depends on the device, so all layouts are tried first. No training epoch can be faster than these products.
    On a CPU without bfloat16 instructions, there is no separate floor for bfloat16: handful multiplies in float32, and
    torch is much slower.
    """

    def way(dtype: torch.dtype) -> Epoch:
        products: list[Callable[[], object]] = []
        for i, (rows, (below, above)) in enumerate(zip(rows_of, pairwise(widths), strict=True)):
            products.append(fastest(rows, below, above, dtype, device))  # h W
            products.append(fastest(below, rows, above, dtype, device))  # the gradient of W: hᵀ g
            if i:  # the features need no gradient
                products.append(fastest(rows, above, below, dtype, device))  # the gradient of h: g Wᵀ

        @torch.no_grad()
        def epoch() -> None:
            for _ in range(parts):
                for product in products:
                    product()

        return epoch

    has_bfloat16 = device.type != "cpu" or native_bfloat16()
    return {"floor_fp32": way(torch.float32), **({"floor_bf16": way(torch.bfloat16)} if has_bfloat16 else {})}


def floor_of(name: str, ways: dict[str, Any]) -> str:
    """The name of the floor with which the variant ``name`` is compared; ``ways`` lists all measured variants.

    >>> floor_of("handful_bf16", {"floor_fp32": 2.0})
    'floor_fp32'
    """
    return "floor_bf16" if name.endswith("bf16") and "floor_bf16" in ways else "floor_fp32"


@torch.no_grad()
def fastest(n: int, k: int, m: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """A function that computes two products ``(n, k) · (k, m)`` in their fastest layout and writes them to existing
    buffers.
    """

    def both_orders(a: int, b: int) -> list[Tensor]:
        return [torch.randn(a, b, device=device).to(dtype), torch.randn(b, a, device=device).to(dtype).T]

    def repeat(times: int, left: Tensor, right: Tensor, out: Tensor) -> None:
        for _ in range(times):
            torch.mm(left, right, out=out)

    ways: dict[Callable[[], object], float] = {}
    for times, rows, inner, columns in ((2, n, k, m), (1, n, k, 2 * m), (1, 2 * n, k, m), (1, n, 2 * k, m)):
        out = torch.empty(rows, columns, dtype=dtype, device=device)
        for left in both_orders(rows, inner):
            for right in both_orders(inner, columns):
                product = partial(repeat, times, left, right, out)
                product()
                ways[product] = min(seconds_of(product, device) for _ in range(3))
    return min(ways, key=ways.__getitem__)


# -- where time and memory go -----------------------------------------------------------------------------------------


def profile(epoch: Epoch) -> dict[str, float]:
    """The fraction of an epoch's time that each of ``PIECES`` takes in the main thread; ``other`` is the remainder."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler writes to stderr
    from torch import profiler

    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as record:
        wall = seconds_of(epoch)
    total: dict[str, float] = defaultdict(float)
    for event in record.key_averages():
        piece = next((piece for piece, names in PIECES.items() if any(name in event.key for name in names)), "")
        total[piece] += event.self_cpu_time_total / 1e6
    shares = {piece: total[piece] / wall for piece in PIECES}
    return {**shares, "other": max(0.0, 1.0 - sum(shares.values()))}


def peak_bytes(epoch: Epoch, device: torch.device) -> int:
    """The peak of the allocated GPU memory during an epoch, minus the memory before the epoch, in bytes."""
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    epoch()
    return torch.cuda.max_memory_allocated(device) - before


def epoch_table(result: dict[str, Any]) -> Table:
    """Make a table of the result. The table shows the pieces of an epoch on a CPU, and the peak memory on a GPU."""
    seconds, pieces, peaks = result["seconds"], result["pieces"], result["peak_bytes"]
    more = list(pieces["handful_fp32"]) if pieces else ["GiB beyond what stays"]
    rows = []
    for name, took in seconds.items():
        times = (f"{took:.4f}", f"{took / seconds[floor_of(name, seconds)]:.2f}", f"{seconds['pyg_csr'] / took:.2f}")
        last = [f"{100 * share:.0f} %" for share in pieces[name].values()] if pieces else [f"{peaks[name] / 2**30:.2f}"]
        rows.append([BENCHED[name], *times, *last])
    what = f"{result['graph']}: {result['nodes']:,} nodes, {result['edges']:,} edges, {result['parts']} parts"
    title = f"A training epoch on {result['device']}, {result['threads']} threads, {what}; median of {result['rounds']}"
    return text_table(title, ["", "seconds", "over its floor", "PyG CSR over it", *more], rows)
