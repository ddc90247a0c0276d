"""How a run is executed: in memory, within a memory budget, or on the shards of several ranks.

An execution provides the training loop with the batches of an epoch and with the outputs for the evaluation. All three
executions give the same batches, byte for byte, so the execution does not change the result.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar, get_args

import torch
from torch import Tensor, nn

from handful import ranks
from handful.batch import Batch, Sample, make_batch
from handful.budget import anonymous, as_bytes, show_size
from handful.errors import HandfulError, SamplerError, require_name
from handful.graph import Graph
from handful.nn.network import Network
from handful.random import derive_seed
from handful.samplers.ahead import ahead
from handful.samplers.base import Sampler
from handful.settings import GraphOn
from handful.shuffle.epoch import shuffle_epoch
from handful.shuffle.over_ranks import shard_batches
from handful.shuffle.shards import ShardedGraph, all_rows
from handful.storage import with_dense_features
from handful.training.cost import Loss, StepCost, batch_cost, free_gpu, graph_bytes, needed_bytes, step_cost
from handful.training.first_hop import Known, structure
from handful.training.inference import evaluating, infer
from handful.training.label_features import add_label_counts
from handful.training.module import in_units, logits_of
from handful.trim import trim

if TYPE_CHECKING:
    from handful.training.loop import Loop

T = TypeVar("T")
GRAPH_ON: GraphOn = "auto"
"""The default value of ``graph_on``."""


@dataclass
class InMemory:
    """All data of an epoch is in memory, on the device of the graph.

    Args:
        sends_to: the device of the model, to which batches are sent, if the graph stays on the host; otherwise
            ``None``.
        known: the precomputed first hop; ``None`` if the first hop is sampled.
    """

    sends_to: torch.device | None = None
    known: Known | None = None

    def batches(self, loop: Loop) -> Iterator[Batch | None]:
        """The batches of an epoch that this rank computes, with ``None`` in place of each batch that another rank
        computes.
        """
        make = batch_maker(loop.graph, loop.model, loop.settings.trim, self.known)
        own, rank = owner(loop), ranks.rank()
        samples = loop.sampler.sample(loop.graph, loop.seed, loop.epoch)
        batches = map(lambda index, sample: make(sample) if own(index) == rank else None, count(), samples)
        return made_ahead(batches, loop.graph.device) if self.sends_to is None else deliver(batches, self.sends_to)

    def outputs(self, loop: Loop) -> tuple[Tensor, Tensor]:
        """The validation and test nodes in ascending order, and their outputs. ``settings.evaluation`` determines
        whether the outputs are exact or sampled.
        """
        graph, how, nodes = loop.graph, loop.settings, judged_nodes(loop.graph)
        model = loop.model if self.sends_to is None else copy_to(graph.device, loop.model)
        if how.evaluation == "exact":
            return nodes, self.infer(loop, model)[nodes]
        samples = loop.sampler.evaluation(graph, nodes, derive_seed(loop.seed, loop.epoch), how.evaluation_fanout)
        return nodes, infer_sampled(model, graph, samples, self.known)

    def infer(self, loop: Loop, model: nn.Module) -> Tensor:
        """Compute the exact outputs of all nodes. If there are several ranks, each computes some of the rows."""
        return infer(model, widened(loop.graph, self.known), sampler=loop.sampler, shared=ranks.size() > 1)


@dataclass
class WithinBudget(InMemory):
    """All batches of an epoch are made in one pass over the graph (``handful.shuffle``). Batches that do not fit into
    the budget are kept in files.

    Args:
        memory: the maximum anonymous memory of the process, in bytes.
    """

    memory: int = 0
    cost: StepCost | None = None
    """The cost of a step, measured on the first sample with targets."""

    def batches(self, loop: Loop) -> Iterator[Batch | None]:
        graph = with_dense_features(widened(loop.graph, self.known))
        deal = loop.sampler.deal(loop.graph, loop.seed, loop.epoch)

        def step_bytes(sample: Sample) -> int:
            if len(sample.targets) == 0:  # makes no step
                return batch_cost(graph)(sample)
            sample = structure(sample, self.known)
            if self.cost is None:
                width = None if self.known is None else self.known.width
                self.cost = step_cost(loop.model, graph, sample, loop.loss_on, width=width)
            return self.cost(sample)

        cut, say = trimmer(loop.model, loop.settings.trim, self.known), partial(loop.notify, "on_progress")
        batches = shuffle_epoch(graph, deal, self.memory, trimmed=cut, step_bytes=step_bytes, say=say)
        return expanded(batches, self.known)

    def infer(self, loop: Loop, model: nn.Module) -> Tensor:
        def say(number: int, done: int, of: int) -> None:
            loop.notify("on_progress", f"evaluating, pass {number}", done / of)

        return infer(model, widened(loop.graph, self.known), sampler=loop.sampler, memory=self.memory, progress=say)


@dataclass
class OverShards:
    """Every rank has a shard of the graph, and sends the edges and features of a batch to the rank that computes it."""

    graph: ShardedGraph
    known: Known | None = None

    @property
    def wide(self) -> ShardedGraph:
        """The graph with the precomputed aggregates, if any, appended to its features."""
        wide = widened(self.graph, self.known)
        assert isinstance(wide, ShardedGraph)
        return wide

    def batches(self, loop: Loop) -> Iterator[Batch | None]:
        """As in ``InMemory``."""
        cut = trimmer(loop.model, loop.settings.trim, self.known)
        return expanded(shard_batches(self.wide, loop.sampler, loop.seed, loop.epoch, owner(loop), cut), self.known)

    def outputs(self, loop: Loop) -> tuple[Tensor, Tensor]:
        """As in ``InMemory``, but the outputs are always exact. Every rank computes the outputs of its own nodes, and
        receives those of all other ranks.
        """
        nodes, own = judged_nodes(self.graph), infer(loop.model, self.wide)
        begin, end = self.graph.begin, self.graph.begin + len(own)
        return nodes, all_rows(own[nodes[(nodes >= begin) & (nodes < end)] - begin])


Execution = InMemory | OverShards


def owner(loop: Loop) -> Callable[[int], int]:
    """A function that maps the index of a batch in the epoch to the rank that computes the batch."""
    return partial(ranks.owner, per_step=loop.settings.step_length, ranks=ranks.size())


def judged_nodes(graph: Graph) -> Tensor:
    """The indices of the validation and test nodes, in ascending order."""
    assert graph.val_mask is not None
    assert graph.test_mask is not None
    return (graph.val_mask | graph.test_mask).nonzero().squeeze(1)


# -- budgets and places -----------------------------------------------------------------------------------------------


def within(memory: int | str, sampler: Sampler, devices: set[torch.device], known: Known | None = None) -> WithinBudget:
    """Make an execution with the memory budget ``memory``.

    Raises:
        HandfulError: ``memory`` is not a size, or this run cannot have a memory budget.
    """
    size, held = as_bytes(memory), anonymous()
    if not sampler.deals:
        why = f"memory is for epochs that are known when they begin, and {sampler} draws its batches one by one"
        raise SamplerError(f"{why}: use sampler rns (without fraction) or cluster, or leave memory out")
    if any(device.type != "cpu" for device in devices):
        raise HandfulError("memory is that of the CPU: leave it out, or train there")
    if ranks.size() > 1:
        raise HandfulError("memory is for one process, and several share the graph: use one of the two")
    if held == 0:
        raise HandfulError("this system does not tell how much memory a process holds: memory needs Linux")
    if size <= held:
        raise HandfulError(f"memory is {show_size(size)}, and this process holds {show_size(held)} already: give more")
    return WithinBudget(known=known, memory=size)


def stays_on_host(
    graph_on: GraphOn,
    graph: Graph,
    model: nn.Module,
    sampler: Sampler,
    device: torch.device,
    loss: Loss,
    aggregates: int = 0,
) -> bool:
    """Whether the graph stays on the host while ``model`` trains on ``device``. If ``graph_on`` is ``auto`` and the
    host is chosen, the reason is printed.

    If the graph stays on the host, the CPU makes the batches, sends them to the device one by one, and evaluates a copy
    of the model. ``aggregates`` is the size of the precomputed aggregates in bytes.

    Raises:
        HandfulError: ``graph_on`` is not a value of ``GraphOn``.
    """
    require_name("place for the graph", graph_on, get_args(GraphOn))
    if graph_on != "auto":
        return graph_on == "host"
    free = None if graph.device == device else free_gpu(device)
    if free is None:
        return False
    needed = graph_bytes(graph) + aggregates
    if needed <= free:  # else the graph alone does not fit, and no trial step is needed
        width = 2 * graph.num_features if aggregates else None  # a row of a step is [own ‖ aggregated]
        needed = needed_bytes(graph, model, sampler, loss, width) + aggregates
    if needed <= free:
        return False
    why = f"training with the graph on {device} takes at least {show_size(needed)}, and {show_size(free)} are free"
    print(f"handful: {why}: the graph stays on the host", file=sys.stderr, flush=True)
    return True


def copy_to(device: torch.device, model: nn.Module) -> nn.Module:
    """The model with all its weights on ``device``: ``model`` itself if they are already there, otherwise a copy.

    >>> model = nn.Linear(2, 1)
    >>> copy_to(torch.device("cpu"), model) is model
    True
    """
    if all(parameter.device == device for parameter in model.parameters()):
        return model
    return copy.deepcopy(model).to(device)


# -- from samples to batches ------------------------------------------------------------------------------------------


def widened(graph: Graph, known: Known | None) -> Graph:
    """``graph`` itself or, if ``known`` is given, the same graph with the precomputed aggregates appended to its
    features.
    """
    return graph if known is None else known.graph


def expanded(batches: Iterator[Batch | None], known: Known | None) -> Iterator[Batch | None]:
    """The batches. If ``known`` is given, they are trimmed, and the mean-field neighbours of ``known`` are added."""
    return batches if known is None else (None if batch is None else known.expand(batch) for batch in batches)


def trimmer(model: nn.Module, trimmed: bool, known: Known | None = None) -> Callable[[Sample], Sample]:
    """A function that trims a sample to the receptive field of its loss; the identity if samples must not be trimmed.

    The function trims if ``trimmed`` is true and ``model`` is a ``Network``. If ``known`` is given, the function trims
    if ``known.trims`` is true.
    """
    if known is not None:
        return known.cut
    if not trimmed or not isinstance(model, Network):
        return lambda sample: sample
    return partial(trim, depth=model.depth, whole=model.whole_layers or None)


def batch_maker(graph: Graph, model: nn.Module, trimmed: bool, known: Known | None = None) -> Callable[[Sample], Batch]:
    """A function that makes a batch from a sample: it trims the sample (see ``trimmer``), and gathers its features and
    labels.
    """
    cut, graph = trimmer(model, trimmed), widened(graph, known)
    make = known.make_batch if known is not None else lambda sample: make_batch(graph, cut(sample))
    return lambda sample: add_label_counts(model, graph, sample, make(sample))


def gather(
    graph: Graph, samples: Iterator[Sample], model: nn.Module, trimmed: bool, known: Known | None = None
) -> Iterator[Batch]:
    """The batches of ``samples``; see ``batch_maker``."""
    make = batch_maker(graph, model, trimmed, known)
    return made_ahead(map(make, samples), graph.device)  # map keeps no batch alive


def made_ahead(batches: Iterator[T], device: torch.device) -> Iterator[T]:
    """The batches; if ``device`` is not the CPU, a thread prefetches them. On the CPU, this thread would compete with
    training for cores.
    """
    return batches if device.type == "cpu" else ahead(batches)


def deliver(batches: Iterator[Batch | None], device: torch.device) -> Iterator[Batch | None]:
    """The batches on ``device``. A thread makes the batches and sends them in advance.

    For a GPU, a batch is copied from pinned memory, on a separate stream, during the training step of the previous
    batch.
    """

    def send(batch: Batch | None) -> Batch | None:
        return None if batch is None else batch.to(device)

    if device.type != "cuda":
        yield from ahead(map(send, batches))
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def send_aside(batch: Batch | None) -> tuple[Batch | None, torch.cuda.Event]:
        with torch.cuda.stream(stream):
            return send(batch), stream.record_event()

    def keep(tensor: Tensor) -> Tensor:
        tensor.record_stream(torch.cuda.current_stream(device))
        return tensor

    for batch, arrived in ahead(map(send_aside, batches)):
        torch.cuda.current_stream(device).wait_event(arrived)
        if batch is not None:
            batch.map(keep)  # their memory belongs to the other stream: it is not reused before this stream is done
        yield batch
        del batch


@torch.no_grad()
def infer_sampled(model: nn.Module, graph: Graph, samples: Iterator[Sample], known: Known | None = None) -> Tensor:
    """The outputs of the samples' targets, computed on the samples and not on the full graph. There is one row per
    target, in the order of the samples.
    """
    with evaluating(model):
        known = None if known is None else replace(known, mean_field=0.0, trims=True)  # stand-ins are for training
        batches = gather(graph, samples, model, trimmed=True, known=known)
        rows = [in_units(model, logits_of(model, batch)[batch.targets].float()) for batch in batches]
    return torch.cat(rows) if rows else torch.empty(0, graph.num_outputs, device=graph.device)
