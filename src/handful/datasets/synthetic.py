"""``synthetic``: a degree-corrected block model of any size, with power-law degrees and class-dependent features.

Classes have equal sizes. The node of rank i in its class of n has the weight w_i ∝ (i + i₀)^(-a), a = 1/(exponent − 1),
which makes P(degree > k) fall as k^(1 − exponent) up to the cutoff that i₀ sets. Of N·degree/2 pairs each has one end
drawn by weight from all nodes and the other by weight from the same class (with probability ``homophily``) or from
another class. Pairs that hit one node twice are dropped and repeated pairs merged, so that the graph is simple and its
mean degree a little below ``degree``. Every number is a hash of (seed, counter): threads do not change the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.datasets.registry import Request, Source
from handful.datasets.splits import random_split
from handful.errors import DatasetError
from handful.graph import Graph
from handful.kernels.counter import below, mix, uniform
from handful.kernels.csr import index_dtype
from handful.kernels.threads import even_ranges, get_threads, kernel, over_rows, row_ranges, run
from handful.random import derived_seed, generator

ORDER, START, PAIRS, MEANS, NOISE, SPLIT = range(6)
"""The keys of the random streams."""


@dataclass(frozen=True)
class BlockModel:
    """The options of ``synthetic?nodes=100000&degree=20``."""

    nodes: int = 100_000
    degree: float = 20.0
    """The mean degree before repeated pairs are merged."""
    exponent: float = 2.5
    """Of the degree distribution, above 2."""
    classes: int = 10
    homophily: float = 0.6
    """The share of edges within a class."""
    features: int = 64
    """0 for topology and labels alone."""
    signal: float = 2.0
    """How far the means of the classes lie from the origin, in standard deviations of the noise."""
    half: bool = False
    """Features in float16."""
    train: float = 0.5
    val: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "nodes": (2 * self.classes, 2**31 - 1),
            "degree": (0, self.nodes / self.classes / 2),
            "classes": (2, 2**15),
            "homophily": (0, 1),
            "features": (0, 2**20),
            "train": (1 / self.nodes if self.nodes > 0 else 1, 1),
            "val": (0, 1 - self.train),
            "signal": (0, 1e6),
            "seed": (0, 2**62),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise DatasetError(f"synthetic: {name} must be between {low:g} and {high:g}, got {value}")
        if not self.exponent > 2:
            raise DatasetError(f"synthetic: exponent must be above 2, got {self.exponent}: the mean degree is infinite")


# -- edges ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weights:
    """The weights of the ranks in one class, by the share of the class that the ranks below i hold."""

    size: int
    power: float
    """1 − a."""
    offset: float
    """i₀."""

    def share(self, rank: Any) -> Any:
        low, high = self.offset**self.power, (self.size + self.offset) ** self.power
        return ((rank + self.offset) ** self.power - low) / (high - low)


def _weights(size: int, model: BlockModel) -> _Weights:
    """Weights whose largest expected degree k meets its equal in the class about once: k²·homophily = size·degree.

    Without this cutoff the hubs would be drawn together many times over, and merging would bend the power law.
    """
    power = 1 - 1 / (model.exponent - 1)
    cutoff = max(2 * model.degree, (size * model.degree / max(model.homophily, 1 / model.classes)) ** 0.5)
    low, high = 0.0, float(size)
    for _ in range(60):
        middle = (low + high) / 2
        too_large = model.degree * size * _Weights(size, power, middle).share(1) > cutoff
        low, high = (middle, high) if too_large else (low, middle)
    return _Weights(size, power, high)


@kernel
def _draw(lo: int, hi: int, first: Any, start: Any, member: Any, low: Any, high: Any, offset: Any, power: float,
          homophily: float, key: Any, out: Any) -> None:  # fmt: skip
    """The other ends of the pairs of places lo to hi; ``first`` says where the pairs of each place begin."""
    classes = start.shape[0] - 1
    own = np.searchsorted(start, lo, side="right") - 1
    for place in range(lo, hi):
        while place >= start[own + 1]:
            own += 1
        for e in range(first[place], first[place + 1]):
            c = own
            if uniform(key, 3 * e) >= homophily:
                c = (own + 1 + below(key, 3 * e + 1, classes - 1)) % classes
            u = uniform(key, 3 * e + 2)
            rank = int((low[c] + u * (high[c] - low[c])) ** (1 / power) - offset[c])
            size = start[c + 1] - start[c]
            out[e] = member[start[c] + min(max(rank, 0), size - 1)]


@kernel
def _degrees(lo: int, hi: int, first: Any, member: Any, other: Any, degree: Any) -> None:
    """The degrees of nodes lo to hi, loops not counted."""
    for place in range(member.shape[0]):
        v = member[place]
        mine = lo <= v < hi
        for e in range(first[place], first[place + 1]):
            u = other[e]
            if u == v:
                continue
            if mine:
                degree[v] += 1
            if lo <= u < hi:
                degree[u] += 1


@kernel
def _place(lo: int, hi: int, first: Any, member: Any, other: Any, cursor: Any, out: Any) -> None:
    """The rows of nodes lo to hi, in any order."""
    for place in range(member.shape[0]):
        v = member[place]
        mine = lo <= v < hi
        for e in range(first[place], first[place + 1]):
            u = other[e]
            if u == v:
                continue
            if mine:
                out[cursor[v]] = u
                cursor[v] += 1
            if lo <= u < hi:
                out[cursor[u]] = v
                cursor[u] += 1


@kernel
def _sort_rows(lo: int, hi: int, indptr: Any, indices: Any, kept: Any) -> None:
    """Sort each row and bring its distinct values to its front."""
    for v in range(lo, hi):
        row = indices[indptr[v] : indptr[v + 1]]
        row.sort()
        count = 0
        for i in range(row.shape[0]):
            if count == 0 or row[i] != row[count - 1]:
                row[count] = row[i]
                count += 1
        kept[v] = count


@kernel
def _close_gaps(lo: int, hi: int, indptr: Any, old_indptr: Any, old: Any, out: Any) -> None:
    for v in range(lo, hi):
        for i in range(indptr[v + 1] - indptr[v]):
            out[indptr[v] + i] = old[old_indptr[v] + i]


def _starts(model: BlockModel) -> np.ndarray:
    """Where the members of each class begin among the places 0 to N."""
    return np.array([model.nodes * c // model.classes for c in range(model.classes + 1)])


def topology(model: BlockModel, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``indptr`` and ``indices`` of the model; ``member`` lists the nodes class by class, heaviest first."""
    n, start, pairs = model.nodes, _starts(model), round(model.nodes * model.degree / 2)
    weights = [_weights(int(size), model) for size in np.diff(start)]
    # The pairs of place p begin at ⌊pairs·share(p) + u⌋: each place has as many as its weight says, to within one.
    total = np.concatenate([s + w.size * w.share(np.arange(w.size)) for s, w in zip(start, weights, strict=False)])
    first = np.append(np.floor(total * (pairs / n) + generator(model.seed, START).random()), pairs).astype(np.int64)
    low = np.array([w.offset**w.power for w in weights])
    high = np.array([(w.size + w.offset) ** w.power for w in weights])
    offset, power = np.array([w.offset for w in weights]), weights[0].power
    other = np.empty(pairs, index_dtype(n))
    key = np.uint64(derived_seed(model.seed, PAIRS))
    run(_draw, row_ranges(first, get_threads()), first, start, member, low, high, offset, power,
        float(model.homophily), key, other)  # fmt: skip
    degree = np.zeros(n, np.int64)
    rows = even_ranges(n, get_threads())
    run(_degrees, rows, first, member, other, degree)
    loose = np.concatenate([[0], np.cumsum(degree)])
    indices = np.empty(loose[-1], other.dtype)
    run(_place, rows, first, member, other, loose[:-1].copy(), indices)
    over_rows(_sort_rows, loose, indices, degree)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    if indptr[-1] == loose[-1]:
        return indptr, indices
    merged = np.empty(indptr[-1], indices.dtype)
    over_rows(_close_gaps, indptr, loose, indices, merged)
    return indptr, merged


