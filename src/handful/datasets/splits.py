"""Splits of nodes into training, validation and test nodes, with exact sizes. Equal arguments give equal splits.

Each function returns the three masks, by their names in ``Graph``, as in ``graph.replace(**stratified_split(...))``.
``shares`` are fractions of the labelled nodes. If they sum to less than 1, some nodes are in no mask.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.errors import DatasetError
from handful.graph import MASKS, Graph, is_label
from handful.kernels.csr import index_dtype
from handful.random import generator

Masks = dict[str, Tensor]
Shares = tuple[float, float, float]

RANDOM_HIGH: Shares = (0.50, 0.25, 0.25)
RANDOM_LOW: Shares = (0.10, 0.10, 0.80)
SPLIT = "stratified:60/20/20"
"""The split that is drawn by default for a graph without a split."""
BLOCK = 1 << 22
"""The number of nodes that are written to a mask at a time."""
NAMED: dict[str, Shares] = {"rh": RANDOM_HIGH, "rl": RANDOM_LOW}


def sizes(count: int, shares: Shares) -> tuple[int, int, int]:
    """The number of nodes in each mask: the fractions of ``count``, rounded. If the fractions sum to 1, all remaining
    nodes are test nodes.

    >>> sizes(11, (0.5, 0.25, 0.25)), sizes(10, (0.1, 0.1, 0.1))
    ((6, 3, 2), (1, 1, 1))
    """
    if not (all(s >= 0 for s in shares) and sum(shares) <= 1 + 1e-9):
        raise DatasetError(f"shares of a split must not be negative and sum to at most 1, got {shares}")
    train, val = (round(count * s) for s in shares[:2])
    val = min(val, count - train)
    rest = count - train - val
    return train, val, rest if sum(shares) > 1 - 1e-9 else min(rest, round(count * shares[2]))


def random_split(num_nodes: int, shares: Shares, seed: int, among: Tensor | None = None) -> Masks:
    """Draw uniformly random masks.

    Args:
        num_nodes: N.
        shares: the fractions of training, validation and test nodes; their sum is at most 1.
        seed: the same seed gives the same split.
        among: boolean ``(N,)``, the nodes to split; ``None`` for all nodes.

    Returns:
        ``train_mask``, ``val_mask`` and ``test_mask``, boolean ``(N,)``.

    >>> {name: int(mask.sum()) for name, mask in random_split(10, (0.5, 0.2, 0.3), seed=0).items()}
    {'train_mask': 5, 'val_mask': 2, 'test_mask': 3}
    """
    nodes = np.arange(num_nodes, dtype=index_dtype(num_nodes)) if among is None else among.cpu().numpy().nonzero()[0]
    generator(seed).shuffle(nodes)
    return _by_order(nodes, num_nodes, shares)


def rank_split(rank: Tensor, shares: Shares) -> Masks:
    """Split by rank: the nodes with the lowest ``rank`` are for training, the next for validation, the next for test.
    Among nodes of equal rank, the smaller id comes first.

    Args:
        rank: ``(N,)``, any numbers.
        shares: the fractions of training, validation and test nodes; their sum is at most 1.

    >>> rank_split(torch.tensor([30, 10, 20, 40]), (0.5, 0.25, 0.25))["train_mask"]
    tensor([False,  True,  True, False])
    """
    return _by_order(np.argsort(rank.cpu().numpy(), kind="stable"), len(rank), shares)


def time_split(time: np.ndarray, shares: Shares, among: np.ndarray) -> tuple[dict[str, np.ndarray], list[float]]:
    """Split by time: the earliest nodes are for training, the next for validation, the last for test.

    Also return the earliest time of the validation nodes and of the test nodes. Nodes with the same time are in the
    same mask, so the sizes of the masks are only as close to the fractions as possible.

    Args:
        time: ``(N,)``, any numbers.
        shares: the fractions of training, validation and test nodes.
        among: boolean ``(N,)``, the nodes to split; each must have a time.

    >>> masks, first = time_split(np.array([5.0, 1, 2, 2, 9, 7]), (0.5, 0.25, 0.25), np.ones(6, bool))
    >>> masks["train_mask"].tolist(), first
    ([False, True, True, True, False, False], [5.0, 9.0])
    """
    ordered = np.sort(time[among])
    starts = np.flatnonzero(np.diff(ordered) > 0) + 1
    if len(starts) < 2:
        raise DatasetError(f"a split by time needs three different times of labelled nodes, got {len(starts) + 1}")
    cuts = np.cumsum(sizes(len(ordered), shares))
    train = starts[np.abs(starts[:-1] - cuts[0]).argmin()]
    later = starts[starts > train]
    first = [float(ordered[place]) for place in (train, later[np.abs(later - cuts[1]).argmin()])]
    part = np.searchsorted(first, time, "right")
    return {name: among & (part == i) for i, name in enumerate(MASKS)}, first


def stratified_split(y: Tensor, shares: Shares, seed: int) -> Masks:
    """Draw random masks that have equal class proportions. The number of nodes per class is exact up to one node in the
    training mask, and up to two nodes in the other masks.

    The nodes are sorted by class, with a random order within each class. To draw k of n nodes, every (n/k)-th node is
    taken, from a random start. So the sizes are exact, and all nodes have the same probability. For regression, the
    nodes are sorted by label, so that each mask contains small and large values. A node with several labels counts as a
    node of its rarest label.

    Args:
        y: labels as in ``Graph``; nodes without a label are in no mask.
        shares: the fractions of training, validation and test nodes; their sum is at most 1.
        seed: the same seed gives the same split.

    >>> y = torch.tensor([0] * 8 + [1] * 4)
    >>> y[stratified_split(y, (0.5, 0.25, 0.25), seed=0)["train_mask"]]
    tensor([0, 0, 0, 0, 1, 1])
    """
    labels = _stratum(y).cpu().numpy()
    rng = generator(seed)
    nodes = rng.permutation(is_label(y).cpu().numpy().nonzero()[0])
    nodes = nodes[np.argsort(labels[nodes], kind="stable")]
    groups = []
    for size in sizes(len(nodes), shares):
        drawn = _every_nth(len(nodes), size, rng)
        groups.append(nodes[drawn])
        nodes = nodes[~drawn]
    return _masks(groups, len(labels))


def _stratum(y: Tensor) -> Tensor:
    """The sort key of each node: its class, its regression label, or its rarest label in a multi-label task. In a
    multi-label task, nodes with no label come last.
    """
    if y.ndim == 1:
        return y
    has = y == 1
    return torch.where(has.any(1), has[:, has.sum(0).argsort(stable=True)].to(torch.uint8).argmax(1), y.shape[1])


def draw_split(graph: Graph, split: str, seed: int) -> Masks:
    """Draw the random split ``split`` for any labelled graph.

    ``rh`` is ``stratified:50/25/25``, and ``rl`` is ``stratified:10/10/80``. Other splits are, for example,
    ``random:60/20/20`` or ``stratified:60/20/20``.

    >>> graph = Graph.from_edge_index([[0], [1]], y=[0, 1, 0, 1])
    >>> draw_split(graph, "random:50/50/0", seed=0)["val_mask"].sum()
    tensor(2)
    """
    check_seed(seed)
    if graph.y is None:
        raise DatasetError(f"split '{split}' needs labels, and graph '{graph.name}' has none")
    shares = shares_of(split)
    if shares is None:
        known = "rh, rl, random:60/20/20, stratified:60/20/20, or time:COLUMN when tables are imported"
        raise DatasetError(f"split '{split[:60]}' is unknown: write {known}")
    if split.startswith("random:"):
        return random_split(graph.num_nodes, shares, seed, graph.labelled)
    return stratified_split(graph.y, shares, seed)


def check_seed(seed: Any) -> None:
    """Raise an error if the seed is not a whole number from 0 to 2⁶³ - 1.

    >>> check_seed(42)
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**63:
        raise DatasetError(f"seed must be a whole number from 0 to 2⁶³ - 1, got {seed!r}")


