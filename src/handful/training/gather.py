"""From samples to batches: trim, gather features and labels, within a budget or ahead of a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

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
    if (depth := _depth(model, trimmed)) is not None:
        samples = map(partial(trim, depth=depth), samples)  # map keeps none of them alive
    batches = map(partial(make_batch, graph), samples)
    return batches if graph.device.type == "cpu" else ahead(batches)


def _depth(model: nn.Module, trimmed: bool) -> int | None:
    """The depth to trim to; ``None`` where the batches are left as they are."""
    return model.depth if trimmed and isinstance(model, Network) and model.trimmable else None


def within_budget(
    graph: Graph, deal: Deal, model: nn.Module, trimmed: bool, memory: int, step_bytes: StepBytes, say: Say
) -> Iterator[Batch]:
    """The same batches, made from the partition of an epoch within ``memory`` bytes; see ``shuffled``."""
    return shuffled(graph, deal, memory, depth=_depth(model, trimmed), step_bytes=step_bytes, say=say)
