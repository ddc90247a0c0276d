"""What each sampler does, on a small graph (paper, Figure 1): above the sampling process, below what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from handful.batch import Batch, make_batch
from handful.files import write_aside
from handful.graph import Graph
from handful.random import generator
from handful.samplers.base import Sampler
from handful.samplers.cluster import Clusters, deal_clusters, metis
from handful.samplers.ladies import Ladies
from handful.samplers.neighbor import Neighbors
from handful.samplers.random_node import RandomNodes, induced_adjacency
from handful.samplers.saint import RandomWalks

LIMIT = 60
"""The largest graph that is drawn whole."""
SHOWN = 32
"""How many nodes of a larger one are drawn."""
RED, BLUE, GREY, PALE, INK = "#d7263d", "#1f6fb4", "#b9c0c9", "#e3e6ea", "#2f3640"
TINTS = ("#ffe3a8", "#cdeac0", "#d9d2f4", "#c6e5f3")


@dataclass(frozen=True, eq=False)
class Panel:
    """One sampler's batch in the numbering of the small graph."""

    title: str
    subtitle: str
    sampler: Sampler
    nodes: np.ndarray
    targets: np.ndarray
    edges: np.ndarray
    """``(2, E)``, sources and targets."""
    directed: bool
    """Whether messages go one way only, which arrows then show."""
    walks: np.ndarray | None = None
    groups: list[np.ndarray] = field(default_factory=list)
    """Node sets to outline."""