# -- features -------------------------------------------------------------------------------------------------------


@kernel
def _features(lo: int, hi: int, begin: int, y: Any, means: Any, key: Any, out: Any) -> None:
    """Mean of the class plus standard normal noise (Box–Muller) for nodes begin + lo to begin + hi."""
    columns = out.shape[1]
    for i in range(lo, hi):
        own = mix(key, begin + i)
        for j in range(0, columns, 2):
            radius = np.sqrt(-2 * np.log(1 - uniform(own, j)))
            angle = 2 * np.pi * uniform(own, j + 1)
            out[i, j] = means[y[begin + i], j] + radius * np.cos(angle)
            if j + 1 < columns:
                out[i, j + 1] = means[y[begin + i], j + 1] + radius * np.sin(angle)


def features(model: BlockModel, y: np.ndarray) -> Tensor:
    """``(N, features)``: for each class a mean of length ``signal`` in a random direction, plus standard noise."""
    means = generator(model.seed, MEANS).standard_normal((model.classes, model.features))
    means *= model.signal / np.linalg.norm(means, axis=1, keepdims=True)
    key = np.uint64(derived_seed(model.seed, NOISE))
    out = torch.empty(model.nodes, model.features, dtype=torch.float16 if model.half else torch.float32)
    # In blocks, since numba has no float16.
    for begin in range(0, model.nodes, 1 << 18):
        block = out[begin : begin + (1 << 18)]
        values = np.empty(block.shape, np.float32)
        run(_features, even_ranges(len(block), get_threads()), begin, y, means.astype(np.float32), key, values)
        block.copy_(torch.from_numpy(values))
    return out


# -- the graph ------------------------------------------------------------------------------------------------------


def generate(model: BlockModel) -> Graph:
    """The graph of a block model; the same options give the same graph."""
    member = generator(model.seed, ORDER).permutation(model.nodes).astype(index_dtype(model.nodes))
    y = np.empty(model.nodes, np.int64)
    y[member] = np.repeat(np.arange(model.classes), np.diff(_starts(model)))
    shares = model.train, model.val, 1 - model.train - model.val
    masks: dict[str, Any] = random_split(model.nodes, shares, derived_seed(model.seed, SPLIT))
    indptr, indices = topology(model, member)
    return Graph(
        torch.from_numpy(indptr),
        torch.from_numpy(indices),
        x=features(model, y) if model.features else None,
        y=torch.from_numpy(y),
        num_classes=model.classes,
        undirected=True,
        name="synthetic",
        **masks,
    )


def load(request: Request) -> Graph:
    """The graph of the options in the name."""
    return generate(request.options)


_DEFAULT = BlockModel()

SOURCES = (
    Source(
        name="synthetic",
        description=f"degree-corrected block model; options {', '.join(f.name for f in fields(BlockModel))}",
        load=load,
        task=f"{_DEFAULT.classes} classes",
        nodes=_DEFAULT.nodes,
        edges=round(_DEFAULT.nodes * _DEFAULT.degree),
        features=_DEFAULT.features,
        classes=_DEFAULT.classes,
        options=BlockModel,
    ),
)
