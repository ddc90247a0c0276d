"""From samples to batches: trimmed where the model allows it, and the same loss either way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.training import gather
from handful.training.gather import depth_of_trimming, gathered, gathered_own
from handful.trim import trim


@pytest.fixture
def sparse() -> hf.Graph:
    """Few training nodes with few neighbours: most of the graph is out of their sight."""
    graph = make_graph(400, degree=2)
    return graph.replace(train_mask=graph.train_nodes[:20])


def model_of(graph: hf.Graph, name: str, norm: str = "ln") -> torch.nn.Module:
    torch.manual_seed(0)
    if name == "pyg":
        return GraphSAGE(graph.num_features, 8, 2, graph.num_outputs)
    return hf.make_model(name, graph.num_features, graph.num_outputs, hidden=16, layers=2, norm=norm, dropout=0.0)


def test_batches_are_cut_to_what_their_targets_see(sparse: hf.Graph) -> None:
    samples = list(hf.RandomNodes(2).sample(sparse, 0, 0))
    batches = list(gathered(sparse, iter(samples), model_of(sparse, "sage"), trimmed=True))
    assert len(batches) == 2
    for sample, batch in zip(samples, batches, strict=True):
        expected = trim(sample, 2)
        assert batch.num_nodes == expected.num_nodes < sample.num_nodes
        assert torch.equal(batch.nodes, expected.nodes)
        assert torch.equal(batch.x, sparse.x[batch.nodes])
        assert torch.equal(batch.y, sparse.y[batch.nodes[batch.targets]])


@pytest.mark.parametrize(
    ("name", "norm", "trimmed"), [("sage", "ln", False), ("sage", "bn", True), ("pyg", "ln", True)]
)
def test_nothing_is_cut_where_it_must_not_be(sparse: hf.Graph, name: str, norm: str, trimmed: bool) -> None:
    samples = list(hf.RandomNodes(2).sample(sparse, 0, 0))
    batches = gathered(sparse, iter(samples), model_of(sparse, name, norm), trimmed)
    for sample, batch in zip(samples, batches, strict=True):
        assert batch.nodes is sample.nodes
        assert batch.layers is sample.layers


@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_trimming_changes_no_loss(sparse: hf.Graph, name: str) -> None:
    histories = []
    for trimmed in (True, False):
        run = hf.fit(model_of(sparse, name), sparse, hf.RandomNodes(2), epochs=4, lr=1e-2, trim=trimmed)
        histories.append([line["loss"] for line in run.history])
    assert histories[0] == pytest.approx(histories[1], rel=1e-4)


def test_batches_are_made_ahead_of_a_device_alone(sparse: hf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other device is torch's ``meta``, which holds no data."""
    made_by: list[str] = []

    def note(graph: hf.Graph, sample: hf.Sample) -> hf.Sample:
        made_by.append(threading.current_thread().name)
        return sample

    monkeypatch.setattr(gather, "make_batch", note)
    for graph in (sparse, sparse.to("meta")):
        list(gathered(graph, hf.RandomNodes(2).sample(sparse, 0, 0), model_of(sparse, "pyg"), False))
    assert made_by == [threading.current_thread().name] * 2 + ["handful-ahead"] * 2


@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_batches_that_are_sent_are_the_same(sparse: hf.Graph, norm: str) -> None:
    model, here = model_of(sparse, "sage", norm), torch.device("cpu")
    depth = depth_of_trimming(model, trimmed=True)
    stay, go = (
        list(gathered_own(sparse, hf.RandomNodes(2).sample(sparse, 0, 0), depth, lambda index: True, device))
        for device in (None, here)
    )
    for one, other in zip(stay, go, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.targets, other.targets)
        assert all(torch.equal(a.indices, b.indices) for a, b in zip(one.layers, other.layers, strict=True))


def test_to_a_gpu_batches_go_on_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of calls, with a GPU that only notes them: the step waits for the copy, and its memory for the step."""
    calls: list[str] = []
    current = ["the step's"]

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def record_event(self) -> str:
            calls.append(f"event on {self.name}")
            return "arrived"

        def wait_event(self, event: str) -> None:
            calls.append(f"{self.name} waits for {event}")

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        before, current[0] = current[0], stream.name
        yield
        current[0] = before

    class Tensor:
        def record_stream(self, stream: Stream) -> None:
            calls.append(f"memory kept for {stream.name}")

    class Batch:
        def to(self, device: torch.device) -> Batch:
            calls.append(f"sent on {current[0]}")
            return self

        def map(self, function: Callable[[Tensor], Tensor]) -> None:
            function(Tensor())

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("its own"))
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(current[0]))
    for _ in gather.delivered(iter([Batch()]), torch.device("cuda")):  # type: ignore[list-item]
        calls.append("trained")
    assert calls == [
        "sent on its own",
        "event on its own",
        "the step's waits for arrived",
        "memory kept for the step's",
        "trained",
    ]


def test_batches_of_other_ranks_are_never_made(sparse: hf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[hf.Sample] = []
    monkeypatch.setattr(gather, "make_batch", lambda graph, sample: made.append(sample) or sample)
    samples = list(hf.RandomNodes(4).sample(sparse, 0, 0))
    depth = depth_of_trimming(model_of(sparse, "sage"), trimmed=True)
    assert depth == 2
    batches = list(gathered_own(sparse, iter(samples), depth, own=lambda index: index in (1, 2)))
    assert [batch is None for batch in batches] == [True, False, False, True]
    assert [batch.num_nodes for batch in made] == [trim(sample, 2).num_nodes for sample in samples[1:3]]
