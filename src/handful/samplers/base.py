"""What every sampler is: options, and ``sample(graph, seed, epoch)``. And the register of samplers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample, make_batch
from handful.errors import SamplerError, unknown
from handful.graph import Graph


class Deal(NamedTuple):
    """An epoch whose batches are induced by the parts of a partition, which is known when it begins."""

    part: np.ndarray
    """``(N,)``, the part of every node; a node of part ``parts`` or above is in none."""
    parts: int
    hubs: np.ndarray = np.empty(0, np.int64)
    """int64, ids ascending: nodes that every part holds as helpers."""


_REGISTER: dict[str, type[Sampler]] = {}


@dataclass(frozen=True)
class Sampler(ABC):
    """A frozen dataclass whose fields are its options. The same (seed, epoch) always gives the same samples."""

    name: ClassVar[str] = ""
    layerwise: ClassVar[bool] = False
    """Whether every layer of a sample has nodes and edges of its own, with their weights."""

    @property
    def shared(self) -> bool:
        """Whether all layers of a sample share one subgraph."""
        return not self.layerwise

    @abstractmethod
    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        """The samples of one epoch: nodes, layers and targets. One without targets makes no step and is counted."""

    @property
    def deals(self) -> bool:
        """Whether the samples of an epoch are induced by the parts of a partition, which ``deal`` then gives."""
        return type(self).deal is not Sampler.deal

    def deal(self, graph: Graph, seed: int, epoch: int) -> Deal:
        """The partition of an epoch whose samples its parts induce.

        Raises:
            SamplerError: the samples of this sampler are no partition.
        """
        raise SamplerError(f"the batches of {self} are not the parts of a partition: use sampler rns or cluster")

    def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
        """The samples of one epoch with their features and labels."""
        return map(partial(make_batch, graph), self.sample(graph, seed, epoch))

    def evaluation(self, graph: Graph, nodes: Tensor, seed: int) -> Iterator[Sample]:
        """Samples whose targets are ``nodes``, int64 ids, in their order: sampled evaluation, as in the paper.

        Raises:
            SamplerError: this sampler has no such way.
        """
        raise SamplerError(f"sampler '{self.name}' cannot evaluate by sampling: use evaluation='exact'")

    def operator(self, graph: Graph) -> Adjacency:
        """The edges of the full graph as a model that was trained with this sampler is to be evaluated on them."""
        from handful.samplers.full import full_adjacency

        return full_adjacency(graph)

    def for_depth(self, layers: int) -> Self:
        """This sampler for a model of so many layers.

        Raises:
            SamplerError: it cannot train one.
        """
        return self

    def prepare(self, graph: Graph) -> float:
        """Do what is done once for a graph, before the first epoch; the seconds that it took when it was done."""
        return 0.0

    @property
    def method(self) -> str:
        """The name that tables have for it, of ``handful.vocabulary.METHODS``: its own, unless an option changes it."""
        return self.name

    def options(self) -> dict[str, Any]:
        """The options as plain values, for records."""
        return asdict(self)

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.options().items() if v is not None and v is not False)
        return f"{self.name}({inside})"


_S = TypeVar("_S", bound=type[Sampler])


def register(name: str) -> Callable[[_S], _S]:
    """Make a sampler known by name to ``make_sampler``, experiments and the command line.

    >>> @register("whole")
    ... @dataclass(frozen=True)
    ... class Whole(Sampler):
    ...     def sample(self, graph, seed, epoch):
    ...         yield from make_sampler("full").sample(graph, seed, epoch)
    >>> str(make_sampler("whole"))
    'whole()'
    >>> del _REGISTER["whole"]
    """

    def add(sampler: _S) -> _S:
        sampler.name = name
        _REGISTER[name] = sampler
        return sampler

    return add


def sampler_names() -> list[str]:
    """The names that ``make_sampler`` knows."""
    return sorted(_REGISTER)


def sampler_class(name: str) -> type[Sampler]:
    """The sampler of this name."""
    if name not in _REGISTER:
        raise SamplerError(unknown("sampler", name, _REGISTER))
    return _REGISTER[name]


def make_sampler(name: str, **options: Any) -> Sampler:
    """A sampler by name. An unknown name or option is answered with the nearest that exist.

    >>> str(make_sampler("rns", parts=8))
    'rns(parts=8)'
    """
    cls = sampler_class(name)
    known = [f.name for f in fields(cls)]
    for option in options:
        if option not in known:
            why = unknown("option", option, known) if known else f"it has no options, got '{option}'"
            raise SamplerError(f"sampler '{name}': {why}")
    return cls(**options)
