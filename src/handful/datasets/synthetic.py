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

from handful.datasets.memory import require_memory
from handful.datasets.registry import Query, Source
from handful.datasets.splits import random_split
from handful.errors import DatasetError
from handful.graph import Graph
from handful.kernels.block_model import draw_ends, noisy_means, simple_rows
from handful.kernels.csr import index_dtype
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
            "classes": (2, 2**15),
            "nodes": (2 * self.classes, 2**31 - 1),
            "degree": (0, self.nodes / max(1, self.classes) / 2),
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
        if self.exponent > 1000:
            raise DatasetError(f"synthetic: exponent must be at most 1000, got {self.exponent}")
        # Ends are drawn, put in order and checked: an edge is held about four times, and a node's row of x twice.
        width = 2 if self.half else 4
        needed = self.nodes * (self.degree * 32 + self.features * 2 * width + 100)
        require_memory(needed, f"synthetic with {self.nodes:,} nodes of degree {self.degree:g}")


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
    """Weights with a cutoff: the largest expected degree is k with k²·homophily = size·degree.

    Two nodes of degree k in one class are then drawn as a pair about once. Without the cutoff the hubs would be drawn
    together many times, and merging the repeated pairs would change the power law.
    """
    power = 1 - 1 / (model.exponent - 1)
    cutoff = max(2 * model.degree, (size * model.degree / max(model.homophily, 1 / model.classes)) ** 0.5)
    low, high = 0.0, float(size)
    for _ in range(60):
        middle = (low + high) / 2
        too_large = model.degree * size * _Weights(size, power, middle).share(1) > cutoff
        low, high = (middle, high) if too_large else (low, middle)
    return _Weights(size, power, high)


def _starts(model: BlockModel) -> np.ndarray:
    """Where the members of each class begin among the places 0 to N."""
    return np.array([model.nodes * c // model.classes for c in range(model.classes + 1)])


def topology(model: BlockModel, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``indptr`` and ``indices`` of the model; ``member`` lists the nodes class by class, heaviest first."""
    n, start, pairs = model.nodes, _starts(model), round(model.nodes * model.degree / 2)
    weights = [_weights(int(size), model) for size in np.diff(start)]
    # The pairs of place p begin at ⌊pairs·share(p) + u⌋: each place has its share of them, to within one.
    total = np.concatenate([s + w.size * w.share(np.arange(w.size)) for s, w in zip(start, weights, strict=False)])
    first = np.append(np.floor(total * (pairs / n) + generator(model.seed, START).random()), pairs).astype(np.int64)
    low = np.array([w.offset**w.power for w in weights])
    high = np.array([(w.size + w.offset) ** w.power for w in weights])
    offset, power = np.array([w.offset for w in weights]), weights[0].power
    key = np.uint64(derived_seed(model.seed, PAIRS))
    other = draw_ends(first, start, member, low, high, offset, power, float(model.homophily), key)
    return simple_rows(first, member, other)


# -- features -------------------------------------------------------------------------------------------------------


def block_features(model: BlockModel, y: np.ndarray) -> Tensor:
    """``(N, features)``: for each class a mean of length ``signal`` in a random direction, plus standard noise."""
    means = generator(model.seed, MEANS).standard_normal((model.classes, model.features))
    means = (means * (model.signal / np.linalg.norm(means, axis=1, keepdims=True))).astype(np.float32)
    key = np.uint64(derived_seed(model.seed, NOISE))
    out = torch.empty(model.nodes, model.features, dtype=torch.float16 if model.half else torch.float32)
    # In blocks, since numba has no float16.
    for begin in range(0, model.nodes, 1 << 18):
        block = slice(begin, begin + (1 << 18))
        out[block] = torch.from_numpy(noisy_means(y[block], means, key, begin))
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
        x=block_features(model, y) if model.features else None,
        y=torch.from_numpy(y),
        num_classes=model.classes,
        undirected=True,
        name="synthetic",
        **masks,
    )


def _load(query: Query) -> Graph:
    """The graph of the options in the name."""
    return generate(query.options)


_DEFAULT = BlockModel()

SOURCES = (
    Source(
        name="synthetic",
        description=f"degree-corrected block model; options {', '.join(f.name for f in fields(BlockModel))}",
        load=_load,
        task=f"{_DEFAULT.classes} classes",
        nodes=_DEFAULT.nodes,
        edges=round(_DEFAULT.nodes * _DEFAULT.degree),
        features=_DEFAULT.features,
        classes=_DEFAULT.classes,
        options=BlockModel,
    ),
)
