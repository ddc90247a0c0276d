"""From samples to batches: trim, gather features and labels, work ahead of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import torch
from torch import Tensor, nn

from handful.batch import Batch, Sample, make_batch
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.ahead import ahead
from handful.trim import trim


def gathered(graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool) -> Iterator[Batch]:
    """The batches of ``samples``, cut to what their loss can see if ``trimmed`` and if ``model`` allows it.

    They are made ahead of a device that trains. On the CPU the kernels of both would only share its cores.
    """
    batches = map(_maker(graph, depth_of_trimming(model, trimmed)), samples)  # map keeps none of them alive
    return batches if graph.device.type == "cpu" else ahead(batches)


def gathered_own(
    graph: Graph,
    samples: Iterator[Sample],
    depth: int | None,
    own: Callable[[int], bool],
    device: torch.device | None = None,
) -> Iterator[Batch | None]:
    """The batches of the samples with an ``own`` number, trimmed to ``depth``; ``None`` in the place of all others.

    They stay where the graph is, or are sent to ``device``.
    """
    make = _maker(graph, depth)
    batches = map(lambda index, sample: make(sample) if own(index) else None, count(), samples)
    if device is not None:
        return delivered(batches, device)
    return batches if graph.device.type == "cpu" else ahead(batches)


def depth_of_trimming(model: nn.Module, trimmed: bool) -> int | None:
    """The depth to trim to; ``None`` where the batches are left as they are."""
    return model.depth if trimmed and isinstance(model, Network) and model.trimmable else None


def _maker(graph: Graph, depth: int | None) -> Callable[[Sample], Batch]:
    return lambda sample: make_batch(graph, sample if depth is None else trim(sample, depth))


def delivered(batches: Iterator[Batch | None], device: torch.device) -> Iterator[Batch | None]:
    """The batches on ``device``, made and sent by a thread that works ahead of it.

    To a GPU they go from pinned memory on a stream of their own, while the last one trains.
    """

    def sent(batch: Batch | None) -> Batch | None:
        return None if batch is None else batch.to(device)

    if device.type != "cuda":
        yield from ahead(map(sent, batches))
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send(batch: Batch | None) -> tuple[Batch | None, torch.cuda.Event]:
        with torch.cuda.stream(stream):
            return sent(batch), stream.record_event()

    def keep(tensor: Tensor) -> Tensor:
        tensor.record_stream(torch.cuda.current_stream(device))
        return tensor

    for batch, arrived in ahead(map(send, batches)):
        torch.cuda.current_stream(device).wait_event(arrived)
        if batch is not None:
            batch.map(keep)  # their memory, which is of the other stream, is not used again before this one is done
        yield batch
        del batch
