"""Neighbour sampling on numpy arrays, as pyg-lib defines it, for graphs with one or several node types.

A relation leads from rows (the expanded nodes) to columns (their neighbours). Random numbers depend only on the key,
the hop and the relation, and not on threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from handful.kernels.neighbors import NODE, TREE, Known, heads, pick, spans, until
from handful.random import derive_seed, generator

Counts = Mapping[str, Sequence[int]]
"""For each node type or relation, one number per hop."""


@dataclass(eq=False, kw_only=True)
class Relation:
    """The edges of one type as a CSR, and the options for sampling them."""

    rows: str
    """The type of the nodes in the rows; ``cols`` is the type of their neighbours."""
    cols: str
    rowptr: np.ndarray
    col: np.ndarray
    fanout: Sequence[int] = ()
    """For each hop, the number of edges to sample per new node; -1 for all edges."""
    replace: bool = False
    weight: np.ndarray | None = None
    time: np.ndarray | None = None
    """The time of every edge, or of every node of type ``cols`` if ``of_nodes`` is true. The edges of each row must be
    sorted by time.
    """
    of_nodes: bool = False
    seed_time: np.ndarray | None = None
    """The times of all seeds, in order. The tree of a seed has no edges after the time of the seed."""
    latest: bool = False
    """Whether to take the latest edges before or at the seed's time, instead of random ones."""

    def take(
        self, keys: np.ndarray, hop: int | None = None, key: int = 0, bound: int = NODE, threads: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sample edges from the rows of the nodes ``keys``. The result is three arrays with an entry per edge: the
        index of the node in ``keys``, the key of the neighbour, and the index of the edge in ``col``.

        Args:
            keys: the nodes to expand. A key is a node id, with the tree's index in the upper bits.
            hop: the hop, as an index into ``fanout``; ``None`` to take all edges.
            key: the seed of the random numbers.
            bound: neighbours must have ids below this bound.
        """
        count = -1 if hop is None else self.fanout[hop]
        start, stop = spans(keys, self.rowptr, len(self.col))
        limit = None
        if self.time is not None and self.seed_time is not None:
            limit = self.seed_time[keys >> TREE]
            until(start, stop, limit, self.time, self.col, self.of_nodes, count if self.latest else -1, threads)
        ptr, places = pick(start, stop, count, self.replace, self.weight, key, threads)
        met = heads(keys, ptr, places, self.col, bound, limit, self.time, self.of_nodes, threads)
        return np.repeat(np.arange(len(keys)), np.diff(ptr)), met, places


Relations = Mapping[str, Relation]
"""The relations by name."""
Seeds = Mapping[str, np.ndarray]
"""The ids of the seeds, by type."""


class Sampled(NamedTuple):
    """A sample: the nodes of each type, in the order in which they were sampled, and the edges of each relation and
    hop.
    """

    known: dict[str, Known]
    nodes_per_hop: dict[str, list[int]]
    edges: dict[str, list[tuple[np.ndarray, ...]]]
    """The row and the column of each edge, as indices into the nodes of the sample, and the index of the edge in
    ``col``.
    """

    def nodes(self, kind: str, with_trees: bool = False) -> np.ndarray:
        """The ids of the nodes of type ``kind``, ``(N,)``. If ``with_trees``, the result is ``(N, 2)``: the index of
        the node's tree, and the node id.
        """
        keys = self.known[kind].keys[: self.known[kind].count]
        return np.stack([keys >> TREE, keys & NODE], axis=1) if with_trees else keys & NODE


def sample(
    kinds: Sequence[str], relations: Relations, seeds: Seeds, *, key: int, disjoint: bool = False, threads: int = 1
) -> Sampled:
    """Sample the neighbourhood of ``seeds``, hop by hop. For every new node, edges are drawn from each relation whose
    rows have the node's type.

    Args:
        kinds: the types of nodes.
        relations: the relations by name, sampled in this order.
        seeds: the ids of the seeds of each type; the trees of the seeds are numbered in this order.
        key: the seed of all random numbers.
        disjoint: whether to sample a separate tree for each seed, which relations with times require.

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
            keys, bound = known[relation.rows].keys[begin : end[relation.rows]], bounds.get(relation.cols, NODE)
            rows, met, places = relation.take(keys, hop, derive_seed(key, hop, place), bound, threads)
            edges[name].append((begin + rows, known[relation.cols].meet(met), places))
        for kind in kinds:
            first[kind] = end[kind]
            per_hop[kind].append(known[kind].count - end[kind])
    return Sampled(known, per_hop, edges)


def _seeded(kinds: Sequence[str], seeds: Seeds, disjoint: bool) -> dict[str, Known]:
    known, trees = {}, 0
    for kind, ids in seeds.items():
        apart = np.arange(trees, trees + len(ids)) << TREE if disjoint else np.zeros(len(ids), np.int64)
        trees += len(ids)
        known[kind] = Known(ids | apart)
    return {kind: known[kind] if kind in known else Known(np.empty(0, np.int64)) for kind in kinds}


def induced(relation: Relation, rows: Known, cols: Known, threads: int = 1) -> tuple[np.ndarray, ...]:
    """All edges of a relation between the nodes ``rows`` and ``cols`` of a sample: the row, the column and the index of
    each edge.
    """
    row, met, places = relation.take(rows.keys[: rows.count], threads=threads)
    numbers = cols.find(met)
    inside = numbers >= 0
    return row[inside], numbers[inside], places[inside]


def layered(
    kinds: Sequence[str], relations: Relations, seeds: Seeds, counts: Counts, hops: int, *, key: int, threads: int = 1
) -> Sampled:
    """The layer-wise sampling of the Heterogeneous Graph Transformer (Hu et al. 2020, algorithms 1 and 2).

    The budget of a node that is not yet sampled is Σ 1/deg(t), over its edges to sampled nodes t. Each hop samples
    ``counts[kind][hop]`` nodes of every type without replacement, with probability ∝ budget². The result contains all
    edges between the sampled nodes.

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
            rows, met, _ = relation.take(keys, threads=threads)
            share = 1.0 / np.bincount(rows)[rows]
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
    """Draw the indices of ``count`` positive entries without replacement, with probability ∝ the square of the
    entry.
    """
    open_ = np.flatnonzero(budget)
    if count >= len(open_):
        return open_
    rank = np.log1p(-generator(key).random(len(open_))) / budget[open_] ** 2
    return open_[np.argpartition(rank, len(rank) - count)[len(rank) - count :]] if count > 0 else open_[:0]
