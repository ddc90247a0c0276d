"""A program that sends a graph to another process while it uses it: ``python sending.py START``."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset

import handful as hf

ROWS = 30_000
"""Enough rows and edges that kernels use the pool."""


def a_run(graph: hf.Graph) -> list[float]:
    """What a short training on ``graph`` comes to; the same in every process with one thread of torch."""
    torch.manual_seed(0)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=4, layers=2)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=1)
    return [run.val, run.test, graph.in_degree.sum().item()]


def receive(graphs: Any, answers: Any) -> None:
    """In the child: train on what comes."""
    for graph in iter(graphs.get, None):
        answers.put((graph.checksum, a_run(graph)))


class Parts(Dataset):
    """Every item is a kernel over the whole graph, in a worker."""

    def __init__(self, graph: hf.Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return sum(sample.layers[0].num_edges for sample in hf.RandomNodes(2).sample(self.graph, index, 0))


def main(start: str) -> None:
    """Send a graph that was used and one that was not, go on with both, and compare; then the same by workers."""
    torch.set_num_threads(1)
    context = multiprocessing.get_context(start)
    used = hf.load(f"synthetic?nodes={ROWS}&degree=6&features=4&classes=3")
    fresh = pickle.loads(pickle.dumps(used))
    wanted = used.checksum, a_run(used)
    views = used.topology  # kept, as a kernel does that runs while the queue sends
    graphs, answers = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(graphs, answers))
    child.start()
    for graph in (used, fresh, used, None):
        graphs.put(graph)
    assert all((view[:-1] <= ROWS * 20).all() for view in views)
    for _ in range(3):
        found = answers.get(timeout=60)
        assert found == wanted, (found, wanted)
    child.join()
    assert child.exitcode == 0
    for graph in (used, fresh, copy.deepcopy(used), pickle.loads(pickle.dumps(used))):
        assert hf.Graph(graph.indptr, graph.indices).checksum == wanted[0]
        assert a_run(graph) == wanted[1]
    for tensor in (used.indptr, used.indices, used.x):
        tensor.share_memory_()
    assert a_run(used) == wanted[1]
    here = [Parts(used)[index] for index in range(4)]
    workers = DataLoader(Parts(used), batch_size=None, num_workers=2, multiprocessing_context=start, timeout=60)
    assert [int(count) for count in workers] == here
    print("the same everywhere")


if __name__ == "__main__":
    main(sys.argv[1])
