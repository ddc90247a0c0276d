"""Draws a batch of each sampler on a small graph, or on a region of a large one: the paper's Figure 1.

``python docs/draw_samplers.py GRAPH --out samplers.svg --seed 0``. The picture ``docs/img/samplers.svg`` is that of
debian. Above is the sampling process of each sampler, and below its batch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, StrictUndefined
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

import handful as hf
from handful.batch import Batch, make_batch, training_sample
from handful.errors import HandfulError
from handful.files import write_text
from handful.graph import Graph
from handful.kernels.layerwise import Layer
from handful.random import generator
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
DRAWS = 50
"""The number of epochs from which the clearest batch is chosen."""
TARGETS = 3
"""The targets of neighbour sampling and of LADIES: the same, so that only the drawn neighbours differ."""
WIDE, HIGH = 290, 260
TINTS = 4
"""The number of background colours for sets of nodes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, draw the picture and write it."""
    parser = argparse.ArgumentParser(description="Draw a batch of each sampler on a small graph.")
    parser.add_argument("graph", metavar="GRAPH", help="name of a data set, or a file or folder")
    parser.add_argument("--out", type=Path, default=Path("samplers.svg"), help="SVG file. Default: samplers.svg")
    parser.add_argument("--seed", type=int, default=0, help="seed of the region and of the batches. Default: 0")
    asked = parser.parse_args(arguments)
    if asked.out.suffix != ".svg":
        parser.error(f"--out must end in .svg; got '{asked.out}'")
    try:
        graph = hf.load(asked.graph)
        write_text(asked.out, draw_samplers(graph, asked.seed))
    except (HandfulError, OSError) as error:
        sys.exit(f"error: {error}")
    print(asked.out)


def draw_samplers(graph: Graph, seed: int) -> str:
    """The picture of ``graph`` as SVG: a column for each sampler."""
    small = small_graph(graph, seed)
    note = f"{graph.name}: {graph.num_nodes:,} nodes"
    if small.num_nodes < graph.num_nodes:
        note = f"{small.num_nodes} neighbouring nodes of {graph.name}, which has {graph.num_nodes:,}"
    return to_svg(panels(small, seed), stress_layout(small), small.edge_index.numpy(), note)


# -- the graph and its layout ------------------------------------------------------------------------------------------


def small_graph(graph: Graph, seed: int) -> Graph:
    """A graph that is small enough to draw: ``graph`` itself, or a region of it.

    The training nodes are those of the graph; without any, a random half of the nodes.
    """
    nodes = np.arange(graph.num_nodes) if graph.num_nodes <= LIMIT else nearby(graph, seed)
    layer, n = induced_adjacency(graph, nodes), len(nodes)
    train = torch.zeros(n, dtype=torch.bool) if graph.train_mask is None else graph.train_mask[nodes]
    if not train.any():
        train[generator(seed).permutation(n)[: max(1, n // 2)]] = True
    x, y = torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)  # samplers do not use them
    small = Graph(layer.indptr, layer.indices, x=x, y=y, num_classes=2, train_mask=train, name=graph.name)
    return small.without_loops()


def nearby(graph: Graph, seed: int) -> np.ndarray:
    """Up to ``SHOWN`` connected nodes: a search from one node with a few neighbours per node, without the largest hubs.

    Of 40 starts, it takes the one with the most nodes, then the one with about three edges per node.
    """
    both_ways = Graph(graph.indptr, graph.indices, undirected=graph.undirected, checked=True).to_undirected()
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
    place = (place - low) / np.maximum(high - low, 1e-9)
    gap = min(0.11, 0.62 / n**0.5)
    for _ in range(200):  # overlapping nodes move apart
        delta = place[:, None] - place[None]
        length = np.linalg.norm(delta, axis=2) + 10 * np.eye(n)
        push = np.maximum(gap - length, 0) / np.maximum(length, 1e-9)
        place = np.clip(place + 0.25 * (push[:, :, None] * delta).sum(1), 0, 1)
    return place


# -- the batches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Panel:
    """The batch of one sampler.

    Args:
        title, subtitle: the sampler and its options.
        nodes: all nodes of the batch.
        targets: the nodes whose loss counts.
        edges: ``(2, E)``, sources and targets.
        directed: whether edges are drawn as arrows.
        walk: the nodes along a walk; empty for samplers without walks.
        groups: sets of nodes with a common background colour.
    """

    title: str
    subtitle: str
    nodes: np.ndarray
    targets: np.ndarray
    edges: np.ndarray
    directed: bool
    walk: Sequence[int] = ()
    groups: Sequence[np.ndarray] = field(default_factory=list)


def panels(graph: Graph, seed: int) -> list[Panel]:
    """A batch of every sampler on the result of ``small_graph``."""
    clusters = Clusters(clusters=min(4, graph.num_nodes), per_batch=min(2, graph.num_nodes))
    cluster = metis(graph, clusters.clusters)

    def joined(k: int) -> Batch:
        part, _ = deal_clusters(cluster, clusters.per_batch, generator(seed, k))
        nodes = np.flatnonzero(part == 0)
        return make_batch(graph, training_sample(graph, torch.from_numpy(nodes), (induced_adjacency(graph, nodes),)))

    walks, parts = RandomWalks(roots=1, length=7), RandomNodes(parts=min(2, graph.num_nodes))
    _, of_clusters = clearest(joined)
    drawn, of_walk = clearest(lambda k: next(walks.epoch(graph, seed, k)))
    _, of_parts = clearest(lambda k: next(parts.epoch(graph, seed, k)))
    groups = [np.flatnonzero(cluster == k) for k in np.unique(cluster)]
    sizes = f"{clusters.clusters} clusters, {clusters.per_batch} in a batch"
    neighbor, ladies = for_the_same_targets(graph, seed)
    return [
        neighbor,
        replace(panel("ClusterGCN", sizes, of_clusters), groups=groups),
        replace(panel("GraphSAINT", "1 walk of 7 steps", of_walk), walk=walks.walks(graph, seed, drawn, 0)[0].tolist()),
        ladies,
        panel("Random node sampling", f"{parts.parts} parts", of_parts),
    ]


def panel(title: str, subtitle: str, batch: Batch) -> Panel:
    """The panel of a batch."""
    nodes, targets = batch.nodes.numpy(), batch.nodes[batch.targets].numpy()
    edges = np.concatenate([batch.nodes[layer.edge_index].numpy() for layer in batch.layers], axis=1)
    return Panel(title, subtitle, nodes, targets, distinct(edges), not batch.layers[0].symmetric)


def distinct(edges: np.ndarray) -> np.ndarray:
    """Every edge once, without loops."""
    edges = np.unique(edges, axis=1)
    return edges[:, edges[0] != edges[1]]


def clearest(draw: Callable[[int], Batch]) -> tuple[int, Batch]:
    """The first draw with targets, helpers and an edge, and its number; else the first draw."""
    for k in range(DRAWS):
        batch = draw(k)
        if 0 < len(batch.targets) < batch.num_nodes and batch.num_edges:
            return k, batch
    return 0, draw(0)


def for_the_same_targets(graph: Graph, seed: int) -> tuple[Panel, Panel]:
    """Neighbour sampling and LADIES for the same targets, in the draw that shows their difference best.

    Neighbour sampling draws helpers for each node, and LADIES for all targets together. In the best draw most
    nodes of the first are not in the second.
    """
    neighbors = Neighbors(fanout=(2, 2), batch_size=TARGETS)
    ladies = Ladies(budget=(TARGETS, TARGETS), batch_size=TARGETS)
    batches = [next(neighbors.epoch(graph, seed, k)) for k in range(DRAWS)]
    csr, seeds = weighted_csr(graph), [batch.nodes[batch.targets].numpy() for batch in batches]
    pairs = [(batch, ladies.draw(csr, seed, k, 0, seeds[k])) for k, batch in enumerate(batches)]

    def difference(pair: tuple[Batch, list[Layer]]) -> int:
        own, common = set(pair[0].nodes.tolist()), {node for layer in pair[1] for node in layer.nodes.tolist()}
        return len(own - common) + min(len(common), 3 * TARGETS)

    batch, layers = max(pairs, key=difference)
    own = panel("Neighbour sampling", f"{TARGETS} targets, 2 neighbours of each node, 2 hops", batch)
    met = [batch.nodes[batch.targets], *(layer.nodes for layer in layers)]
    ends = [
        np.stack([layer.nodes[layer.indices.long()].numpy(), above.repeat_interleave(layer.indptr.diff()).numpy()])
        for above, layer in zip(met, layers, strict=False)
    ]
    new = [np.setdiff1d(nodes, np.concatenate(met[:i])) for i, nodes in enumerate(met) if i]
    common = replace(
        own,
        title="LADIES",
        subtitle=f"{TARGETS} targets, 2 layers of {TARGETS} nodes for all together",
        nodes=np.unique(np.concatenate(met)),
        edges=distinct(np.concatenate(ends, axis=1)),
        groups=[nodes for nodes in new if len(nodes)],
    )
    return own, common


# -- the drawing -------------------------------------------------------------------------------------------------------


def to_svg(shown: Sequence[Panel], place: np.ndarray, edges: np.ndarray, note: str) -> str:
    """The panels as SVG.

    Args:
        shown: one panel for each sampler.
        place: ``(N, 2)``, the position of each node in the unit square; the second coordinate points up.
        edges: ``(2, E)``, all edges of the graph.
        note: a line of text below the picture.
    """
    radius = round(float(np.clip(50 / np.sqrt(len(place)), 5.5, 10)), 1)
    margin = 2.2 * radius
    upright = np.stack([place[:, 0], 1 - place[:, 1]], 1)
    at = (upright * (WIDE - 2 * margin, HIGH - 2 * margin) + margin).round(1)
    columns = [shapes(one, at, edges, radius) for one in shown]
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    values = {"panels": columns, "edges": lines(edges.T, at), "note": note, "radius": radius}
    return page.from_string(PAGE).render(**values, wide=WIDE, high=HIGH).strip() + "\n"


def shapes(shown: Panel, at: np.ndarray, edges: np.ndarray, radius: float) -> dict[str, Any]:
    """The shapes of a panel for ``PAGE``: points as pairs of numbers, lines and arrows as paths."""
    taken, grounds = set(shown.nodes.tolist()), []
    for i, group in enumerate(shown.groups[:TINTS]):
        inside = edges[:, np.isin(edges, group).all(0)]
        kind = f"tint{i}" if taken >= set(group.tolist()) else "untaken"
        grounds.append((kind, at[group].tolist(), lines(inside.T, at)))
    steps = [arrow(at[u], at[v], radius, 0.18 if i % 2 else -0.18) for i, (u, v) in enumerate(pairwise(shown.walk))]
    arrows = [arrow(at[u], at[v], radius) for u, v in shown.edges.T] if shown.directed else []
    kinds = {
        "rest": np.setdiff1d(np.arange(len(at)), shown.nodes),
        "helpers": np.setdiff1d(shown.nodes, shown.targets),
        "targets": shown.targets,
        "roots": list(shown.walk[:1]),
    }
    return {
        "title": shown.title,
        "subtitle": shown.subtitle,
        "grounds": grounds,
        "walked": bool(shown.walk),
        "steps": list(filter(None, steps)),
        "arrows": list(filter(None, arrows)),
        "lines": "" if shown.directed else lines(shown.edges.T, at),
        **{kind: at[nodes].tolist() for kind, nodes in kinds.items()},
    }


def lines(pairs: Iterable[np.ndarray], at: np.ndarray) -> str:
    """One line per pair of nodes, also if the pair has both directions."""
    once = sorted({(min(u, v), max(u, v)) for u, v in (map(int, pair) for pair in pairs)})
    return "".join(f"M{at[u][0]} {at[u][1]}L{at[v][0]} {at[v][1]}" for u, v in once)


def arrow(start: np.ndarray, stop: np.ndarray, radius: float, bend: float = 0.0) -> str:
    """An arrow between the rims of two nodes; empty if they are too close."""
    delta = stop - start
    if np.hypot(*delta) < 2 * radius + 4:
        return ""
    middle = (start + stop) / 2 + bend * np.array([delta[1], -delta[0]])
    first, last = (end + (radius + 2) * (middle - end) / np.hypot(*(middle - end)) for end in (start, stop))
    return f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {last[0]:.1f} {last[1]:.1f}"


PAGE = """{% macro dots(points, kind, r) %}
<g class="{{ kind }}">{% for x, y in points %}<circle cx="{{ x }}" cy="{{ y }}" r="{{ r }}"/>{% endfor %}</g>
{% endmacro %}
{% macro lines(path, kind) %}{% if path %}<path class="{{ kind }}" d="{{ path }}"/>{% endif %}{% endmacro %}
{% macro arrows(paths, kind) %}
{% for path in paths %}<path class="{{ kind }}" d="{{ path }}" marker-end="url(#{{ kind }})"/>{% endfor %}
{% endmacro %}
{% macro text(x, y, words, kind) %}<text class="{{ kind }}" x="{{ x }}" y="{{ y }}">{{ words }}</text>{% endmacro %}
{% macro messages(panel, kind) %}{{ lines(panel.lines, "message") }}{{ arrows(panel.arrows, kind) }}{% endmacro %}
{% macro nodes(panel) %}
{{ dots(panel.helpers, "helper", radius) }}{{ dots(panel.targets, "target", radius) }}
{% endmacro %}
{% macro process(panel) %}
{% for kind, points, path in panel.grounds %}
<g class="{{ kind }}" stroke-width="{{ 3.4 * radius }}">
{{ dots(points, "ground", 1.8 * radius) }}{{ lines(path, "bridge") }}
</g>
{% endfor %}
{{ lines(edges, "edge" if panel.grounds else "pale edge") }}
{{ arrows(panel.steps, "ink") if panel.walked else messages(panel, "ink") }}
{{ dots(panel.rest, "rest", 0.8 * radius) }}{{ nodes(panel) }}{{ dots(panel.roots, "root", 1.6 * radius) }}
{% endmacro %}
{% set left, top, gap, bottom = 50, 74, 16, 78 %}
{% set below = top + high + gap %}
{% set width, height = left + panels | length * (wide + gap), below + high + bottom %}
<svg xmlns="http://www.w3.org/2000/svg" width="{{ width }}" height="{{ height }}" viewBox="0 0 {{ width }} {{ height }}"
role="img" font-family="system-ui, -apple-system, Segoe UI, DejaVu Sans, Helvetica, Arial, sans-serif">
<title>What each sampler draws. {{ note }}</title>
<style>
path { fill: none; stroke-width: 1.7; stroke-linecap: round }
text { fill: #2f3640; font-size: 15px; text-anchor: middle }
.head { font-weight: bold } .title { font-weight: bold; font-size: 18px }
.small { fill: #6b7480; font-size: 13px } .key { text-anchor: start }
.frame { fill: none; stroke: #e3e6ea }
.target, .helper, .rest { stroke: #ffffff; stroke-width: 1.3 }
.target { fill: #d7263d } .helper { fill: #1f6fb4 } .rest { fill: #b9c0c9 }
.root { fill: none; stroke: #2f3640; stroke-width: 1.4 }
.message, .soft { stroke: #6b7480 } .ink { stroke: #2f3640 }
.edge { stroke: #d3d8de; stroke-width: 1 } .pale { stroke: #e3e6ea }
{% for color in ("#ffe3a8", "#cdeac0", "#d9d2f4", "#c6e5f3") %}
.tint{{ loop.index0 }} { fill: {{ color }}; stroke: {{ color }} }
{% endfor %}
.untaken { fill: #eef0f2; stroke: #eef0f2 }
.ground { stroke: none } .bridge { stroke-width: inherit }
</style>
<defs>
{% for kind, color in (("ink", "#2f3640"), ("soft", "#6b7480")) %}
<marker id="{{ kind }}" viewBox="0 0 8 6" refX="7" refY="3" markerWidth="8" markerHeight="6" orient="auto"
markerUnits="userSpaceOnUse"><polygon points="0,0 8,3 0,6" fill="{{ color }}"/></marker>
{% endfor %}
</defs>
<rect width="100%" height="100%" fill="#ffffff"/>
{% for words, y in (("sampling process", top), ("sampled subgraph", below)) %}
<g transform="translate({{ left - 26 }} {{ y + high / 2 }}) rotate(-90)">{{ text(0, 0, words, "head") }}</g>
{% endfor %}
{% for panel in panels %}
<g transform="translate({{ left + loop.index0 * (wide + gap) }} 0)">
{{ text(wide / 2, 30, panel.title, "title") }}{{ text(wide / 2, 54, panel.subtitle, "small") }}
{% for y, inner in ((top, process(panel)), (below, messages(panel, "soft") + nodes(panel))) %}
<g transform="translate(0 {{ y }})"><rect class="frame" width="{{ wide }}" height="{{ high }}" rx="8"/>{{ inner }}</g>
{% endfor %}
</g>
{% endfor %}
{% set keys = (
("target", "target: its loss counts", 228), ("helper", "helper: passes messages only", 268),
("rest", "not sampled", 132)
) %}
{% set place = namespace(x=(width - keys | sum(attribute=2)) / 2) %}
{% for kind, words, wide in keys %}
{{ dots([(place.x, height - 46)], kind, 7) }}{{ text(place.x + 16, height - 41, words, "key") }}
{% set place.x = place.x + wide %}
{% endfor %}
{{ text(width / 2, height - 14, note, "small") }}
</svg>
"""
"""The template of the picture."""

if __name__ == "__main__":
    main()
