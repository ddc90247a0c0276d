"""How fast each sampler draws, beside what memory and a training step allow: ``python -m benchmarks.samplers``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Batch, make_batch, training_sample
from handful.datasets.synthetic import BlockModel, generate
from handful.errors import HandfulError
from handful.finding import Table, text_table
from handful.graph import Graph
from handful.kernels.threads import get_threads
from handful.nn import SAGE
from handful.random import generator
from handful.report.tables import markdown
from handful.samplers import Clusters, Ladies, Neighbors, RandomNodes, RandomWalks, Sampler
from handful.samplers.cluster import deal_clusters
from handful.samplers.induced import induced_parts
from handful.training.loss import node_loss

FEATURES = 100
"""Width of the made-up features that training steps are timed on."""


def bench_samplers(
    nodes: int,
    edges: int,
    seeds: int,
    limit: float,
    training: tuple[int, int] | None,
    layers: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Edges per second of every sampler, the memory bandwidth of this machine, and the share of a training epoch.

    Args:
        nodes, edges, seeds: of the made-up graph: its nodes, directed edges about, and training nodes.
        limit: seconds after which a sampler's epoch is cut short.
        training: width and depth of the GraphSAGE whose steps are timed too; ``None`` for none.
        layers: how many layers LADIES draws.
        say: called with what is being done.
    """
    if seeds > nodes:
        raise HandfulError(f"seeds is {seeds}, more than the {nodes} nodes")
    share = seeds / nodes
    say("making the graph…")
    model = BlockModel(nodes=nodes, degree=edges / nodes, features=0, train=share, val=(1 - share) / 2)
    graph = with_narrow_features(generate(model))
    bandwidth = copy_bandwidth()
    small = with_narrow_features(generate(BlockModel(nodes=3000, features=0)))
    rows = []
    for contender in contenders(layers):
        say(f"{contender.sampler}…")
        rows.append(measure_sampler(contender, graph, small, limit, bandwidth, training))
    shape = None if training is None else {"hidden": training[0], "layers": training[1], "features": FEATURES}
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "seeds": len(graph.train_nodes),
        "threads": get_threads(),
        "copy_bytes_per_second": bandwidth,
        "training": shape,
        "samplers": rows,
    }


@dataclass(frozen=True)
class Contender:
    """A sampler to time, and how."""

    sampler: Sampler
    note: str = ""
    blocks: bool = False
    """Whether contiguous blocks of nodes stand in for METIS clusters."""


def contenders(layers: int) -> list[Contender]:
    """What is measured: the samplers with their defaults, LADIES as deep as the model, RNS in as many as ClusterGCN."""
    return [
        Contender(Neighbors()),
        Contender(RandomWalks()),
        Contender(
            Clusters(), "contiguous blocks of nodes stand in for METIS clusters, which are cut once", blocks=True
        ),
        Contender(Ladies(budget=(8192,) * layers)),
        Contender(RandomNodes(parts=10)),
    ]


def measure_sampler(
    contender: Contender, graph: Graph, small: Graph, limit: float, bandwidth: float, training: tuple[int, int] | None
) -> dict[str, Any]:
    """Draw an epoch, or what ``limit`` seconds of it give, and time training steps on its first batch."""
    for _ in zip(range(3), epoch(contender, small), strict=False):  # compile
        pass
    drawn = edges = read = 0
    first: Batch | None = None
    start, spent, whole = perf_counter(), 0.0, True
    for batch in epoch(contender, graph):
        spent = perf_counter() - start
        pause = perf_counter()
        drawn, first = drawn + 1, first or batch
        sampled, looked_at = edges_of(contender.sampler.name, batch, graph)
        edges, read = edges + sampled, read + looked_at
        start += perf_counter() - pause
        if spent > limit:
            whole = False
            break
    assert first is not None
    read = read or graph.num_edges  # one pass serves the whole epoch
    row = {
        "sampler": contender.sampler.name,
        "options": contender.sampler.options(),
        "note": contender.note,
        "batches": drawn,
        "whole_epoch": whole,
        "edges_sampled": edges,
        "seconds": spent,
        "edges_per_second": edges / spent,
        "edges_read": read,
        "share_of_bandwidth": read * graph.indices.itemsize / spent / bandwidth,
    }
    if training is not None:
        seconds = step_seconds(first, graph, *training)
        row |= {"step_seconds": seconds, "sampling_over_training": spent / drawn / seconds}
    return row


def edges_of(name: str, batch: Batch, graph: Graph) -> tuple[int, int]:
    """How many edges were sampled for this batch, and how many looked at; 0 where one pass serves all batches."""
    degree, inner = graph.in_degree, batch.layers[0]
    if name == "neighbor":  # the other layers are the first rows of this one
        return inner.num_edges, inner.num_edges
    if name == "saint":
        return inner.num_edges, int(degree[batch.nodes].sum())
    if name == "ladies":
        return batch.num_edges, sum(int(degree[batch.nodes[: layer.num_targets]].sum()) for layer in batch.layers)
    return inner.num_edges, 0


