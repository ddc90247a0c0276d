"""``synthetic``: a degree-corrected block model of any size, with power-law degrees and class-dependent features.

Classes have equal sizes. In a class of n nodes, the node of rank i has the weight w_i ∝ (i + i₀)^(-a) with a =
1/(exponent − 1). So P(degree > k) falls as k^(1 − exponent), up to a cutoff that depends on i₀. N·degree/2 pairs of
nodes are drawn. One end of a pair is drawn by weight from all nodes. The other end is drawn by weight from the same
class (with probability ``homophily``) or from another class. Self-loops are dropped and repeated pairs are merged, so
the graph is simple and its mean degree is a little below ``degree``. Every random number is a hash of (seed, counter),
so the number of threads and the memory budget do not change the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from handful.budget import require_disk, require_memory, room
from handful.datasets.edge_sort import Blocks, write_edges
from handful.datasets.registry import Source
from handful.datasets.splits import Shares, random_split
from handful.errors import DatasetError
from handful.graph import Graph
from handful.kernels.block_model import draw_ends, noisy_means, simple_rows
from handful.kernels.csr import index_dtype
from handful.random import derive_seed, generator
from handful.settings import Range, Share, check_fields
from handful.storage import ARRAYS, saving, write_graph

ORDER, START, PAIRS, MEANS, NOISE, SPLIT = range(6)
"""The keys of the independent random streams."""
PLACES = 1 << 18
"""The number of nodes that are generated at a time."""
LEAST = 64 << 20
"""The minimum working memory of ``write``, in bytes."""


@dataclass(frozen=True)
class BlockModel:
    """The options of ``synthetic?nodes=100000&degree=20``."""

    nodes: int = 100_000
    degree: float = 20.0
    """The mean degree before repeated pairs are merged."""
    exponent: Annotated[float, Range(2, 1000, open_low=True)] = 2.5
    """The exponent of the degree distribution. It must be above 2, since otherwise the mean degree is infinite."""
    classes: Annotated[int, Range(2, 2**15)] = 10
    homophily: Share = 0.6
    """The expected fraction of edges whose ends have the same class."""
    features: Annotated[int, Range(0, 2**20)] = 64
    """The number of features; 0 for a graph with only topology and labels."""
    signal: Annotated[float, Range(0, 1e6)] = 2.0
    """The distance of each class mean from the origin, in standard deviations of the noise."""
    half: bool = False
    """Whether features are in float16."""
    bfloat16: bool = False
    """Whether features are in bfloat16."""
    train: float = 0.5
    val: float = 0.25
    test: float | None = None
    """The fraction of test nodes; by default all remaining nodes."""
    seed: Annotated[int, Range(0, 2**62)] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        bounds = {
            "nodes": (2 * self.classes, 2**31 - 1),
            "degree": (0, self.nodes / self.classes / 2),
            "train": (1 / self.nodes if self.nodes > 0 else 1, 1),
            "val": (0, 1 - self.train),
            **({} if self.test is None else {"test": (0, 1 - self.train - self.val + 1e-9)}),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise DatasetError(f"synthetic: {name} must be between {low:g} and {high:g}, got {value}")
        if self.half and self.bfloat16:
            raise DatasetError("synthetic: half is float16, and features have one type: give half or bfloat16")

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the features."""
        return torch.bfloat16 if self.bfloat16 else torch.float16 if self.half else torch.float32

    @property
    def power(self) -> float:
        """1 − a: the exponent of the cumulative weight as a function of the rank."""
        return 1 - 1 / (self.exponent - 1)

    @property
    def shares(self) -> Shares:
        """The fractions of training, validation and test nodes."""
        return self.train, self.val, 1 - self.train - self.val if self.test is None else self.test


# -- edges ----------------------------------------------------------------------------------------------------------


def _share(rank: Any, size: int, power: float, offset: float) -> Any:
    """In a class of ``size`` nodes, the fraction of the total weight that belongs to the nodes with ranks below
    ``rank``. ``power`` is 1 − a, and ``offset`` is i₀.
    """
    low, high = offset**power, (size + offset) ** power
    return ((rank + offset) ** power - low) / (high - low)


