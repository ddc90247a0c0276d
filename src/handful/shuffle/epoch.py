"""An epoch within a memory budget. The batches are the same, byte for byte, as without a budget.

The steps of an epoch, in this order:

- Every node gets its part (``Deal``).
- The edges are read once, in order. Edges whose two ends are in the same part, about one in m, are stored by part.
- Part by part, the edges are renumbered and trimmed to the receptive field of the loss.
- Features and labels are read once, in order. The rows of the remaining nodes are stored by part.
- The batches are yielded one after another.

Stored arrays are in memory if the budget allows it, otherwise in files (``Scratch``).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch

from handful.adjacency import Adjacency
from handful.batch import Batch, Sample, training_sample
from handful.errors import HandfulError
from handful.graph import Graph
from handful.kernels import memory
from handful.kernels.csr import index_dtype
from handful.kernels.subgraph import BLOCK, cut, members, part_csr, row_blocks
from handful.samplers.ahead import run_ahead
from handful.samplers.base import Deal
from handful.samplers.induced import part_adjacency, weighted_csr
from handful.shuffle.scratch import Budget, Scratch

Trim = Callable[[Sample], Sample]
Say = Callable[[str, float], None]
"""A progress function: it is called with the name of the current phase and the fraction of it that is done."""
StepBytes = Callable[[Sample], int]
"""A function that returns the memory of a training step on a sample, in bytes, including the batch."""
ROWS, LEAST_ROWS = 1 << 25, 1 << 16
"""The maximum and the minimum number of bytes of features that are read at a time."""
LEAST_BLOCK = 1 << 12
"""The minimum size of a block of rows, counted as rows plus edges; ``BLOCK`` is the maximum."""
POPULATE_READ = 22
"""The code of ``MADV_POPULATE_READ`` in Linux 5.14, which reads and maps pages; Python does not define this
constant.
"""
READERS = 2
"""The number of blocks that are read ahead: a disk is faster if two reads run at the same time."""
NEAR = 1 << 18
"""Two rows with a gap of at most this many bytes are read together: reading the gap is faster than a second read."""
ARRAYS = ("indptr", "indices", "weight", "source_degree")
"""The arrays of a layer. In a trimmed sample, the arrays of all layers are prefixes of the longest array."""


def shuffle_epoch(
    graph: Graph,
    deal: Deal,
    memory: int,
    *,
    trimmed: Trim = lambda sample: sample,
    step_bytes: StepBytes = lambda sample: 0,
    say: Say = lambda what, share: None,
) -> Iterator[Batch]:
    """Make the batches of an epoch. The anonymous memory of the whole process stays within ``memory`` bytes.

    The batches are the same as if ``training_sample``, ``trim`` and ``make_batch`` were applied, in this order, to
    every part.

    Args:
        graph: a graph on the CPU; the arrays of a large graph are memory-mapped.
        deal: the partition, whose array is overwritten.
        memory: the budget; see ``Budget``.
        trimmed: a function that trims a sample to the receptive field of its loss.
        step_bytes: a function that returns the memory of a training step on a sample, in bytes.
        say: a progress function.

    Raises:
        HandfulError: a part does not fit into the budget, or the scratch files do not fit on the disk.

    >>> import handful as hf
    >>> graph, sampler = hf.load("synthetic?nodes=100&degree=4"), hf.RandomNodes(parts=2)
    >>> [batch.num_nodes for batch in shuffle_epoch(graph, sampler.deal(graph, 0, 0), 2**32)]
    [50, 50]
    """
    graph.require_training()
    if graph.device.type != "cpu":
        raise HandfulError(f"memory is that of the CPU, and the graph is on {graph.device}: leave it out, or move it")
    budget = Budget(memory, deal.parts)
    with Scratch() as scratch:
        cut_edges(graph, deal, scratch, budget, say)
        waiting: list[Waiting] = []
        for p, sample in enumerate(samples(graph, deal, trimmed, scratch, budget, say)):
            waiting.append(put(sample, p, graph.num_nodes, step_bytes(sample), scratch))
            del sample
        budget.require(max(one.step_bytes for one in waiting), scratch, "a training step on one part")
        collect(graph, deal, scratch, budget, say)
        del deal
        for p, one in enumerate(waiting):
            budget.make_room(one.step_bytes, scratch, "a training step on one part")
            scratch.expect(p + 1)
            yield batch_of(graph, p, one, scratch)


# -- edges ------------------------------------------------------------------------------------------------------------


def cut_edges(graph: Graph, deal: Deal, scratch: Scratch, budget: Budget, say: Say) -> None:
    """Read all edges once, and store the edges inside each part as the part's ``degree``, ``source`` and ``weight``."""
    indptr, indices, weight = weighted_csr(graph)
    size = int(np.clip(budget.free() // 64, LEAST_BLOCK, BLOCK))
    needed = 32 * size

    def prepare(block: tuple[int, int]) -> tuple[int, int]:
        begin, end = int(indptr[block[0]]), int(indptr[block[1]])
        for array in (indices, weight):
            if array is not None:
                fetch(array, begin, end)
        return block

    for p in range(deal.parts):  # an empty piece sets the type, in case no rows follow
        for name, dtype in (("degree", np.uint8), ("source", indices.dtype), ("weight", np.float32)):
            scratch.append(name, p, np.empty(0, dtype))
    budget.make_room(needed, scratch, "a block of edges")
    for lo, hi in run_ahead((partial(prepare, block) for block in row_blocks(indptr, size)), READERS, READERS):
        piece = cut(lo, indptr[lo : hi + 1], indices, *deal, weight)
        for p in range(deal.parts):
            for name, array in zip(("degree", "source", "weight"), piece.of(p), strict=True):
                if len(array):
                    scratch.append(name, p, array.copy())
        del piece
        budget.make_room(needed, scratch, "a block of edges")
        say("reading edges", hi / graph.num_nodes)


def part_bytes(rows: int, edges: int, nodes: int, loops_or_weights: bool) -> int:
    """The peak memory, in bytes, for renumbering and trimming a part with ``rows`` nodes and ``edges`` edges. The graph
    has ``nodes`` nodes.
    """
    return 64 * rows + (56 if loops_or_weights else 12) * edges + nodes // 4


def samples(graph: Graph, deal: Deal, trimmed: Trim, scratch: Scratch, budget: Budget, say: Say) -> Iterator[Sample]:
    """Yield the sample of every part. ``deal`` is changed: a part keeps only the nodes that its sample needs."""
    part, m = deal
    together = max(1, m // 8)  # the array of parts is read at most eight times, and the lists take one byte per node
    heavy = graph.edge_weight is not None or graph.has_loops
    for begin in range(0, m, together):
        for p, nodes in enumerate(members(part, begin, min(begin + together, m)), begin):
            edges = scratch.rows("source", p)
            budget.make_room(part_bytes(len(nodes), edges, graph.num_nodes, heavy), scratch, "one part")
            kept = (scratch.joined(name, p) for name in ("degree", "source", "weight"))
            sample = sample_of(graph, nodes, kept, trimmed)
            if sample.num_nodes < len(nodes):
                part[nodes] = m
                part[sample.nodes.numpy()] = p
            yield sample
            del sample
            say("cutting parts", (p + 1) / m)


def sample_of(graph: Graph, nodes: np.ndarray, edges: Iterable[np.ndarray], trimmed: Trim) -> Sample:
    """The trimmed sample of the part that consists of ``nodes``; the in-memory sampler gives the same sample.

    Args:
        graph: the graph; only its labels and masks are read.
        nodes: the nodes of the part.
        edges: the arrays ``degree``, ``source`` and ``weight`` of the part, from ``cut``.
        trimmed: the function that trims the sample.
    """
    degree, source, weight = edges
    arrays = map(torch.from_numpy, (*part_csr(graph.num_nodes, nodes, degree, source), weight))
    return trimmed(training_sample(graph, torch.from_numpy(nodes), (part_adjacency(graph, *arrays),)))


# -- stored data ------------------------------------------------------------------------------------------------------


class Waiting(NamedTuple):
    """A sample whose arrays are stored in ``Scratch``."""

    layers: tuple[Adjacency, ...]
    """The adjacency of each layer, with empty arrays."""
    lengths: tuple[dict[str, int], ...]
    """For each layer, the lengths of its arrays, by name. Arrays that are ``None`` are left out."""
    step_bytes: int
    """The memory of the batch and the training step together, in bytes."""


def put(sample: Sample, p: int, num_nodes: int, step_bytes: int, scratch: Scratch) -> Waiting:
    """Store the sample of part ``p`` in ``scratch``; the graph has ``num_nodes`` nodes."""
    smallest = index_dtype(num_nodes)
    scratch.append("nodes", p, sample.nodes.numpy().astype(smallest))
    scratch.append("targets", p, sample.targets.numpy().astype(smallest))
    arrays = [{name: one for name in ARRAYS if (one := getattr(layer, name)) is not None} for layer in sample.layers]
    for name in arrays[0]:
        scratch.append(name, p, max((own[name] for own in arrays), key=len).numpy())
    lengths = tuple({name: len(one) for name, one in own.items()} for own in arrays)
    empty = ({name: one[:0] for name, one in own.items()} for own in arrays)
    layers = tuple(replace(layer, **none) for layer, none in zip(sample.layers, empty, strict=True))
    return Waiting(layers, lengths, step_bytes)


# -- features and labels ----------------------------------------------------------------------------------------------


def collect(graph: Graph, deal: Deal, scratch: Scratch, budget: Budget, say: Say) -> None:
    """Read features and labels once, in order, and store the rows that each part needs as the part's ``x`` and ``y``.

    Args:
        graph: the graph with the features and labels.
        deal: the nodes that each part needs.
        scratch: where the rows are stored.
        budget: the memory budget.
        say: a progress function.
    """
    assert graph.x is not None
    assert graph.y is not None
    assert graph.train_mask is not None
    # As integers of the same size, since numpy and numba lack some types.
    x: np.ndarray = graph.x.view(torch.int32 if graph.x.element_size() == 4 else torch.int16).numpy()
    n = graph.num_nodes
    rows = max(1, int(np.clip(budget.free() // 16, LEAST_ROWS, ROWS)) // max(1, x.strides[0]))
    needed = rows * (2 * x.strides[0] + 64 * (1 + READERS))

    def prepare(lo: int) -> tuple[int, list[np.ndarray]]:
        wanted = [nodes + lo for nodes in members(deal.part[lo : lo + rows], 0, deal.parts)]
        fetch_rows(x, np.sort(np.concatenate(wanted), kind="stable"))
        return lo, wanted

    for p in range(deal.parts):  # an empty piece sets the type, in case no row is needed
        scratch.append("x", p, x[:0])
        scratch.append("y", p, graph.y[:0].numpy())
    budget.make_room(needed, scratch, "a block of features")
    for lo, wanted in run_ahead((partial(prepare, lo) for lo in range(0, n, rows)), READERS, READERS):
        for p, nodes in enumerate(wanted):
            if len(nodes):
                ids = torch.from_numpy(nodes)
                scratch.append("x", p, torch.from_numpy(x).index_select(0, ids).numpy())
                scratch.append("y", p, graph.y.index_select(0, ids[graph.train_mask[ids]]).numpy())
        del wanted
        budget.make_room(needed, scratch, "a block of features")
        say("reading features", min(1.0, (lo + rows) / n))


def batch_of(graph: Graph, p: int, waiting: Waiting, scratch: Scratch) -> Batch:
    """Load the sample of part ``p``, which ``put`` stored; add its features and labels, and return it as a batch.

    The stored arrays of the part are removed.
    """
    assert graph.x is not None
    nodes, targets = (torch.from_numpy(scratch.joined(name, p).astype(np.int64)) for name in ("nodes", "targets"))
    arrays: dict[str, Any] = {name: torch.from_numpy(scratch.joined(name, p)) for name in waiting.lengths[0]}
    prefixes = ({name: arrays[name][:size] for name, size in length.items()} for length in waiting.lengths)
    layers = tuple(replace(layer, **own) for layer, own in zip(waiting.layers, prefixes, strict=True))
    places = torch.argsort(nodes, stable=True)
    x, at = memory.empty((len(nodes), graph.num_features), graph.x), 0
    for piece in scratch.take("x", p):
        x.index_copy_(0, places[at : at + len(piece)], torch.from_numpy(piece).view(x.dtype))
        at += len(piece)
    if at != len(nodes):
        raise AssertionError(f"part {p} has {at} rows of features for {len(nodes)} nodes")
    return Batch(nodes, layers, targets, x=x, y=torch.from_numpy(scratch.joined("y", p)))


# -- reading ----------------------------------------------------------------------------------------------------------


def fetch(array: np.ndarray, lo: int, hi: int) -> None:
    """Read rows ``lo`` to ``hi - 1`` of a contiguous memory-mapped array into memory.

    This is a hint to the system; without it, rows are read from disk on first use.
    """
    advise = _madvise()
    if advise is not None and hi > lo:
        begin = (array.ctypes.data + lo * array.strides[0]) // mmap.PAGESIZE * mmap.PAGESIZE
        end = array.ctypes.data + hi * array.strides[0]
        if advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), POPULATE_READ) != 0:
            advise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_WILLNEED)


def fetch_rows(array: np.ndarray, rows: np.ndarray) -> None:
    """Call ``fetch`` for ``rows``, which must be in ascending order. Rows that are close together are read together."""
    for run in np.split(rows, np.flatnonzero(np.diff(rows) * array.strides[0] > NEAR) + 1):
        if len(run):
            fetch(array, int(run[0]), int(run[-1]) + 1)


@cache
def _madvise() -> Any:
    if os.name != "posix" or not hasattr(mmap, "MADV_WILLNEED"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
