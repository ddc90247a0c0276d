"""Neighbour sampling as pyg-lib defines it, for graphs of one type of nodes or of many, on numpy arrays.

A relation leads from rows (the nodes that are expanded) to columns (the nodes that are met). Its draws depend on the
key, the hop and the relation alone, not on threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from handful.kernels.neighbors import NODE, TREE, Known, heads, pick, spans, until
from handful.random import derive_seed, generator

Strategy = Literal["uniform", "last"]


@dataclass(eq=False, kw_only=True)
class Relation:
    """The edges of one type, compressed by rows."""

    rows: str
    """The type of the nodes that have a row each."""
    cols: str
    rowptr: np.ndarray
    col: np.ndarray
    fanout: Sequence[int] = ()
    """For each hop how many edges a new node takes; -1 for all."""
    weight: np.ndarray | None = None
    edge_time: np.ndarray | None = None
    """Of every edge; ascending in each row."""
    node_time: np.ndarray | None = None
    """Of every node of type ``cols``; ascending in each row."""


class Sampled(NamedTuple):
    """Nodes by type, in the order in which they were met, and edges by relation and hop."""

    known: dict[str, Known]
    nodes_per_hop: dict[str, list[int]]
    edges: dict[str, list[tuple[np.ndarray, ...]]]
    """The numbers of their rows and columns, and their places in ``col``."""

    def nodes(self, kind: str) -> np.ndarray:
        """The ids of the nodes of this type."""
        return self.known[kind].keys[: self.known[kind].count] & NODE

    def trees(self, kind: str) -> np.ndarray:
        """The tree of each of them: the number of its seed."""
        return self.known[kind].keys[: self.known[kind].count] >> TREE


def sample(
    kinds: Sequence[str],
    relations: Mapping[str, Relation],
    seeds: Mapping[str, np.ndarray],
    *,
    key: int,
    replace: bool = False,
    disjoint: bool = False,
    strategy: Strategy = "uniform",
    seed_time: np.ndarray | None = None,
    threads: int = 1,
) -> Sampled:
    """Sample around seeds, hop by hop: every node that is new in a hop takes edges of each relation that has its rows.

    Args:
        kinds: the types of nodes.
        relations: by name; they are sampled in this order.
        seeds: ids of every type; the trees are numbered in this order.
        key: what everything is drawn from.
        replace: take edges with replacement.
        disjoint: keep what is sampled around each seed apart.
        strategy: of the edges not later than the seed, take any or the latest.
        seed_time: of all seeds in order, for relations with times; needs ``disjoint``.

    >>> to_itself = Relation(rows="", cols="", rowptr=np.array([0, 2, 2, 2]), col=np.array([1, 2]), fanout=[-1])
    >>> sampled = sample([""], {"": to_itself}, {"": np.array([0])}, key=0)
    >>> sampled.nodes(""), sampled.nodes_per_hop[""], sampled.edges[""][0][1]
    (array([0, 1, 2]), [1, 2], array([1, 2]))
    """
    known = _seeded(kinds, seeds, disjoint)
    per_hop = {kind: [known[kind].count] for kind in kinds}
    bounds = {relation.rows: len(relation.rowptr) - 1 for relation in relations.values()}
    edges: dict[str, list[tuple[np.ndarray, ...]]] = {name: [] for name in relations}
    first = dict.fromkeys(kinds, 0)
    for hop in range(max((len(r.fanout) for r in relations.values()), default=0)):
        end = {kind: known[kind].count for kind in kinds}
        for place, (name, relation) in enumerate(relations.items()):
            begin = first[relation.rows]
            keys = known[relation.rows].keys[begin : end[relation.rows]]
            count = relation.fanout[hop]
            start, stop = spans(keys, relation.rowptr, len(relation.col), threads)
            limit, time = None, relation.edge_time if relation.edge_time is not None else relation.node_time
            of_nodes = relation.edge_time is None
            if time is not None:
                assert seed_time is not None
                limit = seed_time[keys >> TREE]
                last = count if strategy == "last" else -1
                until(start, stop, limit, time, relation.col, of_nodes, last, threads)
            own_key = derive_seed(key, hop, place)
            ptr, picked = pick(start, stop, count, replace, relation.weight, own_key, threads)
            bound = bounds.get(relation.cols, NODE)
            met = heads(keys, ptr, picked, relation.col, bound, limit, time, of_nodes, threads)
            rows = np.repeat(np.arange(begin, end[relation.rows]), np.diff(ptr))
            edges[name].append((rows, known[relation.cols].meet(met), picked))
        for kind in kinds:
            first[kind] = end[kind]
            per_hop[kind].append(known[kind].count - end[kind])
    return Sampled(known, per_hop, edges)


def _seeded(kinds: Sequence[str], seeds: Mapping[str, np.ndarray], disjoint: bool) -> dict[str, Known]:
    known, trees = {}, 0
    for kind, ids in seeds.items():
        apart = np.arange(trees, trees + len(ids)) << TREE if disjoint else np.zeros(len(ids), np.int64)
        trees += len(ids)
        known[kind] = Known(ids | apart)
    return {kind: known[kind] if kind in known else Known(np.empty(0, np.int64)) for kind in kinds}


def induced(relation: Relation, rows: Known, cols: Known, threads: int = 1) -> tuple[np.ndarray, ...]:
    """All edges of a relation between nodes of a sample: numbers of their rows and columns, and their places."""
    keys = rows.keys[: rows.count]
    start, stop = spans(keys, relation.rowptr, len(relation.col), threads)
    ptr, places = pick(start, stop, -1, False, None, 0, threads)
    numbers = cols.find(heads(keys, ptr, places, relation.col, NODE, threads=threads))
    inside = numbers >= 0
    return np.repeat(np.arange(rows.count), np.diff(ptr))[inside], numbers[inside], places[inside]


def layered(
    kinds: Sequence[str],
    relations: Mapping[str, Relation],
    seeds: Mapping[str, np.ndarray],
    counts: Mapping[str, Sequence[int]],
    hops: int,
    *,
    key: int,
    threads: int = 1,
) -> Sampled:
    """The layer-wise sampling of the Heterogeneous Graph Transformer (Hu et al. 2020, algorithms 1 and 2).

    A node that is not sampled yet has the budget  Σ 1/deg(t)  over its edges to sampled nodes t. Each hop samples
    ``counts[kind][hop]`` nodes of every type without replacement, with probability ∝ budget². The sample has all edges
    between its nodes.

    >>> to_itself = Relation(rows="", cols="", rowptr=np.array([0, 2, 2, 2]), col=np.array([1, 2]))
    >>> layered([""], {"": to_itself}, {"": np.array([0])}, {"": [1]}, hops=1, key=0).nodes_per_hop
    {'': [1, 1]}
    """
    known = _seeded(kinds, seeds, disjoint=False)
    per_hop = {kind: [known[kind].count] for kind in kinds}
    near = {kind: Known(np.empty(0, np.int64)) for kind in kinds}
    budget = {kind: np.empty(0) for kind in kinds}
    first = dict.fromkeys(kinds, 0)
    for hop in range(hops):
        for relation in relations.values():
            keys = known[relation.rows].keys[first[relation.rows] : known[relation.rows].count]
            start, stop = spans(keys, relation.rowptr, len(relation.col), threads)
            ptr, places = pick(start, stop, -1, False, None, 0, threads)
            met = heads(keys, ptr, places, relation.col, NODE, threads=threads)
            share = np.repeat(1.0 / np.maximum(stop - start, 1), np.diff(ptr))
            new = known[relation.cols].find(met) < 0
            numbers = near[relation.cols].meet(met[new])
            grown = np.zeros(near[relation.cols].count)
            grown[: len(budget[relation.cols])] = budget[relation.cols]
            budget[relation.cols] = grown + np.bincount(numbers, share[new], len(grown))
        for place, kind in enumerate(kinds):
            first[kind] = known[kind].count
            chosen = _by_square(budget[kind], counts[kind][hop], derive_seed(key, hop, place))
            known[kind].meet(near[kind].keys[chosen])
            budget[kind][chosen] = 0.0
            per_hop[kind].append(len(chosen))
    edges = {name: [induced(r, known[r.rows], known[r.cols], threads)] for name, r in relations.items()}
    return Sampled(known, per_hop, edges)


def _by_square(budget: np.ndarray, count: int, key: int) -> np.ndarray:
    """The places of ``count`` positive entries, drawn one after the other with probability ∝ their square."""
    open_ = np.flatnonzero(budget)
    if count >= len(open_):
        return open_
    rank = np.log1p(-generator(key).random(len(open_))) / budget[open_] ** 2
    return open_[np.argpartition(rank, len(rank) - count)[len(rank) - count :]] if count > 0 else open_[:0]
