"""From samples to batches: trim, gather features and labels, and work ahead of a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

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
    if trimmed and isinstance(model, Network) and model.trimmable:
        samples = map(partial(trim, depth=model.depth), samples)  # map keeps none of them alive
    batches = map(partial(make_batch, graph), samples)
    return batches if graph.device.type == "cpu" else ahead(batches)