def is_drawn(split: str) -> bool:
    """Whether ``split`` describes a random split, such as ``random:60/20/20``, and is not a name such as ``rh``.

    >>> is_drawn("random:60/20/20"), is_drawn("rh")
    (True, False)
    """
    return split.startswith(("random:", "stratified:"))


def shares_of(split: str) -> Shares | None:
    """The fractions of training, validation and test nodes in a random split; ``None`` for any other text.

    >>> shares_of("rl"), shares_of("random:50/50/0"), shares_of("official")
    ((0.1, 0.1, 0.8), (0.5, 0.5, 0.0), None)
    """
    if split in NAMED or not is_drawn(split):
        return NAMED.get(split)
    try:
        train, val, test = (float(part) / 100 for part in split.partition(":")[2].split("/"))
    except ValueError:
        return None
    return train, val, test


def _every_nth(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Systematic sampling: a mask that selects exactly ``size`` of ``count`` indices, evenly spaced, with a random
    start.
    """
    steps = (np.arange(count + 1, dtype=np.int64) * size + rng.integers(max(count, 1))) // max(count, 1)
    return np.diff(steps) > 0


def _by_order(order: np.ndarray, num_nodes: int, shares: Shares) -> Masks:
    return _masks(np.split(order, np.cumsum(sizes(len(order), shares)))[:3], num_nodes)


def _masks(groups: list[np.ndarray], num_nodes: int) -> Masks:
    out = {name: np.zeros(num_nodes, bool) for name in MASKS}
    for name, group in zip(MASKS, groups, strict=True):
        for lo in range(0, len(group), BLOCK):  # numpy converts every index to int64
            out[name][group[lo : lo + BLOCK]] = True
    return {name: torch.from_numpy(mask) for name, mask in out.items()}
