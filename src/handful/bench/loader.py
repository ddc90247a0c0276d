"""An epoch of random-node batches: PyG's loader and ours by turns in one process.

What is timed is nodes and edges alone: there are no features, and both loaders yield a ``Data`` with ``edge_index``.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from handful.bench.pyg import require_pyg
from handful.datasets.synthetic import BlockModel, generate
from handful.errors import HandfulError
from handful.finding import Cell, Table
from handful.graph import Graph
from handful.samplers import RandomNodes
from handful.training.memory import peak_ram, resting_ram

if TYPE_CHECKING:
    from torch_geometric.data import Data

FEW = 2
"""Our own cost must not grow with the parts: it is held against that for this many."""
WHOLE = 20
"""Up to how many parts PyG's epoch is run to its end; beyond, a few batches tell."""


def bench_loader(
    nodes: int, edges: int, parts: list[int], rounds: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Seconds per epoch of every loader, the ratios between them, and the memory that ours needs beyond the CSR.

    Args:
        nodes, edges: of the made-up graph, directed edges about.
        parts: numbers of parts.
        rounds: how often each is measured; the median counts.
        seed: of the graph and of the deals.
        say: called with what is being done.
    """
    theirs = require_pyg("loader").loader.RandomNodeLoader
    if min(parts) < 1 or max(parts) > nodes:
        raise HandfulError(f"parts must lie between 1 and the number of nodes, {nodes}; got {parts}")
    from handful.pyg import RandomNodeLoader

    say("making the graph…")
    data = synthetic_data(nodes, edges, seed)
    say("compressing the edges…")
    first = RandomNodeLoader(data, parts[0], seed=seed)
    graph: Graph = first.source.graph
    runs: dict[str, Callable[[], float]] = {}
    for m in dict.fromkeys([*parts, FEW]):
        ours = _with_parts(first, m)
        runs[f"handful_m{m}"] = partial(whole_epoch, ours)
        runs[f"handful_csr_m{m}"] = partial(csr_epoch, graph, m, seed)
    for m in parts:
        time = whole_epoch if m <= WHOLE else started_epoch
        runs[f"pyg_m{m}"] = partial(time, theirs(data, m, shuffle=True))
    say("compiling…")
    for name, run in runs.items():
        if name.startswith("handful"):
            run()
    memory = {name: _extra_memory(run, graph) for name, run in runs.items() if name.startswith("handful")}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(rounds):
        for name, run in runs.items():
            say(f"round {k + 1} of {rounds}: {name}…")
            seconds[name].append(run())
    middle = {name: median(times) for name, times in seconds.items()}
    most = max(parts)
    ratio = {f"m{m}": middle[f"pyg_m{m}"] / middle[f"handful_m{m}"] for m in parts}
    for kind in ("handful", "handful_csr"):
        ratio[f"{kind}_m{most}_over_m{FEW}"] = middle[f"{kind}_m{most}"] / middle[f"{kind}_m{FEW}"]
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "rounds": rounds,
        "pyg_extrapolated": [f"pyg_m{m}" for m in parts if m > WHOLE],
        "seconds": middle,
        "ratio": ratio,
        "peak_extra_memory_over_csr": memory[f"handful_m{parts[0]}"],
        "peak_extra_memory_over_csr_of": memory,
    }


def _with_parts(loader: Any, m: int) -> Any:
    """The same loader for another number of parts, without compressing the edges again."""
    other = copy.copy(loader)
    other.num_parts = m
    return other


def whole_epoch(batches: Iterable[Any]) -> float:
    """Seconds to go through all ``batches``."""
    start = perf_counter()
    for _ in batches:
        pass
    return perf_counter() - start


def csr_epoch(graph: Graph, m: int, seed: int) -> float:
    """Seconds of an epoch as handful's own training has it: nodes and CSR, nothing prepared ahead."""
    return whole_epoch(RandomNodes(m).subgraphs(graph, seed, epoch=0))


def started_epoch(loader: Any, count: int = 6) -> float:
    """Seconds of an epoch of which ``count`` batches are run; the others are taken to last as long.

    The first batch counts once, since it pays for the permutation of the whole epoch.
    """
    loop, start = iter(loader), perf_counter()
    next(loop)
    second = perf_counter()
    for _ in range(count - 1):
        next(loop)
    each = (perf_counter() - second) / (count - 1)
    return second - start + each * (len(loader) - 1)


def _extra_memory(run: Callable[[], float], graph: Graph) -> float:
    """The peak of the resident size during ``run`` above what it was before, divided by the size of the CSR.

    NaN where the system cannot tell (outside Linux).
    """
    before = resting_ram()
    run()
    if sys.platform != "linux":
        return math.nan
    return (peak_ram() - before) / (graph.indptr.nbytes + graph.indices.nbytes)


def synthetic_data(nodes: int, edges: int, seed: int) -> Data:
    """A graph with power-law degrees, and nothing but its edges."""
    from torch_geometric.data import Data

    graph = generate(BlockModel(nodes=nodes, degree=edges / nodes, features=0, seed=seed))
    return Data(edge_index=graph.edge_index, num_nodes=nodes)


def loader_table(result: dict[str, Any]) -> Table:
    """The result for people."""
    seconds, ratio = result["seconds"], result["ratio"]
    rows = []
    for m in sorted({int(name.rpartition("_m")[2]) for name in seconds}):
        pyg = seconds.get(f"pyg_m{m}")
        star = "*" if f"pyg_m{m}" in result["pyg_extrapolated"] else ""
        texts = [
            str(m),
            "" if pyg is None else f"{pyg:.2f}{star}",
            f"{seconds[f'handful_m{m}']:.3f}",
            f"{ratio[f'm{m}']:.1f}x" if f"m{m}" in ratio else "",
            f"{seconds[f'handful_csr_m{m}']:.3f}",
            f"{result['peak_extra_memory_over_csr_of'][f'handful_m{m}']:.2f}",
        ]
        rows.append([Cell(text) for text in texts])
    title = f"An epoch of random node sampling: {result['nodes']:,} nodes, {result['edges']:,} edges"
    head = ["parts", "PyG, s", "handful, s", "PyG / handful", "handful as CSR, s", "extra memory / CSR"]
    return Table(title, head, rows)


def in_words(result: dict[str, Any]) -> str:
    """How our cost grows with the parts."""
    growth = next(f"{v:.2f} times" for k, v in result["ratio"].items() if k.startswith("handful_m"))
    text = f"Median of {result['rounds']}. Our epoch with the most parts takes {growth} that with {FEW}."
    return text + (" * a few batches timed, the rest taken to last as long." if result["pyg_extrapolated"] else "")
