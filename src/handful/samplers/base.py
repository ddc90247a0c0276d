"""What every sampler is: options, and ``epoch(graph, seed, epoch)`` that yields batches. And their register by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

from handful.batch import Batch
from handful.errors import SamplerError, unknown
from handful.graph import Graph

_REGISTER: dict[str, type[Sampler]] = {}


@dataclass(frozen=True)
class Sampler(ABC):
    """A frozen dataclass whose fields are its options. The same (seed, epoch) always gives the same batches."""

    name: ClassVar[str] = ""

    @abstractmethod
    def epoch(self, graph: Graph, seed: int, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch. One without training nodes (empty ``targets``) makes no step and is counted."""

    def options(self) -> dict[str, Any]:
        """The options as plain values, for records."""
        return asdict(self)

    def __str__(self) -> str:
        inside = ", ".join(f"{k}={v}" for k, v in self.options().items() if v is not None and v is not False)
        return f"{self.name}({inside})"


_S = TypeVar("_S", bound=type[Sampler])


def register(name: str) -> Callable[[_S], _S]:
    """Make a sampler known to the command line: ``@register("mine")`` above a frozen dataclass."""

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
    """A sampler by name. An unknown name or option is answered with the nearest that exist."""
    cls = sampler_class(name)
    known = [f.name for f in fields(cls)]
    for option in options:
        if option not in known:
            raise SamplerError(f"sampler '{name}': " + unknown("option", option, known))
    return cls(**options)
