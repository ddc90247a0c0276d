"""A training epoch: PyG's ways and ours by turns in one process, against its matrix products alone.

All train the same GraphSAGE (BatchNorm, residual, dropout, Adam) on parts of the same graph. The floor is the dense
products of our epoch, forward and backward, in the fastest way that the CPU has for each, and nothing else: no
aggregation, norm, dropout, loss, sampling or optimiser.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from handful.bench.pyg import layer_widths, pyg_epoch
from handful.experiment import Experiment
from handful.finding import Cell, Table
from handful.graph import Graph
from handful.kernels.linear import native_bfloat16
from handful.kernels.threads import get_threads
from handful.samplers import RandomNodes
from handful.training.loop import train_epoch

LABELS = {
    "pyg_edge_index": "PyG, edge_index",
    "pyg_csr": "PyG, CSR",
    "handful_fp32": "handful fp32",
    "handful_bf16": "handful bf16",
    "floor_fp32": "floor fp32",
    "floor_bf16": "floor bf16",
}
PIECES: dict[str, tuple[str, ...]] = {
    "aggregation": (
        "_Product",
        "_TransposedProduct",
        "_Convolution",
        "sparse",
        "scatter",
        "index_select",
        "index_add",
        "gather",
    ),
    "products": ("mm", "linear"),
    "norm, ReLU, dropout": ("NormAct", "_Act", "norm", "relu", "threshold", "dropout", "bernoulli"),
    "optimiser": ("Optimizer", "adam", "addcdiv", "addcmul", "lerp", "sqrt"),
}
"""What a profiled operation belongs to: the first piece that has a part of its name."""


def bench_epoch(experiment: Experiment, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds per epoch of every way, their ratios, and the pieces of each.

    Args:
        experiment: graph, model, parts and, as its first seed, the seed of weights, parts and dropout.
        rounds: how often each way is measured; the median counts.
        say: called with what is being done.
    """
    assert isinstance(experiment.sampler, RandomNodes)
    seed, parts = experiment.seeds[0], experiment.sampler.parts
    graph = experiment.load(seed)
    epochs: dict[str, Callable[[], Any]] = {
        "pyg_edge_index": pyg_epoch(experiment, graph, parts),
        "pyg_csr": pyg_epoch(experiment, graph, parts, csr=True),
        **handful_epochs(experiment, graph, seed),
        **floor_epochs(layer_widths(experiment, graph), -(-graph.num_nodes // parts), parts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in epochs}
    pieces: dict[str, dict[str, float]] = {}
    for k in range(rounds + 1):  # the first round warms up and tells the pieces
        for name, epoch in epochs.items():
            say(f"round {k} of {rounds}: {LABELS[name]}…")
            if k == 0:
                epoch()
                pieces[name] = profile(epoch)
                continue
            start = perf_counter()
            epoch()
            seconds[name].append(perf_counter() - start)
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "parts": parts,
        "threads": get_threads(),
        "rounds": rounds,
        "seconds": middle,
        "ratio": {
            **{
                f"{ours}_over_floor": middle[ours] / floor_of(middle, ours) for ours in ("handful_fp32", "handful_bf16")
            },
            **{
                f"{theirs}_over_{ours}": middle[theirs] / middle[ours]
                for theirs in ("pyg_edge_index", "pyg_csr")
                for ours in ("handful_fp32", "handful_bf16")
            },
        },
        "pieces": pieces,
    }


# -- the ways to train ------------------------------------------------------------------------------------------------


def handful_epochs(experiment: Experiment, graph: Graph, seed: int) -> dict[str, Callable[[], None]]:
    """The training loop itself, without evaluation."""

    def way(precision: str) -> Callable[[], None]:
        loop = experiment.with_(precision=precision).begin(graph, seed)
        return lambda: train_epoch(loop)

    return {f"handful_{precision}": way(precision) for precision in ("fp32", "bf16")}


def floor_epochs(
    widths: list[int],
    rows: int,
    parts: int,
    device: torch.device = torch.device("cpu"),  # noqa: B008  (frozen)
) -> dict[str, Callable[[], None]]:
    """The dense products of an epoch, each in the fastest way that ``device`` has for it, on buffers of their own.

    A layer has two products of one shape, of the neighbours and of the node itself. They may be done one after the
    other or as one of twice the width, with either operand stored in either order: which is fastest differs between
    devices, so that all are tried first. No epoch that trains can be faster than this. A CPU that does not multiply
    bfloat16 has no floor of its own for it: handful multiplies in float32 there, and torch is slower by far.
    """

    def way(dtype: torch.dtype) -> Callable[[], None]:
        products: list[Callable[[], object]] = []
        for i, (below, above) in enumerate(pairwise(widths)):
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

    found = {"floor_fp32": way(torch.float32)}
    if device.type != "cpu" or native_bfloat16():
        found["floor_bf16"] = way(torch.bfloat16)
    return found


def floor_of(seconds: dict[str, float], name: str) -> float:
    """The seconds of the floor that the way ``name`` stands on.

    >>> floor_of({"floor_fp32": 2.0}, "handful_bf16")
    2.0
    """
    own = seconds["floor_fp32"]
    return seconds.get("floor_bf16", own) if name.endswith("bf16") else own


@torch.no_grad()
def fastest(n: int, k: int, m: int, dtype: torch.dtype, device: torch.device) -> Callable[[], object]:
    """Two products ``(n, k) · (k, m)`` in the fastest of the ways to do them, into buffers that are already there."""

    def both_orders(a: int, b: int) -> list[Tensor]:
        return [torch.randn(a, b, device=device).to(dtype), torch.randn(b, a, device=device).to(dtype).T]

    def twice(left: Tensor, right: Tensor, out: Tensor) -> Callable[[], object]:
        return lambda: (torch.mm(left, right, out=out), torch.mm(left, right, out=out))

    def once(left: Tensor, right: Tensor, out: Tensor) -> Callable[[], object]:
        return lambda: torch.mm(left, right, out=out)

    ways: list[Callable[[], object]] = []
    for make, rows, inner, columns in (
        (twice, n, k, m),
        (once, n, k, 2 * m),
        (once, 2 * n, k, m),
        (once, n, 2 * k, m),
    ):
        out = torch.empty(rows, columns, dtype=dtype, device=device)
        ways += [make(a, b, out) for a in both_orders(rows, inner) for b in both_orders(inner, columns)]
    seconds = []
    for product in ways:
        timed(product, device)
        seconds.append(min(timed(product, device) for _ in range(3)))
    return ways[seconds.index(min(seconds))]


def timed(work: Callable[[], object], device: torch.device) -> float:
    """The seconds that ``work`` takes, until ``device`` has done it."""
    finish = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    finish(device)
    begin = perf_counter()
    work()
    finish(device)
    return perf_counter() - begin


# -- where the time goes ----------------------------------------------------------------------------------------------


def profile(epoch: Callable[[], Any]) -> dict[str, float]:
    """The share of an epoch's time that each of ``PIECES`` takes in the main thread; the rest is ``other``."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler writes to stderr
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    with torch_profile(activities=[ProfilerActivity.CPU]) as record:
        begin = perf_counter()
        epoch()
        wall = perf_counter() - begin
    total: dict[str, float] = defaultdict(float)
    for event in record.key_averages():
        for piece, names in PIECES.items():
            if any(name in event.key for name in names):
                total[piece] += event.self_cpu_time_total / 1e6
                break
    shares = {piece: total[piece] / wall for piece in PIECES}
    return {**shares, "other": max(0.0, 1.0 - sum(shares.values()))}


def epoch_table(result: dict[str, Any]) -> Table:
    """The result for people."""
    seconds = result["seconds"]
    rows = []
    for name, took in seconds.items():
        numbers = (f"{took:.3f}", f"{took / floor_of(seconds, name):.2f}", f"{seconds['pyg_csr'] / took:.2f}")
        shares = (f"{100 * share:.0f} %" for share in result["pieces"][name].values())
        rows.append([Cell(text) for text in (LABELS[name], *numbers, *shares)])
    title = (
        f"A training epoch on {result['graph']}: {result['nodes']:,} nodes, {result['edges']:,} edges, "
        f"{result['parts']} parts, {result['threads']} threads; median of {result['rounds']}, shares of one epoch"
    )
    return Table(title, ["", "seconds", "over its floor", "PyG CSR over it", *PIECES, "other"], rows)
