"""From samples to batches: trim, gather features and labels, and work ahead of a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from handful.batch import Batch, Sample, make_batch
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.ahead import ahead
from handful.trim import trim


def gathered(
    graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool, device: torch.device | None = None
) -> Iterator[Batch]:
    """The batches of ``samples``, cut to what their loss can see if ``trimmed`` and if ``model`` allows it.

    They are made ahead of a device that trains. On the CPU the kernels of both would only share its cores. They stay
    where the graph is, or are sent to ``device``.
    """
    if trimmed and isinstance(model, Network) and model.trimmable:
        samples = map(partial(trim, depth=model.depth), samples)  # map keeps none of them alive
    batches = map(partial(make_batch, graph), samples)
    if device is not None:
        return delivered(batches, device)
    return batches if graph.device.type == "cpu" else ahead(batches)


def delivered(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The batches on ``device``, made and sent by a thread that works ahead of it.

    To a GPU they go from pinned memory on a stream of their own, while the last one trains.
    """
    if device.type != "cuda":
        yield from ahead(map(lambda batch: batch.to(device), batches))  # noqa: C417  (map keeps none of them alive)
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(batch: Batch) -> tuple[Batch, torch.cuda.Event]:
        with torch.cuda.stream(stream):
            return batch.to(device), stream.record_event()

    def keep(tensor: Tensor) -> Tensor:
        tensor.record_stream(torch.cuda.current_stream(device))
        return tensor

    for batch, arrived in ahead(map(send, batches)):
        torch.cuda.current_stream(device).wait_event(arrived)
        batch.map(keep)  # their memory, which is of the other stream, is not used again before this one is done
        yield batch
        del batch
