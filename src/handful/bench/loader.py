"""An epoch of random-node batches, PyG's loader and ours by turns in one process; and batches of neighbour loading.

What is timed is nodes and edges alone: there are no features, and the loaders yield a ``Data`` with ``edge_index``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from handful.bench.pyg import require_pyg
from handful.datasets.synthetic import BlockModel, generate
from handful.errors import HandfulError
from handful.finding import Cell, Table
from handful.graph import Graph
from handful.kernels.neighbors import sample
from handful.samplers import RandomNodes
from handful.training.cost import peak_ram, resting_ram

if TYPE_CHECKING:
    from torch_geometric.data import Data

FEW = 2
"""Our own cost must not grow with the parts: it is held against that for this many."""
WHOLE = 20
"""Up to how many parts PyG's epoch is run to its end; beyond, a few batches tell."""
FANOUT = (15, 10, 5)
SEEDS = 1024
"""Neighbour loading: edges a node takes in each hop, and seeds of a batch."""


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
    graph, data = synthetic_data(nodes, edges, seed)
    runs: dict[str, Callable[[], float]] = {}
    for m in dict.fromkeys([*parts, FEW]):
        runs[f"handful_m{m}"] = partial(whole_epoch, RandomNodeLoader(data, m, shuffle=True))
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
        "neighbors": bench_neighbors(graph, data, rounds, seed, say),
    }


def bench_neighbors(
    graph: Graph, data: Data, rounds: int, seed: int, say: Callable[[str], None], batches: int = 4
) -> dict[str, Any]:
    """Seconds per batch of neighbour loading, by turns: PyG's ``NeighborLoader`` on our operators, the operator alone,
    handful's own ``Neighbors``, and plain numpy.

    Args:
        graph, data: the same graph twice.
        rounds: how often each is measured; the median counts.
        seed: of the draws.
        say: called with what is being done.
        batches: how many a round has; of numpy it has one.
    """
    import torch

    from handful.pyg import NeighborLoader

    rng = np.random.default_rng(seed)
    count = min(SEEDS, graph.num_nodes)
    seeds = [rng.choice(graph.num_nodes, count, replace=False) for _ in range(batches)]
    order = torch.from_numpy(np.concatenate(seeds))
    loader = NeighborLoader(data, list(FANOUT), input_nodes=order, batch_size=count, is_sorted=True)
    colptr, row = loader.node_sampler.colptr, loader.node_sampler.row

    def operator(nodes: np.ndarray) -> None:
        torch.ops.pyg.neighbor_sample(colptr, row, torch.from_numpy(nodes), list(FANOUT), csc=True)

    def own(nodes: np.ndarray) -> None:
        sample(*graph.topology, nodes, FANOUT, seed)

    def in_numpy(nodes: np.ndarray) -> None:
        numpy_neighbors(*graph.topology, nodes, FANOUT, rng)

    def each(function: Callable[[np.ndarray], None], few: int = batches) -> float:
        start = perf_counter()
        for nodes in seeds[:few]:
            function(nodes)
        return (perf_counter() - start) / few

    runs: dict[str, Callable[[], float]] = {
        "loader": lambda: whole_epoch(loader) / batches,
        "operator": lambda: each(operator),
        "handful": lambda: each(own),
        "numpy": lambda: each(in_numpy, 1),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    runs["loader"](), runs["handful"]()
    for k in range(rounds):
        for name, run in runs.items():
            say(f"neighbours, round {k + 1} of {rounds}: {name}…")
            seconds[name].append(run())
    middle = {name: median(times) for name, times in seconds.items()}
    return {
        "fanout": list(FANOUT),
        "seeds": count,
        "seconds": middle,
        "batches_per_second": {name: 1 / time for name, time in middle.items()},
        "loader_over_handful": middle["loader"] / middle["handful"],
        "numpy_over_loader": middle["numpy"] / middle["loader"],
    }


def numpy_neighbors(
    indptr: np.ndarray, indices: np.ndarray, seeds: np.ndarray, fanout: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbour sampling in plain numpy: nodes, and for each edge the number of its target and of its source.

    >>> indptr, indices = np.array([0, 2, 2, 2]), np.array([1, 2])
    >>> nodes, target, source = numpy_neighbors(indptr, indices, np.array([0]), (5,), np.random.default_rng(0))
    >>> sorted(nodes.tolist()), target.tolist(), sorted(source.tolist())
    ([0, 1, 2], [0, 0], [1, 2])
    """
    nodes, first = seeds, 0
    target, source = [], []
    for count in fanout:
        new = nodes[first:]
        degree = indptr[new + 1] - indptr[new]
        row = np.repeat(np.arange(first, len(nodes)), degree)
        place = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
        edge = np.repeat(indptr[new], degree) + place
        shuffled = np.lexsort((rng.random(len(row)), row))  # a random order of each row's edges, of which some are kept
        kept = shuffled[place < count]
        met = indices[edge[kept]]
        distinct, at = np.unique(np.concatenate([nodes, met]), return_index=True)
        fresh = np.sort(at[at >= len(nodes)]) - len(nodes)
        first, nodes = len(nodes), np.concatenate([nodes, met[fresh]])
        number = np.argsort(nodes)
        target.append(row[kept])
        source.append(number[np.searchsorted(distinct, met)])
    return nodes, np.concatenate(target), np.concatenate(source)


def whole_epoch(batches: Iterable[Any]) -> float:
    """Seconds to go through all ``batches``."""
    start = perf_counter()
    for batch in batches:
        del batch  # a loop that keeps it has two in memory
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


def synthetic_data(nodes: int, edges: int, seed: int) -> tuple[Graph, Data]:
    """A graph with power-law degrees and nothing but its edges, as ours and as PyG's."""
    from torch_geometric.data import Data

    graph = generate(BlockModel(nodes=nodes, degree=edges / nodes, features=0, seed=seed))
    return graph, Data(edge_index=graph.edge_index, num_nodes=nodes)


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


def neighbors_table(result: dict[str, Any]) -> Table:
    """Neighbour loading for people."""
    found = result["neighbors"]
    names = {
        "loader": "PyG's NeighborLoader on our operators",
        "operator": "the operator alone",
        "handful": "handful's own Neighbors",
        "numpy": "plain numpy",
    }
    rows = [
        [Cell(names[name]), Cell(f"{1000 * time:.0f}"), Cell(f"{1 / time:.1f}")]
        for name, time in found["seconds"].items()
    ]
    title = f"Neighbour loading: fanout {','.join(map(str, found['fanout']))}, {found['seeds']} seeds a batch"
    return Table(title, ["", "ms a batch", "batches a second"], rows)


def in_words(result: dict[str, Any]) -> str:
    """How our cost grows with the parts."""
    growth = next(f"{v:.2f} times" for k, v in result["ratio"].items() if k.startswith("handful_m"))
    text = f"Median of {result['rounds']}. Our epoch with the most parts takes {growth} that with {FEW}."
    return text + (" * a few batches timed, the rest taken to last as long." if result["pyg_extrapolated"] else "")
