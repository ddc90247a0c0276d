"""Neighbour loading, ways by turns: ``python benchmarks/neighbors.py [nodes] [edges]``.

PyG's ``NeighborLoader`` on our operators, the operator alone, handful's own sampling, and plain numpy: milliseconds of
a batch of 1024 seeds with fanout 15, 10, 5.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from handful.bench.harness import measure_by_turns, seconds_of
from handful.bench.loader import synthetic_data, whole_epoch
from handful.kernels.neighbors import sample
from handful.pyg import NeighborLoader

FANOUT = (15, 10, 5)
SEEDS, BATCHES, ROUNDS = 1024, 4, 5


def numpy_neighbors(
    indptr: np.ndarray, indices: np.ndarray, seeds: np.ndarray, fanout: tuple[int, ...], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbour sampling in plain numpy: nodes, and for each edge the number of its target and of its source.

    >>> indptr, indices = np.array([0, 2, 2, 2]), np.array([1, 2])
    >>> nodes, target, source = numpy_neighbors(indptr, indices, np.array([0]), (5,), np.random.default_rng(0))
    >>> sorted(nodes.tolist()), target.tolist(), sorted(source.tolist())
    ([0, 1, 2], [0, 0], [1, 2])
    """
    nodes, first = seeds, 0
    target, source = [], []
    for count in fanout:
        new = nodes[first:]
        degree = indptr[new + 1] - indptr[new]
        row = np.repeat(np.arange(first, len(nodes)), degree)
        place = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
        edge = np.repeat(indptr[new], degree) + place
        shuffled = np.lexsort((rng.random(len(row)), row))  # a random order of each row's edges, of which some are kept
        kept = shuffled[place < count]
        met = indices[edge[kept]]
        distinct, at = np.unique(np.concatenate([nodes, met]), return_index=True)
        fresh = np.sort(at[at >= len(nodes)]) - len(nodes)
        first, nodes = len(nodes), np.concatenate([nodes, met[fresh]])
        number = np.argsort(nodes)
        target.append(row[kept])
        source.append(number[np.searchsorted(distinct, met)])
    return nodes, np.concatenate(target), np.concatenate(source)


def main(nodes: int = 200_000, edges: int = 10_000_000) -> None:
    graph, data = synthetic_data(nodes, edges, seed=0)
    rng = np.random.default_rng(0)
    seeds = [rng.choice(nodes, min(SEEDS, nodes), replace=False) for _ in range(BATCHES)]
    order = torch.from_numpy(np.concatenate(seeds))
    loader = NeighborLoader(data, list(FANOUT), input_nodes=order, batch_size=len(seeds[0]), is_sorted=True)
    colptr, row = loader.node_sampler.colptr, loader.node_sampler.row

    def operator(batch: np.ndarray) -> None:
        torch.ops.pyg.neighbor_sample(colptr, row, torch.from_numpy(batch), list(FANOUT), csc=True)

    def own(batch: np.ndarray) -> None:
        sample(*graph.topology, batch, FANOUT, 0)

    def in_numpy(batch: np.ndarray) -> None:
        numpy_neighbors(*graph.topology, batch, FANOUT, rng)

    def each(draw: Callable[[np.ndarray], None], count: int = BATCHES) -> float:
        return seconds_of(lambda: [draw(batch) for batch in seeds[:count]]) / count

    works = {
        "PyG's NeighborLoader on our operators": lambda: whole_epoch(loader) / BATCHES,
        "the operator alone": partial(each, operator),
        "handful's own": partial(each, own),
        "plain numpy": partial(each, in_numpy, 1),
    }
    for work in works.values():
        work()  # compiles
    turns = measure_by_turns(works, ROUNDS, say=lambda word: None)
    for name, seconds in turns.medians.items():
        print(f"{name:40s} {1000 * seconds:8.1f} ms {turns.ratio(name, list(works)[2]):8.2f} times handful's own")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
