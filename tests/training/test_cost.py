"""What a step takes, foretold from small trials, against what was seen; and peaks, of what was held since a reset."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.training.cost import (
    _CLEAR,
    LiveBytes,
    needed_bytes,
    peak_gpu,
    peak_ram,
    reset_peak_memory,
    resting_ram,
    small_batch,
    step_cost,
    tensors,
    units,
)
from handful.training.execution import gather
from handful.training.loop import batch_loss


def seen(model: nn.Module, batch: hf.Batch) -> int:
    with LiveBytes() as counted:
        batch_loss(model, batch).backward()
    model.zero_grad(set_to_none=True)
    return counted.peak + sum(tensor.nbytes for tensor in tensors(batch))


@pytest.mark.parametrize("norm", ["ln", "bn"])
@pytest.mark.parametrize("make", [hf.SAGE, hf.GCN, hf.GAT, None], ids=["sage", "gcn", "gat", "pyg"])
def test_the_cost_is_foretold(make: type | None, norm: str) -> None:
    graph = make_graph(n=20_000, weighted=make is hf.GCN)
    model = GraphSAGE(8, 24, 2, 4) if make is None else make(8, 4, hidden=24, layers=2, norm=norm)
    model.train()
    batch = next(gather(graph, hf.RandomNodes(2).sample(graph, 0, 0), model, trimmed=True))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    cost = step_cost(model, graph, batch, batch_loss)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    most = seen(model, batch)
    assert most < cost(batch) < 2 * most


def test_a_small_batch_has_the_same_proportions() -> None:
    graph = make_graph(n=20_000)
    model = hf.SAGE(8, 4, hidden=8, layers=2, norm="ln")
    batch = next(gather(graph, hf.RandomNodes(8).sample(graph, 0, 0), model, trimmed=True))
    small = small_batch(graph, batch, 0.1)
    assert units(small) == pytest.approx(0.1 * units(batch), rel=0.01)
    for ours, theirs in zip(small.layers, batch.layers, strict=True):
        assert ours.num_edges == pytest.approx(0.1 * theirs.num_edges, rel=0.01)
        assert int(ours.indices.max()) < ours.num_sources
        assert ours.num_targets <= ours.num_sources


@pytest.mark.parametrize("make", [hf.SAGE, hf.GCN, hf.GAT], ids=["sage", "gcn", "gat"])
def test_a_device_with_the_graph_needs_a_step_and_the_graph(make: type) -> None:
    graph = make_graph(n=5000)
    model = make(8, 4, hidden=64, layers=3)
    (batch,) = hf.FullGraph().epoch(graph, 0, 0)
    most = seen(model.train(), batch)
    assert most < needed_bytes(graph, model, hf.FullGraph(), batch_loss) < 2 * most


# -- measured ---------------------------------------------------------------------------------------------------------


SIZE = 256 << 20


def can_reset() -> bool:
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset(), reason="this system cannot reset the peak of a process")
def test_the_peak_is_that_since_the_reset() -> None:
    before = resting_ram()
    block = np.ones(SIZE, np.uint8)
    assert peak_ram() - before >= 0.9 * SIZE
    assert block[0] == 1
    del block
    assert peak_ram() - before >= 0.9 * SIZE  # it was there at some time
    reset_peak_memory(torch.device("cpu"))
    assert peak_ram() - before < 0.5 * SIZE


def test_without_the_systems_file_it_is_the_peak_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = peak_ram()
    monkeypatch.setattr("handful.training.cost.read_sizes", dict)
    assert peak_ram() >= 0.9 * here


def test_a_cpu_has_no_memory_of_a_gpu() -> None:
    assert peak_gpu(torch.device("cpu")) is None
