"""A batch of each sampler on a small graph, as data for ``handful.report`` to draw (paper, Figure 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from handful.batch import Batch, make_batch, training_sample
from handful.finding import Panel, SamplerPicture
from handful.graph import Graph
from handful.kernels.layerwise import Layer
from handful.random import generator
from handful.samplers.base import Sampler
from handful.samplers.cluster import Clusters, deal_clusters, metis
from handful.samplers.induced import induced_adjacency, weighted_csr
from handful.samplers.ladies import Ladies
from handful.samplers.neighbor import Neighbors
from handful.samplers.random_node import RandomNodes
from handful.samplers.saint import RandomWalks

LIMIT = 60
"""The most nodes of a graph that is drawn whole."""
SHOWN = 32
"""The number of nodes of a larger graph that are drawn."""


def sampler_picture(graph: Graph, seed: int) -> SamplerPicture:
    """A batch of every sampler on ``graph``, or on a region of a large graph."""
    small = small_graph(graph, seed)
    note = f"{graph.name}: {graph.num_nodes:,} nodes"
    if small.num_nodes < graph.num_nodes:
        note = f"{small.num_nodes} neighbouring nodes of {graph.name}, which has {graph.num_nodes:,}"
    return SamplerPicture(panels(small, seed), stress_layout(small), small.edge_index.numpy(), note)


def small_graph(graph: Graph, seed: int) -> Graph:
    """A graph that is small enough to draw: ``graph`` itself, or a region of it.

    The training nodes are those of the graph; without any, a random half of the nodes.
    """
    nodes = np.arange(graph.num_nodes) if graph.num_nodes <= LIMIT else nearby(graph, seed)
    layer = induced_adjacency(graph.to("cpu"), nodes)
    n = len(nodes)
    train = torch.zeros(n, dtype=torch.bool) if graph.train_mask is None else graph.train_mask.cpu()[nodes]
    if not train.any():
        train[generator(seed).permutation(n)[: max(1, n // 2)]] = True
    x, y = torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)  # samplers do not use them
    small = Graph(layer.indptr, layer.indices, x=x, y=y, num_classes=2, train_mask=train, name=graph.name)
    return small.without_loops()


def nearby(graph: Graph, seed: int) -> np.ndarray:
    """Up to ``SHOWN`` connected nodes: a search from one node with a few neighbours per node, without the largest hubs.

    Of 40 starts, it takes the one with the most nodes, then the one with about three edges per node.
    """
    both_ways = Graph(graph.indptr, graph.indices, undirected=graph.undirected, checked=True).to("cpu").to_undirected()
    indptr, indices = both_ways.topology
    rng = generator(seed)
    few = np.diff(indptr) <= max(12, int(np.percentile(np.diff(indptr), 95)))
    best: tuple[int, int, list[int]] = (0, 0, [])
    for start in rng.permutation(graph.num_nodes)[:40].tolist():
        result = [start]
        for v in result:  # the list grows: breadth-first search
            around = indices[indptr[v] : indptr[v + 1]]
            new = [u for u in rng.permutation(around[few[around]]).tolist() if u not in result]
            result += new[: min(4, SHOWN - len(result))]
        inside = np.isin(np.concatenate([indices[indptr[v] : indptr[v + 1]] for v in result]), result).sum()
        best = max(best, (len(result), -abs(int(inside) - 3 * len(result)), result))
    return np.sort(best[2])


def stress_layout(graph: Graph) -> np.ndarray:
    """float ``(N, 2)``: places in the unit square with distances like the hops between nodes (least stress, SMACOF)."""
    n = graph.num_nodes
    indptr, indices = graph.topology
    hops = shortest_path(csr_matrix((np.ones(len(indices)), indices, indptr), (n, n)), directed=False, unweighted=True)
    hops[np.isinf(hops)] = hops[np.isfinite(hops)].max() / 2 + 1.5  # between components
    weight = 1 / (hops + np.eye(n)) ** 2 - np.eye(n)
    solve = np.linalg.pinv(np.diag(weight.sum(1)) - weight)
    angle = 2 * np.pi * np.arange(n) / n
    place = np.stack([np.cos(angle), np.sin(angle)], 1)
    for _ in range(300):
        pull = weight * hops / (np.linalg.norm(place[:, None] - place, axis=2) + np.eye(n))
        place = solve @ (np.diag(pull.sum(1)) - pull) @ place
    place = place @ np.linalg.svd(place, full_matrices=False)[2].T if n > 2 else place  # the longer side is horizontal
    low, high = place.min(0), place.max(0)
    return _apart((place - low) / np.maximum(high - low, 1e-9))


def _apart(place: np.ndarray) -> np.ndarray:
    """Move overlapping nodes apart, within the unit square."""
    gap = min(0.11, 0.62 / len(place) ** 0.5)
    for _ in range(200):
        delta = place[:, None] - place[None]
        length = np.linalg.norm(delta, axis=2) + 10 * np.eye(len(place))
        push = np.maximum(gap - length, 0) / np.maximum(length, 1e-9)
        place = np.clip(place + 0.25 * (push[:, :, None] * delta).sum(1), 0, 1)
    return place


# -- the panels -----------------------------------------------------------------------------------------------------

TARGETS = 3
"""The targets of neighbour sampling and of LADIES: the same, so that only the drawn neighbours differ."""


def panels(graph: Graph, seed: int) -> list[Panel]:
    """A batch of every sampler on the result of ``small_graph``."""
    clusters = Clusters(clusters=min(4, graph.num_nodes), per_batch=min(2, graph.num_nodes))
    cluster = metis(graph, clusters.clusters)

    def joined(k: int) -> Batch:
        part, _ = deal_clusters(cluster, clusters.per_batch, generator(seed, k))
        nodes = np.flatnonzero(part == 0)
        return make_batch(graph, training_sample(graph, torch.from_numpy(nodes), (induced_adjacency(graph, nodes),)))

    walks, parts = RandomWalks(roots=1, length=7), RandomNodes(parts=min(2, graph.num_nodes))
    _, of_clusters = _telling(joined)
    drawn, of_walks = _telling(lambda k: next(walks.epoch(graph, seed, k)))
    _, of_parts = _telling(lambda k: next(parts.epoch(graph, seed, k)))
    groups = [np.flatnonzero(cluster == k) for k in np.unique(cluster)]
    sizes = f"{clusters.clusters} clusters, {clusters.per_batch} in a batch"
    neighbor, ladies = _for_the_same_targets(graph, seed)
    return [
        neighbor,
        _panel("ClusterGCN", sizes, clusters, of_clusters, groups=groups),
        _panel("GraphSAINT", "1 walk of 7 steps", walks, of_walks, walks=walks.walks(graph, seed, drawn, 0)),
        ladies,
        _panel("Random node sampling", f"{parts.parts} parts", parts, of_parts),
    ]


def _panel(title: str, subtitle: str, sampler: Sampler, batch: Batch, **extra: Any) -> Panel:
    nodes, targets = batch.nodes.numpy(), batch.nodes[batch.targets].numpy()
    edges = np.concatenate([batch.nodes[layer.edge_index].numpy() for layer in batch.layers], axis=1)
    directed = not batch.layers[0].symmetric
    return Panel(title, subtitle, nodes, targets, _distinct(edges), directed, sampler.name, sampler.options(), **extra)


def _distinct(edges: np.ndarray) -> np.ndarray:
    """Every edge once, without loops."""
    edges = np.unique(edges, axis=1)
    return edges[:, edges[0] != edges[1]]


def _telling(draw: Callable[[int], Batch]) -> tuple[int, Batch]:
    """The first of 50 draws with targets, helpers and an edge, and its number; else the first draw."""
    for k in range(50):
        batch = draw(k)
        if 0 < len(batch.targets) < batch.num_nodes and batch.num_edges:
            return k, batch
    return 0, draw(0)


def _for_the_same_targets(graph: Graph, seed: int) -> list[Panel]:
    """Neighbour sampling and LADIES for the same targets, in the draw of 50 that shows their difference best.

    Neighbour sampling draws helpers for each node, and LADIES for all targets together. In the best draw most
    nodes of the first are not in the second.
    """
    neighbors = Neighbors(fanout=(2, 2), batch_size=TARGETS)
    ladies = Ladies(budget=(TARGETS, TARGETS), batch_size=TARGETS)
    batches, csr = [next(neighbors.epoch(graph, seed, k)) for k in range(50)], weighted_csr(graph)
    seeds = [batch.nodes[batch.targets].numpy() for batch in batches]
    pairs = [(batch, ladies.draw(csr, seeds[k], seed, k, 0)) for k, batch in enumerate(batches)]

    def telling(pair: tuple[Batch, list[Layer]]) -> int:
        own, common = set(pair[0].nodes.tolist()), {node for layer in pair[1] for node in layer.nodes.tolist()}
        return len(own - common) + min(len(common), 3 * TARGETS)

    batch, layers = max(pairs, key=telling)
    own = _panel("Neighbour sampling", f"{TARGETS} targets, 2 neighbours of each node, 2 hops", neighbors, batch)
    met = [batch.nodes[batch.targets], *(layer.nodes for layer in layers)]
    ends = [
        np.stack([layer.nodes[layer.indices.long()].numpy(), above.repeat_interleave(layer.indptr.diff()).numpy()])
        for above, layer in zip(met, layers, strict=False)
    ]
    new = [np.setdiff1d(nodes, np.concatenate(met[:i])) for i, nodes in enumerate(met) if i]
    subtitle = f"{TARGETS} targets, 2 layers of {TARGETS} nodes for all together"
    common = _panel("LADIES", subtitle, ladies, batch, groups=[nodes for nodes in new if len(nodes)])
    edges = _distinct(np.concatenate(ends, axis=1))
    return [own, replace(common, nodes=np.unique(np.concatenate(met)), edges=edges)]
