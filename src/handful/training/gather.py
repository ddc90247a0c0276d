"""From samples to batches: trim, gather features and labels, within a budget or ahead of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from torch import nn

from handful.batch import Batch, Sample, make_batch
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.ahead import ahead
from handful.samplers.base import Deal
from handful.shuffle.epoch import Say, StepBytes, shuffled
from handful.trim import trim


def gathered(graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool) -> Iterator[Batch]:
    """The batches of ``samples``, cut to what their loss can see if ``trimmed`` and if ``model`` allows it.

    They are made ahead of a device that trains. On the CPU the kernels of both would only share its cores.
    """
    batches = map(_maker(graph, depth_of_trimming(model, trimmed)), samples)  # map keeps none of them alive
    return batches if graph.device.type == "cpu" else ahead(batches)


def gathered_own(
    graph: Graph, samples: Iterator[Sample], depth: int | None, own: Callable[[int], bool]
) -> Iterator[Batch | None]:
    """The batches of the samples with an ``own`` number, trimmed to ``depth``; ``None`` in the place of all others."""
    make = _maker(graph, depth)
    batches = map(lambda index, sample: make(sample) if own(index) else None, count(), samples)
    return batches if graph.device.type == "cpu" else ahead(batches)


def depth_of_trimming(model: nn.Module, trimmed: bool) -> int | None:
    """The depth to trim to; ``None`` where the batches are left as they are."""
    return model.depth if trimmed and isinstance(model, Network) and model.trimmable else None


def _maker(graph: Graph, depth: int | None) -> Callable[[Sample], Batch]:
    return lambda sample: make_batch(graph, sample if depth is None else trim(sample, depth))


def within_budget(
    graph: Graph, deal: Deal, depth: int | None, memory: int, step_bytes: StepBytes, say: Say
) -> Iterator[Batch]:
    """The same batches, made from the partition of an epoch within ``memory`` bytes; see ``shuffled``."""
    return shuffled(graph, deal, memory, depth=depth, step_bytes=step_bytes, say=say)