def epoch(contender: Contender, graph: Graph) -> Iterator[Batch]:
    """The batches of one epoch."""
    if not contender.blocks:
        yield from contender.sampler.epoch(graph, 0, 0)
        return
    for nodes, adjacency in joined_blocks(graph, **contender.sampler.options()):
        yield make_batch(graph, training_sample(graph, nodes, (adjacency,)))


def joined_blocks(graph: Graph, clusters: int, per_batch: int) -> Iterator[tuple[Tensor, Adjacency]]:
    """ClusterGCN's batches when the clusters are contiguous blocks of nodes."""
    blocks: np.ndarray = np.arange(graph.num_nodes) * clusters // graph.num_nodes
    part, batches = deal_clusters(blocks, per_batch, generator(0, 0))
    return induced_parts(graph, part, batches)


def with_narrow_features(graph: Graph) -> Graph:
    """The graph with one feature per node: a batch then costs what its nodes and edges cost."""
    return replace(graph, x=torch.zeros(graph.num_nodes, 1), checked=True)


def step_seconds(batch: Batch, graph: Graph, hidden: int, layers: int) -> float:
    """Seconds of forward, backward and update of GraphSAGE on ``batch``; the better of two after a first."""
    batch = replace(batch, x=torch.randn(batch.num_nodes, FEATURES))
    model = SAGE(FEATURES, graph.num_outputs, hidden=hidden, layers=layers, residual=False)
    optimizer = torch.optim.Adam(model.parameters())
    times = []
    for _ in range(3):
        start = perf_counter()
        optimizer.zero_grad()
        loss = node_loss(model(batch)[batch.targets], batch.y, batch.target_weight)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        times.append(perf_counter() - start)
    return min(times[1:])


def copy_bandwidth(size: int = 1 << 28) -> float:
    """Bytes per second that a plain copy reads and writes, on all threads; the best of five."""
    source, target = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        target.copy_(source)
        best = min(best, perf_counter() - start)
    return 2 * size / best


def samplers_table(payload: dict[str, Any]) -> Table:
    """The result for people."""
    head = ["sampler", "batches", "M edges", "seconds", "M edges/s", "of bandwidth"]
    head += ["step, s", "of training"] if payload["training"] else []
    rows = []
    for row in payload["samplers"]:
        texts = [
            row["sampler"],
            f"{row['batches']}{'' if row['whole_epoch'] else '…'}",
            f"{row['edges_sampled'] / 1e6:.2f}",
            f"{row['seconds']:.2f}",
            f"{row['edges_per_second'] / 1e6:.1f}",
            f"{100 * row['share_of_bandwidth']:.1f} %",
        ]
        if payload["training"]:
            texts += [f"{row['step_seconds']:.3f}", f"{100 * row['sampling_over_training']:.1f} %"]
        rows.append(texts)
    return text_table(
        f"{payload['nodes']:,} nodes, {payload['edges']:,} edges, {payload['threads']} threads", head, rows
    )


def notes(payload: dict[str, Any]) -> list[str]:
    """What the columns mean, and how the samplers were set."""
    lines = [
        f"{row['sampler']}: " + ", ".join(f"{k}={v}" for k, v in row["options"].items() if v not in (None, False))
        for row in payload["samplers"]
    ]
    lines += [f"{row['sampler']}: {row['note']}" for row in payload["samplers"] if row["note"]]
    copied = payload["copy_bytes_per_second"] / 1e9
    lines.append(f"of bandwidth: the ids that were read, against the {copied:.1f} GB/s that a plain copy moves")
    if payload["training"]:
        shape = "{layers} layers of {hidden} on {features} features".format(**payload["training"])
        lines.append(f"of training: a batch's nodes and edges, without features, against a GraphSAGE step, {shape}")
    if not all(row["whole_epoch"] for row in payload["samplers"]):
        lines.append("…: the epoch was cut short by the limit")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.samplers", description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_450_000, help="nodes of the made-up graph (%(default)s)")
    parser.add_argument("--edges", type=int, default=123_000_000, help="its directed edges, about (%(default)s)")
    parser.add_argument("--seeds", type=int, default=200_000, help="its training nodes (%(default)s)")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds after which an epoch is cut short")
    parser.add_argument("--hidden", type=int, default=256, help="width of the GraphSAGE whose steps are timed")
    parser.add_argument("--layers", type=int, default=3, help="its layers")
    asked = parser.parse_args(arguments)
    training = (asked.hidden, asked.layers)
    say = partial(print, file=sys.stderr)
    result = bench_samplers(asked.nodes, asked.edges, asked.seeds, asked.limit, training, asked.layers, say)
    print(markdown(samplers_table(result)), *notes(result), sep="\n")


if __name__ == "__main__":
    main()
