"""From samples to batches: trim, gather features and labels, and work ahead of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from torch import nn

from handful.batch import Batch, Sample, make_batch
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.ahead import ahead
from handful.trim import trim


def gathered(graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool) -> Iterator[Batch]:
    """The batches of ``samples``, cut to what their loss can see if ``trimmed`` and if ``model`` allows it.

    They are made ahead of a device that trains. On the CPU the kernels of both would only share its cores.
    """
    batches = map(_maker(graph, model, trimmed), samples)  # map keeps none of them alive
    return batches if graph.device.type == "cpu" else ahead(batches)


def gathered_own(
    graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool, own: Callable[[int], bool]
) -> Iterator[Batch | None]:
    """As ``gathered`` for the samples with an ``own`` number, and ``None`` in the place of all others."""
    make = _maker(graph, model, trimmed)
    batches = map(lambda index, sample: make(sample) if own(index) else None, count(), samples)
    return batches if graph.device.type == "cpu" else ahead(batches)


def _maker(graph: Graph, model: nn.Module, trimmed: bool) -> Callable[[Sample], Batch]:
    if not (trimmed and isinstance(model, Network) and model.trimmable):
        return partial(make_batch, graph)
    depth = model.depth
    return lambda sample: make_batch(graph, trim(sample, depth))
