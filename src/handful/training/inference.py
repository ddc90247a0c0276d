"""Exact inference on the full graph, layer by layer and in chunks of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from handful.batch import Sample
from handful.graph import Graph
from handful.nn.network import Network
from handful.samplers.base import Sampler
from handful.samplers.full import FullGraph
from handful.shuffle.over_ranks import infer_shards
from handful.shuffle.shards import ShardedGraph
from handful.training.gather import gathered
from handful.training.module import averaged, in_units, logits_of, takes_batch

CHUNK_ROWS = 65_536


@torch.no_grad()
def infer(
    model: nn.Module,
    graph: Graph,
    chunk: int = CHUNK_ROWS,
    sampler: Sampler = FullGraph(),  # noqa: B008  (frozen)
) -> Tensor:
    """The logits of every node, float32, exactly as a full-graph forward pass in evaluation mode gives them; of a model
    that was trained on numbers, its predictions in their unit.

    A model of handful's own holds a few layers' activations of the graph and the temporaries of ``chunk`` rows; a PyG
    module, whose layers cannot be seen, runs on the whole graph at once. ``sampler`` is that of the training: LADIES
    trains by another operator than the graph's own, and its models are to be evaluated by it. A PyG module that was
    trained with normalised GraphSAINT is given the weights of the mean. Of a graph in shards, every rank infers the
    logits of its own nodes, and all must come here.
    """
    was_training = model.training
    model.eval()
    try:
        if isinstance(graph, ShardedGraph):
            return in_units(model, infer_shards(model, graph, chunk).float())
        if isinstance(model, Network):
            assert graph.x is not None
            return in_units(model, model.infer(graph.x, sampler.operator(graph), chunk).float())
        batch = next(iter(FullGraph().epoch(graph, 0, 0)))
        if getattr(sampler, "normalize", False) and not takes_batch(model):
            batch = averaged(batch)
        return in_units(model, logits_of(model, batch).float())
    finally:
        model.train(was_training)


@torch.no_grad()
def embed(
    model: Network,
    graph: Graph,
    chunk: int = CHUNK_ROWS,
    sampler: Sampler = FullGraph(),  # noqa: B008  (frozen)
) -> Tensor:
    """float32 ``(N, width)``: what enters the layer that gives the logits, exactly, for every node; on the CPU.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4&features=8")
    >>> embed(hf.SAGE(8, 3, hidden=16, layers=2), graph).shape
    torch.Size([100, 16])
    """
    was_training = model.training
    model.eval()
    try:
        assert graph.x is not None
        return model.embeddings(graph.x, sampler.operator(graph), chunk).float().cpu()
    finally:
        model.train(was_training)


@torch.no_grad()
def infer_sampled(model: nn.Module, graph: Graph, samples: Iterator[Sample]) -> Tensor:
    """The logits of the samples' targets as their samples give them; NaN for nodes that none of them targets."""
    was_training = model.training
    model.eval()
    out: Tensor | None = None
    for batch in gathered(graph, samples, model, trimmed=True):
        logits = in_units(model, logits_of(model, batch)[batch.targets].float())
        if out is None:
            out = logits.new_full((graph.num_nodes, logits.shape[1]), float("nan"))
        out[batch.nodes[batch.targets]] = logits
    model.train(was_training)
    return torch.full((graph.num_nodes, 1), float("nan")) if out is None else out
