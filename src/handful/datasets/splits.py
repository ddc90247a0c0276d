"""Which nodes are for training, validation and test: pure functions of their arguments, sizes exact.

Each returns the three masks under the names that ``Graph`` gives them: ``graph.replace(**stratified_split(...))``.
Shares are those of the nodes that have a label; shares that sum to less than one leave nodes out of all masks.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from handful.errors import DatasetError
from handful.graph import MASKS, Graph
from handful.random import generator

Masks = dict[str, Tensor]
Shares = tuple[float, float, float]

RANDOM_HIGH: Shares = (0.50, 0.25, 0.25)
RANDOM_LOW: Shares = (0.10, 0.10, 0.80)
NAMED: dict[str, Shares] = {"rh": RANDOM_HIGH, "rl": RANDOM_LOW}


def sizes(count: int, shares: Shares) -> tuple[int, int, int]:
    """How many of ``count`` nodes each mask gets: shares rounded, and the last one takes what is left of a whole."""
    if any(s < 0 for s in shares) or sum(shares) > 1 + 1e-9:
        raise DatasetError(f"shares of a split must be positive and sum to at most 1, got {shares}")
    train, val = (round(count * s) for s in shares[:2])
    val = min(val, count - train)
    rest = count - train - val
    return train, val, rest if sum(shares) > 1 - 1e-9 else min(rest, round(count * shares[2]))


def random_split(num_nodes: int, shares: Shares, seed: int, among: Tensor | None = None) -> Masks:
    """Uniformly random masks over all nodes, or over those of the boolean mask ``among``."""
    nodes = np.arange(num_nodes) if among is None else among.cpu().numpy().nonzero()[0]
    return _by_order(generator(seed).permutation(nodes), num_nodes, shares)


def rank_split(rank: Tensor, shares: Shares) -> Masks:
    """The nodes of lowest ``rank`` train, the next validate, the others test (ogbn-products: rank by sales).

    Of nodes with equal rank the smaller id comes first.
    """
    return _by_order(np.argsort(rank.cpu().numpy(), kind="stable"), len(rank), shares)


def stratified_split(y: Tensor, shares: Shares, seed: int) -> Masks:
    """Random masks in which every class has its share, to within one node in training and two in the others.

    Nodes in random order within their classes, classes one after another: every (n/k)-th node is drawn, from a random
    start. So the sizes are exact, and every node has the same chance. Nodes without a label (-1) are left out.
    """
    labels = y.cpu().numpy()
    rng = generator(seed)
    nodes = rng.permutation(np.flatnonzero(labels >= 0))
    nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    groups = []
    for size in sizes(len(nodes), shares):
        drawn = _every_nth(len(nodes), size, rng)
        groups.append(nodes[drawn])
        nodes = nodes[~drawn]
    return _masks(groups, len(labels))


def drawn_split(graph: Graph, split: str, seed: int) -> Masks:
    """A split of any labelled graph by its spelling.

    ``rh`` and ``rl`` are stratified 50/25/25 and 10/10/80; ``random:60/20/20`` and ``stratified:60/20/20`` say it all.
    """
    if graph.y is None:
        raise DatasetError(f"split '{split}' needs labels, and graph '{graph.name}' has none")
    kind, _, text = split.partition(":")
    if split in NAMED:
        return stratified_split(graph.y, NAMED[split], seed)
    shares = _shares(text)
    if shares is None or kind not in ("random", "stratified"):
        raise DatasetError(f"split '{split}' is unknown: write rh, rl, random:60/20/20 or stratified:60/20/20")
    if kind == "random":
        return random_split(graph.num_nodes, shares, seed, graph.y >= 0)
    return stratified_split(graph.y, shares, seed)


def is_drawn(split: str) -> bool:
    """Whether ``split`` spells out a split to draw, rather than naming one of a data set's own."""
    return split.startswith(("random:", "stratified:"))


def _shares(text: str) -> Shares | None:
    try:
        train, val, test = (float(part) / 100 for part in text.split("/"))
    except ValueError:
        return None
    return train, val, test


def _every_nth(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic sampling: exactly ``size`` of ``count`` places, evenly spaced from a random start, as a mask."""
    steps = (np.arange(count + 1, dtype=np.int64) * size + rng.integers(max(count, 1))) // max(count, 1)
    return np.diff(steps) > 0


def _by_order(order: np.ndarray, num_nodes: int, shares: Shares) -> Masks:
    cuts = np.cumsum(sizes(len(order), shares))
    return _masks(np.split(order, cuts)[:3], num_nodes)


def _masks(groups: list[np.ndarray], num_nodes: int) -> Masks:
    out = {name: torch.zeros(num_nodes, dtype=torch.bool) for name in MASKS}
    for name, group in zip(MASKS, groups, strict=True):
        out[name][torch.from_numpy(group)] = True
    return out