def _offset(size: int, model: BlockModel) -> float:
    """The i₀ for which the largest expected degree k satisfies k²·homophily = size·degree.

    A pair of two such nodes of one class is then drawn about once. Without this cutoff, pairs of hubs would be drawn
    many times, and merging the repeated pairs would change the power law.
    """
    cutoff = max(2 * model.degree, (size * model.degree / max(model.homophily, 1 / model.classes)) ** 0.5)
    low, high = 0.0, float(size)
    for _ in range(60):
        middle = (low + high) / 2
        too_large = model.degree * size * _share(1, size, model.power, middle) > cutoff
        low, high = (middle, high) if too_large else (low, middle)
    return high


def _starts(model: BlockModel) -> np.ndarray:
    """The first place (see ``_Pairs``) of each class, followed by N."""
    return np.array([model.nodes * c // model.classes for c in range(model.classes + 1)])


@dataclass(frozen=True)
class _Pairs:
    """The pairs of nodes. A place is an index into ``member``. The pairs are grouped by their first node: the pairs of
    place p are the pairs that start at ``member[p]``.
    """

    model: BlockModel
    member: np.ndarray
    """The nodes, class by class; within a class, the node with the largest weight is first."""

    @cached_property
    def offsets(self) -> np.ndarray:
        """The i₀ of each class."""
        return np.array([_offset(int(size), self.model) for size in np.diff(_starts(self.model))])

    def first(self, lo: int, hi: int) -> np.ndarray:
        """The index of the first pair of each place from ``lo`` to ``hi - 1``, and the index after the last of these
        pairs.

        The pairs of place p begin at ⌊pairs·share(p) + u⌋, so the number of pairs of a place is proportional to its
        weight, up to rounding.
        """
        n, pairs = self.model.nodes, round(self.model.nodes * self.model.degree / 2)
        total, starts = [], _starts(self.model).tolist()
        for start, end, offset in zip(starts, starts[1:], self.offsets.tolist(), strict=False):
            if start <= hi and end > lo:
                ranks = np.arange(max(lo, start), min(hi + 1, end)) - start
                total.append(start + (end - start) * _share(ranks, end - start, self.model.power, offset))
        shift = generator(self.model.seed, START).random()
        first = np.floor(np.concatenate(total) * (pairs / n) + shift).astype(np.int64)
        return first if hi < n else np.append(first, pairs)

    def ends(self, lo: int, first: np.ndarray) -> np.ndarray:
        """Draw the other end of every pair. ``first`` is the result of the method ``first`` for places that start at
        ``lo``.
        """
        offset, power = self.offsets, self.model.power
        key, same = np.uint64(derive_seed(self.model.seed, PAIRS)), float(self.model.homophily)
        return draw_ends(first, _starts(self.model), self.member, offset, power, same, key, lo)

    def blocks(self, most: int) -> Blocks:
        """Yield both ends of all pairs, in blocks of at most ``most`` pairs. A block is larger only if a single place
        has more pairs.
        """
        for lo in range(0, self.model.nodes, PLACES):
            first = self.first(lo, min(lo + PLACES, self.model.nodes))
            i = 0
            while i < len(first) - 1:
                j = max(i + 1, int(np.searchsorted(first, first[i] + most, "right")) - 1)
                some = first[i : j + 1]
                yield np.repeat(self.member[lo + i : lo + j], np.diff(some)), self.ends(lo + i, some)
                i = j


def _order(model: BlockModel) -> np.ndarray:
    """The nodes, class by class; within a class, the node with the largest weight is first."""
    member = np.arange(model.nodes, dtype=index_dtype(model.nodes))
    generator(model.seed, ORDER).shuffle(member)
    return member


def _classes(model: BlockModel, member: np.ndarray) -> np.ndarray:
    """The class of every node, int16 ``(N,)``."""
    y, start = np.empty(model.nodes, np.int16), _starts(model)
    for lo in range(0, model.nodes, PLACES):
        some = member[lo : lo + PLACES]
        y[some] = np.searchsorted(start, np.arange(lo, lo + len(some)), "right") - 1
    return y


# -- features -------------------------------------------------------------------------------------------------------


def block_features(model: BlockModel, y: np.ndarray, rows: int = PLACES) -> Iterator[Tensor]:
    """Yield the features ``(N, features)`` in blocks of ``rows`` rows. The features of a node are the mean of its class
    plus standard normal noise. The mean of a class is a vector of length ``signal`` in a random direction.
    """
    means = generator(model.seed, MEANS).standard_normal((model.classes, model.features))
    means = (means * (model.signal / np.linalg.norm(means, axis=1, keepdims=True))).astype(np.float32)
    key = np.uint64(derive_seed(model.seed, NOISE))
    for lo in range(0, model.nodes, rows):
        yield torch.from_numpy(noisy_means(y[lo : lo + rows].astype(np.int64), means, key, lo)).to(model.dtype)


# -- the graph ------------------------------------------------------------------------------------------------------


def generate(model: BlockModel) -> Graph:
    """Generate the graph of a block model; the same options give the same graph."""
    # The peak memory is about four copies of the edges and two copies of x.
    needed = model.nodes * (model.degree * 32 + model.features * 2 * model.dtype.itemsize + 100)
    require_memory(needed, f"synthetic with {model.nodes:,} nodes of degree {model.degree:g}")
    masks: dict[str, Any] = random_split(model.nodes, model.shares, derive_seed(model.seed, SPLIT))
    member = _order(model)
    y = _classes(model, member)
    pairs = _Pairs(model, member)
    first = pairs.first(0, model.nodes)
    indptr, indices = simple_rows(first, member, pairs.ends(0, first))
    x = torch.cat(list(block_features(model, y))) if model.features else None
    topology = torch.from_numpy(indptr), torch.from_numpy(indices)
    known = {"num_classes": model.classes, "undirected": True, "name": "synthetic", **masks}
    return Graph(*topology, x=x, y=torch.from_numpy(y.astype(np.int64)), **known)


def write(model: BlockModel, path: Path, memory: int | str) -> None:
    """Write the graph of a block model to the folder ``path``. The files are the same as from ``generate`` and
    ``save``.

    Args:
        model: the block model. Its graph may have any size that fits on the disk.
        path: as for ``handful.storage.save``.
        memory: the maximum anonymous memory of this process, such as ``"4GiB"``. The minimum is 8 bytes per node
            plus ``LEAST`` bytes of working memory.

    Raises:
        HandfulError: there is not enough memory or disk space.
    """
    name = f"synthetic with {model.nodes:,} nodes"
    require_disk(model.nodes * (model.degree * 12 + model.features * model.dtype.itemsize + 19), path, name)
    write_within(model, path, room(memory, 8 * model.nodes + LEAST, name))


def write_within(model: BlockModel, path: Path, room: int) -> None:
    """``write`` with ``room`` bytes of working memory."""
    with saving(path) as folder:
        for name, mask in random_split(model.nodes, model.shares, derive_seed(model.seed, SPLIT)).items():
            folder.write(name, mask)
        member = _order(model)
        space = max(room - 6 * model.nodes, room // 8)
        write_edges(folder, model.nodes, space, _Pairs(model, member).blocks, both=True, loops=False, repeated=False)
        y = _classes(model, member)
        del member
        with folder.array("y", "int64") as out:
            for lo in range(0, model.nodes, PLACES):
                out.append(y[lo : lo + PLACES].astype(np.int64))
        if model.features:
            rows = max(1, min(PLACES, room // 32 // model.features))
            with folder.array("x", str(model.dtype).removeprefix("torch."), (model.features,)) as out:
                for block in block_features(model, y, rows):
                    out.append(block)
        write_graph(folder, _like(model), without=ARRAYS)


def _like(model: BlockModel) -> Graph:
    """A small graph with the same metadata as the graph of ``model``; only its arrays differ."""
    sizes = np.diff(_starts(model))
    y = np.repeat(np.arange(model.classes), sizes - sizes.min() + 1)
    return Graph.from_edge_index(np.empty((2, 0), int), y=y, num_classes=model.classes, name="synthetic")


_DEFAULT = BlockModel()

ABOUT = f"degree-corrected block model; options {', '.join(f.name for f in fields(BlockModel))}"
KNOWN: dict[str, Any] = {name: getattr(_DEFAULT, name) for name in ("nodes", "features", "classes")}
KNOWN |= {"edges": round(_DEFAULT.nodes * _DEFAULT.degree), "task": f"{_DEFAULT.classes} classes"}
KNOWN |= {"write": lambda query, path, memory: write(query.options, path, memory), "options": BlockModel}
SOURCES = (Source("synthetic", ABOUT, lambda query: generate(query.options), **KNOWN),)