def small_graph(graph: Graph, seed: int) -> Graph:
    """A graph that can be drawn and trained on: ``graph`` itself, or the edges among the nodes near one of its own.

    Training nodes are the graph's; where there are none, every second node, drawn at random.
    """
    nodes = np.arange(graph.num_nodes) if graph.num_nodes <= LIMIT else nearby(graph, seed)
    layer = induced_adjacency(graph.to("cpu"), nodes)
    n = len(nodes)
    if graph.train_mask is not None and bool(graph.train_mask.cpu()[nodes].any()):
        train = graph.train_mask.cpu()[nodes]
    else:
        train = torch.zeros(n, dtype=torch.bool)
        train[generator(seed).permutation(n)[: max(1, n // 2)]] = True
    return Graph(
        layer.indptr,
        layer.indices,
        x=torch.zeros(n, 1),
        y=torch.zeros(n, dtype=torch.int64),
        num_classes=2,
        train_mask=train,
        name=graph.name,
    ).without_loops()


def nearby(graph: Graph, seed: int) -> np.ndarray:
    """Up to ``SHOWN`` connected nodes: grown from a node by a few neighbours each, past the largest hubs.

    Of several starts the one that reaches most nodes, and then the one with the most edges among them.
    """
    both_ways = Graph(graph.indptr, graph.indices, undirected=graph.undirected, checked=True).to("cpu").to_undirected()
    indptr, indices = both_ways.topology
    rng = generator(seed)
    few = np.diff(indptr) <= max(12, int(np.percentile(np.diff(indptr), 95)))
    best: tuple[int, int, list[int]] = (0, 0, [])
    for start in rng.permutation(graph.num_nodes)[:40].tolist():
        found = [start]
        for v in found:  # grows as it goes: breadth first
            around = indices[indptr[v] : indptr[v + 1]]
            new = [u for u in rng.permutation(around[few[around]]).tolist() if u not in found]
            found += new[: min(4, SHOWN - len(found))]
        inside = np.isin(np.concatenate([indices[indptr[v] : indptr[v + 1]] for v in found]), found).sum()
        best = max(best, (len(found), -abs(int(inside) - 3 * len(found)), found))
    return np.sort(best[2])


def stress_layout(graph: Graph) -> np.ndarray:
    """``(N, 2)`` places whose distances follow the hops between nodes: the least Σ (|p_i - p_j| - d_ij)² / d_ij²."""
    n = graph.num_nodes
    if n < 3:
        return np.array([[0.5, 0.5]]) if n == 1 else np.array([[0.2, 0.5], [0.8, 0.5]])[:n]
    indptr, indices = graph.topology
    hops = shortest_path(csr_matrix((np.ones(len(indices)), indices, indptr), (n, n)), directed=False, unweighted=True)
    apart = hops[np.isfinite(hops)].max() / 2 + 1.5  # between components
    distance = np.where(np.isfinite(hops), hops, apart)
    first, second = np.triu_indices(n, 1)
    wanted = distance[first, second]

    def stress(flat: np.ndarray) -> tuple[float, np.ndarray]:
        place = flat.reshape(n, 2)
        delta = place[first] - place[second]
        length = np.maximum(np.linalg.norm(delta, axis=1), 1e-9)
        miss = (length - wanted) / wanted**2
        pull = (2 * miss / length)[:, None] * delta
        grad = np.zeros((n, 2))
        np.add.at(grad, first, pull)
        np.add.at(grad, second, -pull)
        return float((miss * (length - wanted)).sum()), grad.ravel()

    starts = [_spectral(distance), *(generator(7, k).normal(size=(n, 2)) * n**0.5 for k in range(2))]
    solved = [minimize(stress, start.ravel(), jac=True, method="L-BFGS-B") for start in starts]
    place: np.ndarray = min(solved, key=lambda r: float(r.fun)).x.reshape(n, 2)
    place -= place.mean(0)
    place = place @ np.linalg.svd(place, full_matrices=False)[2].T  # the long side across
    low, high = place.min(0), place.max(0)
    return _apart((place - low) / np.maximum(high - low, 1e-9))


def _apart(place: np.ndarray) -> np.ndarray:
    """Push nodes that would cover each other a little apart, within the unit square."""
    gap = min(0.11, 0.62 / len(place) ** 0.5)
    for _ in range(200):
        delta = place[:, None] - place[None]
        length = np.linalg.norm(delta, axis=2) + 10 * np.eye(len(place))
        push = np.maximum(gap - length, 0) / np.maximum(length, 1e-9)
        place = np.clip(place + 0.25 * (push[:, :, None] * delta).sum(1), 0, 1)
    return place


def _spectral(distance: np.ndarray) -> np.ndarray:
    """Classical scaling: the best start that linear algebra gives."""
    squared = distance**2
    centred = -0.5 * (squared - squared.mean(0) - squared.mean(1)[:, None] + squared.mean())
    values, vectors = np.linalg.eigh(centred)
    out: np.ndarray = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 1e-6))
    return out


# -- the panels -----------------------------------------------------------------------------------------------------


def panels(graph: Graph, seed: int) -> list[Panel]:
    """A batch of every sampler on a graph of ``small_graph``."""
    makers: list[Callable[[Graph, int], Panel]] = [_neighbor, _cluster, _saint, _ladies, _rns]
    return [make(graph, seed) for make in makers]


def _panel(graph: Graph, title: str, subtitle: str, sampler: Sampler, batch: Batch, **extra: Any) -> Panel:
    edges = np.unique(np.concatenate([batch.nodes[layer.edge_index].numpy() for layer in batch.layers], axis=1), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    return Panel(
        title,
        subtitle,
        sampler,
        batch.nodes.numpy(),
        batch.nodes[batch.targets].numpy(),
        edges,
        directed=not (batch.shared and bool(graph.undirected)),
        **extra,
    )


def _telling(batches: Callable[[int], Batch]) -> tuple[int, Batch]:
    """The first of many draws that shows targets, helpers and an edge, if there is one; and its number."""
    first: tuple[int, Batch] | None = None
    for k in range(50):
        batch = batches(k)
        first = first or (k, batch)
        if 0 < len(batch.targets) < batch.num_nodes and batch.num_edges:
            return k, batch
    assert first is not None
    return first


def _neighbor(graph: Graph, seed: int) -> Panel:
    sampler = Neighbors(fanout=(2,), batch_size=3)
    _, batch = _telling(lambda k: next(sampler.epoch(graph, seed, k)))
    return _panel(graph, "Neighbour sampling", "fanout 2, 3 seeds", sampler, batch)


def _cluster(graph: Graph, seed: int) -> Panel:
    c = min(4, graph.num_nodes)
    sampler = Clusters(clusters=c, per_batch=min(2, c))
    cluster = metis(graph, c)

    def draw(k: int) -> Batch:
        part, _ = deal_clusters(cluster, sampler.per_batch, generator(seed, k))
        nodes = np.flatnonzero(part == 0)
        return make_batch(graph, torch.from_numpy(nodes), (induced_adjacency(graph, nodes),))

    _, batch = _telling(draw)
    groups = [np.flatnonzero(cluster == k) for k in np.unique(cluster)]
    return _panel(graph, "ClusterGCN", f"{c} clusters, {sampler.per_batch} a batch", sampler, batch, groups=groups)


def _saint(graph: Graph, seed: int) -> Panel:
    sampler = RandomWalks(roots=1, length=7)
    k, batch = _telling(lambda k: next(sampler.epoch(graph, seed, k)))
    return _panel(graph, "GraphSAINT", "1 walk of 7 steps", sampler, batch, walks=sampler.walks(graph, seed, k, 0))


def _ladies(graph: Graph, seed: int) -> Panel:
    sampler = Ladies(budget=(6,), batch_size=3)
    _, batch = _telling(lambda k: next(sampler.epoch(graph, seed, k)))
    return _panel(graph, "LADIES", "6 nodes a layer, 3 targets", sampler, batch)


def _rns(graph: Graph, seed: int) -> Panel:
    sampler = RandomNodes(parts=min(2, graph.num_nodes))
    _, batch = _telling(lambda k: next(sampler.epoch(graph, seed, k)))
    return _panel(graph, "Random node sampling", f"{sampler.parts} parts", sampler, batch)


# -- drawing --------------------------------------------------------------------------------------------------------


def draw_samplers(graph: Graph, shown: list[Panel], note: str, path: Path) -> None:
    """Draw ``shown``, batches of ``graph``, into ``path`` in the format of its suffix."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    place = stress_layout(graph)
    radius = float(np.clip(0.55 / np.sqrt(graph.num_nodes), 0.07, 0.12))
    figure = Figure(figsize=(3.3 * len(shown) + 0.7, 7.2), facecolor="white")
    grid = figure.subplots(2, len(shown), squeeze=False)
    figure.subplots_adjust(left=0.045, right=0.995, top=0.895, bottom=0.095, wspace=0.06, hspace=0.08)
    for column, panel in enumerate(shown):
        above, below = grid[0, column], grid[1, column]
        for axes in (above, below):
            axes.set_xlim(-0.09, 1.09)
            axes.set_ylim(-0.09, 1.09)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set(color=PALE, linewidth=1.0)
        above.text(
            0.5, 1.13, panel.title, transform=above.transAxes, ha="center", fontsize=14, weight="bold", color=INK
        )
        above.text(0.5, 1.045, panel.subtitle, transform=above.transAxes, ha="center", fontsize=10.5, color="#6b7480")
        _draw_process(above, graph, panel, place, radius)
        _draw_sample(below, panel, place, radius)
    for axes, label in ((grid[0, 0], "sampling process"), (grid[1, 0], "sampled subgraph")):
        axes.set_ylabel(label, fontsize=12.5, weight="bold", color=INK, labelpad=12)

    def dot(color: str, label: str) -> Any:
        return Line2D([], [], marker="o", linestyle="", markersize=9, color=color, label=label)

    handles = [dot(RED, "target: its loss counts"), dot(BLUE, "helper: passes messages only"), dot(GREY, "not sampled")]
    figure.legend(
        handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=11.5, bbox_to_anchor=(0.5, 0.026)
    )
    figure.text(0.5, 0.012, note, ha="center", fontsize=9.5, color="#6b7480")
    kind = path.suffix.lstrip(".").lower() or "svg"
    with rc_context({"svg.hashsalt": "handful"}):  # the same picture is the same file
        metadata = {"Date": None} if kind == "svg" else None
        write_aside(path, lambda aside: figure.savefig(aside, format=kind, dpi=150, metadata=metadata))


def _draw_process(axes: Any, graph: Graph, panel: Panel, place: np.ndarray, radius: float) -> None:
    chosen = set(panel.nodes.tolist())
    for group, tint in zip(panel.groups, TINTS, strict=False):
        _bubble(axes, graph, group, place, tint if chosen >= set(group.tolist()) else "#eef0f2")
    sources, targets = graph.edge_index.numpy()
    _lines(axes, place, sources, targets, PALE if not panel.groups else "#d3d8de", 1.0)
    if panel.walks is not None:
        for walk in panel.walks:
            for step, (u, v) in enumerate(pairwise(walk)):
                if u != v:
                    _arrow(axes, place[u], place[v], radius, INK, 1.8, bend=0.18 if step % 2 else -0.18)
    elif panel.directed:
        for u, v in panel.edges.T:
            _arrow(axes, place[u], place[v], radius, INK, 1.6)
    else:
        _lines(axes, place, panel.edges[0], panel.edges[1], "#7d8793", 1.6)
    rest = np.setdiff1d(np.arange(graph.num_nodes), panel.nodes)
    _dots(axes, place[rest], GREY, radius * 0.8)
    _draw_nodes(axes, panel, place, radius)
    if panel.walks is not None:
        root = place[panel.walks[:, 0]]
        axes.scatter(*root.T, s=_size(radius * 1.6), facecolors="none", edgecolors=INK, linewidths=1.4, zorder=4)


def _draw_sample(axes: Any, panel: Panel, place: np.ndarray, radius: float) -> None:
    if panel.directed:
        for u, v in panel.edges.T:
            _arrow(axes, place[u], place[v], radius, "#58626e", 1.5)
    else:
        _lines(axes, place, panel.edges[0], panel.edges[1], "#58626e", 1.6)
    _draw_nodes(axes, panel, place, radius)


def _draw_nodes(axes: Any, panel: Panel, place: np.ndarray, radius: float) -> None:
    helpers = np.setdiff1d(panel.nodes, panel.targets)
    _dots(axes, place[helpers], BLUE, radius)
    _dots(axes, place[panel.targets], RED, radius)


def _size(radius: float) -> float:
    """The area in points² of a dot of ``radius`` inches, as matplotlib wants it."""
    return float((2 * 72 * radius) ** 2)


def _dots(axes: Any, at: np.ndarray, color: str, radius: float) -> None:
    axes.scatter(*at.T, s=_size(radius), color=color, edgecolors="white", linewidths=1.3, zorder=3)


def _lines(
    axes: Any, place: np.ndarray, sources: np.ndarray, targets: np.ndarray, color: str, width: float, **style: Any
) -> None:
    from matplotlib.collections import LineCollection

    ends = list(np.stack([place[sources], place[targets]], 1))
    axes.add_collection(LineCollection(ends, colors=color, linewidths=width, **{"zorder": 1, **style}))


def _arrow(axes: Any, start: Any, stop: Any, radius: float, color: str, width: float, bend: float = 0.0) -> None:
    from matplotlib.patches import FancyArrowPatch

    gap = 72 * radius + 1.5
    axes.add_patch(
        FancyArrowPatch(
            start,
            stop,
            arrowstyle="-|>,head_length=4.4,head_width=2.3",
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=gap,
            shrinkB=gap,
            color=color,
            linewidth=width,
            zorder=2,
        )
    )


def _bubble(axes: Any, graph: Graph, group: np.ndarray, place: np.ndarray, color: str) -> None:
    """A soft ground under a group of nodes and the edges among them."""
    sources, targets = graph.edge_index.numpy()
    inside = np.isin(sources, group) & np.isin(targets, group)
    axes.scatter(*place[group].T, s=24**2, color=color, linewidths=0, zorder=0.5)
    _lines(axes, place, sources[inside], targets[inside], color, 22, zorder=0.5, capstyle="round")
