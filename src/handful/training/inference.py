"""Exact inference on the full graph. Inference runs layer by layer and in chunks of rows, so that the memory is
bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from handful import ranks
from handful.budget import room
from handful.errors import HandfulError
from handful.graph import Graph
from handful.nn.network import Chunks, Network
from handful.samplers.base import Sampler
from handful.samplers.full import FullGraph
from handful.shuffle.over_ranks import infer_shards
from handful.shuffle.shards import ShardedGraph
from handful.storage import with_dense_features
from handful.training.label_features import label_logits
from handful.training.module import average_edges, in_units, logits_of
from handful.training.record import hold
from handful.training.streamed import Progress, infer_within, job_name, least_room

CHUNK_ROWS = 65_536


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A context in which the model is in evaluation mode."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class SharedChunks(Chunks):
    """Chunks for several ranks: each rank computes some of the rows, and receives the others from the other ranks."""

    def collect(self, make: Callable[[int, int], Tensor], cuts: Sequence[int]) -> Tensor:
        count = cuts[-1]
        if count < ranks.size():
            return super().collect(make, cuts)
        begin, end = ranks.share(count)
        out: Tensor | None = None
        for lo, hi in pairwise([*range(begin, end, self.rows), end]):
            rows = make(lo, hi)
            out = rows.new_empty(count, *rows.shape[1:]) if out is None else out
            out[lo:hi] = rows
        assert out is not None
        return ranks.fill(out)


@torch.no_grad()
def infer(model: nn.Module, graph: Graph, chunk: int = CHUNK_ROWS, **how: Any) -> Tensor:
    """The exact outputs of every node in float32, ``(N, outputs)``; see ``outputs_of`` for the arguments. The logits of
    a label head, if any, are added. For a regression, outputs are in the unit of the labels.
    """
    with evaluating(model):
        added = label_logits(model, graph, how.get("memory"))
    outputs = in_units(model, outputs_of(model, graph, chunk, **how).float())
    return outputs if added is None else outputs + added.to(outputs.device)


@torch.no_grad()
def outputs_of(
    model: nn.Module,
    graph: Graph,
    chunk: int = CHUNK_ROWS,
    sampler: Sampler = FullGraph(),  # noqa: B008  (frozen)
    shared: bool = False,
    memory: int | str | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """The exact logits of every node, as in a full-graph forward pass in evaluation mode.

    A model of handful needs memory for a few layers of activations, and for temporary arrays of ``chunk`` rows. A PyG
    module runs on the whole graph at once. LADIES trains with an adjacency matrix of its own, and evaluation must use
    the same matrix. A PyG module that was trained with normalised GraphSAINT is evaluated with edge weights that make
    its sum a mean over neighbours.

    If the graph is in shards, every rank computes the logits of its own nodes, and all ranks must call this function
    together.

    Args:
        model: a model of handful, or a PyG module.
        graph: a graph with features.
        chunk: the number of rows in a chunk.
        sampler: the sampler that was used in training.
        shared: whether each rank computes only some of the rows; for models of handful only. Each rank gets the
            complete result, and all ranks must call this function together.
        memory: a budget for the anonymous memory of this process, such as ``"4GiB"``. If a budget is given, the outputs
            of layers are written to files and read block by block. The result is the same up to rounding, and is
            memory-mapped from a file.
        scratch: the folder for these files; ``None`` for a temporary folder. Another call with the same weights and
            graph continues from these files. The files remain until ``handful.training.streamed.forget`` removes them.
        progress: called with the index of the pass over the nodes, the number of finished rows, and the number of all
            rows.

    Raises:
        HandfulError: ``memory`` is too small, or the disk is full.
    """
    if memory is not None:
        if not isinstance(model, Network):
            raise HandfulError(f"the layers of a {type(model).__name__} cannot be seen: infer it without memory")
        if type(sampler).operator is not Sampler.operator:
            raise HandfulError(f"the operator of sampler '{sampler.name}' is made in memory: infer without memory")
        if {graph.device.type, *(p.device.type for p in model.parameters())} != {"cpu"}:
            raise HandfulError("memory is that of the CPU: put model and graph there, or infer without memory")
        graph = with_dense_features(graph, scratch)
        space = room(memory, least_room(model, graph), f"inference on {graph.name}")
        place: AbstractContextManager[str | Path] = TemporaryDirectory(prefix="handful-", ignore_cleanup_errors=True)
        if scratch is not None:
            place = hold(scratch / job_name(model, graph))
        with evaluating(model), place as folder:  # the data of a removed file exists while it is mapped
            return infer_within(model, graph, space, Path(folder), safe=scratch is not None, progress=progress)
    chunks = SharedChunks(chunk) if shared else Chunks(chunk)
    with evaluating(model):
        if isinstance(graph, ShardedGraph):
            return infer_shards(model, graph, Chunks(chunk))
        if isinstance(model, Network):
            assert graph.x is not None
            return model.infer(graph.x, sampler.operator(graph), chunks)
        batch = next(iter(FullGraph().epoch(graph, 0, 0)))
        if getattr(sampler, "normalize", False) and not getattr(model, "takes_batch", False):
            batch = average_edges(batch)
        return logits_of(model, batch)


@torch.no_grad()
def embed(
    model: Network,
    graph: Graph,
    chunk: int = CHUNK_ROWS,
    sampler: Sampler = FullGraph(),  # noqa: B008  (frozen)
) -> Tensor:
    """The embedding of every node, float32 ``(N, width)``, on the CPU: the exact input of the layer that gives the
    logits.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&features=8")
    >>> embed(hf.SAGE(8, 3, hidden=16, layers=2), graph).shape
    torch.Size([100, 16])
    """
    assert graph.x is not None
    with evaluating(model):
        return model.embeddings(graph.x, sampler.operator(graph), Chunks(chunk)).float().cpu()
