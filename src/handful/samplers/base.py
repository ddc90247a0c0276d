"""The base class of all samplers, and the registry of samplers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial, wraps
from typing import Annotated, Any, ClassVar, Concatenate, NamedTuple, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample, make_batch
from handful.errors import HandfulError, SamplerError, explaining, require_name, unknown
from handful.graph import Graph
from handful.kernels.threads import get_threads, run
from handful.settings import Range, check_fields

Size = Annotated[int, Range(1, 2**31 - 1)]
Fanout = tuple[int, ...]


class Deal(NamedTuple):
    """The partition of the nodes in an epoch. Each batch is the subgraph induced by one part."""

    part: np.ndarray
    """``(N,)``, the part of every node; a node with a value of ``parts`` or more is in no part."""
    parts: int


_REGISTER: dict[str, type[Sampler]] = {}


@dataclass(frozen=True)
class Sampler(ABC):
    """A frozen dataclass whose fields are the options of the sampler.

    The same (seed, epoch) always gives the same samples.
    """

    name: ClassVar[str] = ""
    layerwise: ClassVar[bool] = False
    """Whether every layer of a sample has its own nodes and weighted edges."""
    induces: ClassVar[bool] = False
    """Whether samples are induced subgraphs: a sample has all edges of the graph between its nodes."""

    @property
    def shared(self) -> bool:
        """Whether all layers of a sample share one subgraph."""
        return not self.layerwise

    @abstractmethod
    def sample(self, graph: Graph, seed: int, epoch: int) -> Iterator[Sample]:
        """Draw the samples of one epoch: nodes, layers and targets. A sample without targets is not trained on; the run
        counts such samples.
        """

    @property
    def deals(self) -> bool:
        """Whether each sample is the subgraph induced by one part of a partition, which ``deal`` draws."""
        return type(self).deal is not Sampler.deal

    def deal(self, graph: Graph, seed: int, epoch: int) -> Deal:
        """Draw the partition of an epoch. Each sample is the subgraph induced by one part.

        Raises:
            SamplerError: the samples of this sampler do not come from a partition.
        """
        raise SamplerError(f"the batches of {self} are not the parts of a partition: use sampler rns or cluster")

    def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch: the samples with their features and labels."""
        return map(partial(make_batch, graph), self.sample(graph, seed, epoch))

    def evaluation(self, graph: Graph, nodes: Tensor, seed: int, fanout: Fanout | None = None) -> Iterator[Sample]:
        """Sample neighbourhoods of ``nodes`` for evaluation, as in the paper. The targets of the samples are ``nodes``,
        in order.

        Args:
            graph: the graph to evaluate on.
            nodes: distinct int64 ids.
            seed: the seed of the draw.
            fanout: the maximum number of edges to draw per node, for each hop; ``None`` for the default of
                ``Neighbors``.

        Raises:
            SamplerError: a model that was trained with this sampler cannot be evaluated on samples.
        """
        from handful.samplers.neighbor import Neighbors

        if type(self).operator is not Sampler.operator:
            raise SamplerError(f"sampler '{self.name}' evaluates models by its own operator: use evaluation='exact'")
        return Neighbors().evaluation(graph, nodes, seed, fanout)

    def operator(self, graph: Graph) -> Adjacency:
        """The full-graph adjacency for the exact evaluation of a model that was trained with this sampler."""
        from handful.samplers.full import full_adjacency

        return full_adjacency(graph)

    def share(self, graph: Graph) -> float:
        """The approximate fraction of the graph's nodes in a batch; 1 if it is unknown."""
        return 1.0

    def for_depth(self, layers: int) -> Self:
        """This sampler, adapted to a model with ``layers`` layers.

        Raises:
            SamplerError: the sampler cannot train such a model.
        """
        return self

    def prepare(self, graph: Graph) -> float:
        """Prepare a graph once, before the first epoch. Return the time that the preparation took, in seconds, even if
        its result was cached.
        """
        return 0.0

    @property
    def method(self) -> str:
        """The name of the method in ``handful.vocabulary.METHODS``: the sampler's name, unless an option selects
        another method.
        """
        return self.name

    def options(self) -> dict[str, Any]:
        """Convert the options to plain values, for records."""
        return asdict(self)

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.options().items() if v is not None and v is not False)
        return f"{self.name}({inside})"


_S = TypeVar("_S", bound=type[Sampler])


def register(name: str) -> Callable[[_S], _S]:
    """Register a sampler by name for ``make_sampler`` and experiments.

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
    """The names that ``make_sampler`` accepts."""
    return sorted(_REGISTER)


def sampler_class(name: str) -> type[Sampler]:
    """The class of the sampler ``name``."""
    require_name("sampler", name, _REGISTER, SamplerError)
    return _REGISTER[name]


def make_sampler(name: str, **options: Any) -> Sampler:
    """Make a sampler by name. An unknown name or option raises an error that suggests similar names.

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


T = TypeVar("T")
P = ParamSpec("P")


def in_batches(nodes: np.ndarray, size: int, draw: Callable[[int, np.ndarray], T]) -> Iterator[T]:
    """Split ``nodes`` into batches of ``size``; the last batch may be smaller. Yield ``draw(step, batch)`` for every
    batch, in order. Several batches are drawn in parallel, one per thread.

    >>> list(in_batches(np.arange(5), 2, lambda step, batch: (step, batch.tolist())))
    [(0, [0, 1]), (1, [2, 3]), (2, [4])]
    """
    batches = [(step, nodes[lo : lo + size]) for step, lo in enumerate(range(0, len(nodes), size))]
    threads = get_threads()
    for first in range(0, len(batches), threads):
        yield from run(draw, batches[first : first + threads])


def per_graph(compute: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """Make a function that keeps its last result for every graph, as long as the graph exists.

    ``compute(graph, ...)`` is called again only if the other arguments have changed.

    >>> calls = []
    >>> once = per_graph(lambda graph, number: calls.append(number))
    >>> graph = Graph.from_edge_index([[0, 1], [1, 0]])
    >>> for number in (1, 1, 2):
    ...     once(graph, number)
    >>> calls
    [1, 2]
    """
    known: WeakKeyDictionary[Graph, tuple[object, T]] = WeakKeyDictionary()

    @wraps(compute)
    def kept(graph: Graph, /, *args: P.args, **options: P.kwargs) -> T:
        last = known.get(graph)
        if last is None or last[0] != (args, options):
            last = known[graph] = (args, options), compute(graph, *args, **options)
        return last[1]

    return kept


def check_options(sampler: Sampler) -> None:
    """Convert the options of a sampler to their declared types, or raise an error."""
    with explaining(f"sampler '{sampler.name}': {{}}", HandfulError, kind=SamplerError):
        check_fields(sampler)
