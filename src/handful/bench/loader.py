"""The time of an epoch of random-node batches from PyG's loader and from handful's loader. The two loaders run
alternately in one process.

The graph has no features, so that only the sampling of nodes and edges is measured. The loaders yield a ``Data`` with
``edge_index``.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any

from handful.bench.harness import Say, measure_by_turns, seconds_of
from handful.bench.pyg import require_pyg
from handful.datasets.synthetic import BlockModel, generate
from handful.errors import HandfulError
from handful.finding import Table, text_table
from handful.graph import Graph
from handful.samplers import RandomNodes
from handful.training.cost import peak_ram, resting_ram
from handful.vocabulary import shown

FEW = 2
"""handful is also measured with this small number of parts, to show that the cost does not grow with the number of
parts.
"""
WHOLE = 20
"""If there are more parts than this, the time of PyG's epoch is extrapolated from its first batches."""


def bench_loader(nodes: int, edges: int, parts: list[int], rounds: int, seed: int, say: Say) -> dict[str, Any]:
    """Measure the time per epoch of every loader, the ratios of these times, and the memory that handful's loader needs
    in addition to the CSR.

    Args:
        nodes, edges: the size of the synthetic graph. The number of directed edges is approximate.
        parts: the numbers of parts to measure.
        rounds: the number of measurements of each loader; the result is the median.
        seed: the seed of the graph and of the parts.
        say: called with the name of the current task.
    """
    theirs = partial(require_pyg("loader").loader.RandomNodeLoader, shuffle=True)
    if min(parts) < 1 or max(parts) > nodes:
        raise HandfulError(f"parts must lie between 1 and the number of nodes, {nodes}; got {parts}")
    from handful.pyg import RandomNodeLoader

    say("making the graph…")
    graph, data = synthetic_data(nodes, edges, seed)
    ours: dict[str, Callable[[], float]] = {}
    for m in dict.fromkeys([*parts, FEW]):
        ours[f"handful_m{m}"] = partial(whole_epoch, RandomNodeLoader(data, m, shuffle=True))
        ours[f"handful_csr_m{m}"] = partial(csr_epoch, graph, m, seed)
    pyg = {f"pyg_m{m}": partial(whole_epoch if m <= WHOLE else started_epoch, theirs(data, m)) for m in parts}
    say("compiling…")
    for run in ours.values():
        run()
    memory = {name: _extra_memory(run, graph) for name, run in ours.items()}
    turns, most = measure_by_turns({**ours, **pyg}, rounds, say), max(parts)
    kinds = ("handful", "handful_csr")
    growth = {f"{kind}_m{most}_over_m{FEW}": turns.ratio(f"{kind}_m{most}", f"{kind}_m{FEW}") for kind in kinds}
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "rounds": rounds,
        "pyg_extrapolated": [f"pyg_m{m}" for m in parts if m > WHOLE],
        "seconds": turns.medians,
        "ratio": {f"m{m}": turns.ratio(f"pyg_m{m}", f"handful_m{m}") for m in parts} | growth,
        "peak_extra_memory_over_csr": memory[f"handful_m{parts[0]}"],
        "peak_extra_memory_over_csr_of": memory,
    }


def whole_epoch(batches: Iterable[Any]) -> float:
    """The time to iterate over all ``batches``, in seconds."""
    return seconds_of(partial(deque, batches, maxlen=0))  # no batch is kept


def csr_epoch(graph: Graph, m: int, seed: int) -> float:
    """The time that handful's own sampler takes for one epoch, in seconds. The sampler yields nodes and a CSR, as in
    training, but without prefetching.
    """
    return whole_epoch(RandomNodes(m).subgraphs(graph, seed, epoch=0))


def started_epoch(loader: Any, count: int = 6) -> float:
    """The time of an epoch in seconds, extrapolated from its first ``count`` batches.

    The first batch is not extrapolated, since its time includes the permutation of the whole epoch.
    """
    loop, start = iter(loader), perf_counter()
    next(loop)
    second = perf_counter()
    for _ in range(count - 1):
        next(loop)
    return second - start + (perf_counter() - second) / (count - 1) * (len(loader) - 1)


def _extra_memory(run: Callable[[], float], graph: Graph) -> float:
    """The peak resident memory during ``run``, minus the resident memory before ``run``, divided by the size of the
    CSR; NaN except on Linux.
    """
    before = resting_ram()
    run()
    if sys.platform != "linux":
        return math.nan
    return (peak_ram() - before) / (graph.indptr.nbytes + graph.indices.nbytes)


def synthetic_data(nodes: int, edges: int, seed: int) -> tuple[Graph, Any]:
    """Make a graph with power-law degrees and without features; return it as a ``Graph`` and as PyG's ``Data``."""
    from torch_geometric.data import Data

    graph = generate(BlockModel(nodes=nodes, degree=edges / nodes, features=0, seed=seed))
    return graph, Data(edge_index=graph.edge_index, num_nodes=nodes)


def loader_table(result: dict[str, Any]) -> Table:
    """Make a table of the result, with a row for each number of parts."""
    seconds, ratio, extra = result["seconds"], result["ratio"], result["peak_extra_memory_over_csr_of"]
    rows = []
    for m in sorted({int(name.rpartition("_m")[2]) for name in seconds}):
        ours, csr, pyg = f"handful_m{m}", f"handful_csr_m{m}", f"pyg_m{m}"
        theirs = shown(seconds.get(pyg), "{:.2f}*" if pyg in result["pyg_extrapolated"] else "{:.2f}")
        times = (theirs, f"{seconds[ours]:.3f}", shown(ratio.get(f"m{m}"), "{:.1f}x"), f"{seconds[csr]:.3f}")
        rows.append([str(m), *times, f"{extra[ours]:.2f}"])
    what = f"{result['nodes']:,} nodes, {result['edges']:,} edges; median of {result['rounds']}"
    title = f"An epoch of random node sampling, {what}; * extrapolated from the first batches"
    head = ["parts", "PyG, s", "handful, s", "PyG / handful", "handful as CSR, s", "extra memory / CSR"]
    return text_table(title, head, rows)
