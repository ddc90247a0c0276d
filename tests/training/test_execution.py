"""How a run is executed changes no batch: trimmed where the model allows it, on the host or the device, for one rank or
several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful import ranks
from handful.batch import Batch, batch_checksum
from handful.errors import HandfulError
from handful.training import execution
from handful.training.callbacks import Callback
from handful.training.cost import needed_bytes
from handful.training.execution import (
    InMemory,
    WithinBudget,
    copy_to,
    deliver,
    gather,
    stays_on_host,
    trimmer,
)
from handful.training.fit import begin
from handful.training.loop import Loop, batch_loss
from handful.trim import trim

CPU, GPU = torch.device("cpu"), torch.device("cuda")


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
    batches = list(gather(sparse, iter(samples), model_of(sparse, "sage"), trimmed=True))
    assert len(batches) == 2
    for sample, batch in zip(samples, batches, strict=True):
        expected = trim(sample, 2)
        assert batch.num_nodes == expected.num_nodes < sample.num_nodes
        assert torch.equal(batch.nodes, expected.nodes)
        assert torch.equal(batch.x, sparse.x[batch.nodes])
        assert torch.equal(batch.y, sparse.y[batch.nodes[batch.targets]])


@pytest.mark.parametrize(
    ("name", "norm", "trimmed"), [("sage", "ln", False), ("gat", "bn", False), ("pyg", "ln", True)]
)
def test_nothing_is_cut_where_it_must_not_be(sparse: hf.Graph, name: str, norm: str, trimmed: bool) -> None:
    samples = list(hf.RandomNodes(2).sample(sparse, 0, 0))
    batches = gather(sparse, iter(samples), model_of(sparse, name, norm), trimmed)
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

    monkeypatch.setattr(execution, "make_batch", note)
    for graph in (sparse, sparse.to("meta")):
        list(gather(graph, hf.RandomNodes(2).sample(sparse, 0, 0), model_of(sparse, "pyg"), False))
    assert made_by == [threading.current_thread().name] * 2 + ["handful-ahead_0"] * 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_every_execution_gives_the_same_batches(norm: str, weighted: bool) -> None:
    """In memory, sent to a device, and within a budget that holds all or holds little; shards: tests/shuffle."""
    graph = make_graph(400, degree=2, weighted=weighted)
    graph = graph.replace(train_mask=graph.train_nodes[:20])
    loop = begin(model_of(graph, "sage", norm), graph, hf.RandomNodes(3), hf.Settings())
    ways = [InMemory(), InMemory(CPU), WithinBudget(memory=1 << 50)]
    for epoch in range(2):
        loop.epoch = epoch
        first, *others = ([checksum(batch) for batch in way.batches(loop)] for way in ways)
        assert len(set(first)) == 3
        assert others == [first] * 2


def checksum(batch: Batch | None) -> str:
    assert batch is not None
    return batch_checksum(batch)


def test_within_a_budget_a_part_without_targets_still_has_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(60)
    loop = begin(
        hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2), graph, hf.RandomNodes(2), hf.Settings()
    )
    asked: dict[str, Any] = {}
    monkeypatch.setattr(execution, "shuffle_epoch", lambda *args, **how: asked.update(how) or iter(()))
    list(WithinBudget(memory=1 << 40).batches(loop))
    sample = next(hf.RandomNodes(2).sample(graph, 0, 0))
    assert graph.x is not None
    features = sample.num_nodes * graph.num_features * graph.x.element_size()
    idle = asked["step_bytes"](replace(sample, targets=sample.targets[:0]))
    assert idle > features
    assert asked["step_bytes"](sample) > idle


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
    for _ in deliver(iter([Batch()]), torch.device("cuda")):  # type: ignore[list-item]
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
    monkeypatch.setattr(execution, "make_batch", lambda graph, sample: made.append(sample) or sample)
    loop = begin(model_of(sparse, "sage"), sparse, hf.RandomNodes(4), hf.Settings(parts_per_step=4))
    monkeypatch.setattr(ranks, "size", lambda: 2)
    batches = list(InMemory().batches(loop))
    assert [batch is None for batch in batches] == [False, True, False, True]
    samples = list(hf.RandomNodes(4).sample(sparse, 42, 0))
    cut = trimmer(loop.model, trimmed=True)
    assert [batch.num_nodes for batch in made] == [cut(sample).num_nodes for sample in samples[::2]]


# -- places -----------------------------------------------------------------------------------------------------------


class Seen(Callback):
    """The nodes of every batch."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        self.nodes.append(batch.nodes.tolist())


@pytest.mark.parametrize("evaluation", ["exact", "sampled"])
@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_training_with_the_graph_on_the_host_is_the_same(norm: str, evaluation: str) -> None:
    """Bit for bit where the device is the CPU: batches, losses, metrics and weights."""
    graph = make_graph(weighted=True)
    sampler = hf.RandomNodes(3) if evaluation == "exact" else hf.Neighbors((3, 3), batch_size=40)
    found = []
    for where in ("device", "host"):
        seen = Seen()
        run = hf.fit(
            "sage", graph, sampler, options={"hidden": 8, "layers": 2, "norm": norm}, epochs=3, lr=0.01,
            evaluation=evaluation, callbacks=[seen], graph_on=where,
        )  # fmt: skip
        lines = [{k: v for k, v in line.items() if "seconds" not in k} for line in run.history]
        assert run.model is not None
        found.append((seen.nodes, lines, {k: v.tolist() for k, v in run.model.state_dict().items()}))
    assert found[0] == found[1]
    assert len(found[0][0]) > 3
    assert not [t for t in threading.enumerate() if t.name.startswith("handful-ahead")]


def test_a_module_of_pyg_and_class_weights() -> None:
    graph, values = make_graph(), []
    for where in ("device", "host"):
        torch.manual_seed(0)
        model = GraphSAGE(graph.num_features, 8, 2, graph.num_outputs)
        run = hf.fit(model, graph, hf.RandomNodes(2), epochs=2, class_weight="balanced", graph_on=where)  # type: ignore[arg-type]
        values.append([line["loss"] for line in run.history])
    assert values[0] == values[1]


def test_the_place_is_no_part_of_the_run(tmp_path: Any) -> None:
    """A run is resumed with another one, and ends like one that was not broken off."""
    experiment = hf.Experiment("synthetic?nodes=200&degree=4", hidden=8, layers=2, epochs=4, seeds=(1,))

    class Broken(Callback):
        def on_epoch(self, loop: Loop) -> None:
            if loop.epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.with_(checkpoint_seconds=0.0).run(tmp_path / "a", callbacks=[Broken()], graph_on="host")
    again = experiment.with_(checkpoint_seconds=0.0).run(tmp_path / "a", resume=True, graph_on="device")
    whole = experiment.run(tmp_path / "b")
    assert [line["loss"] for line in again.runs[0].history] == [line["loss"] for line in whole.runs[0].history]


def test_no_such_place() -> None:
    with pytest.raises(HandfulError, match=r"no place for the graph 'gpu'.*device"):
        hf.fit("sage", make_graph(), hf.RandomNodes(2), epochs=1, graph_on="gpu")  # type: ignore[arg-type]


@pytest.mark.parametrize(("spare", "host"), [(0, False), (-1, True)])
def test_auto_asks_what_fits(
    spare: int, host: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, model, sampler = make_graph(), hf.SAGE(8, 4, hidden=8, layers=2), hf.RandomNodes(2)
    needed = needed_bytes(graph, model, sampler, batch_loss)
    monkeypatch.setattr(execution, "free_gpu", lambda device: needed + spare)
    assert stays_on_host("auto", graph, model, sampler, GPU, batch_loss) == host
    assert ("the graph stays on the host" in capsys.readouterr().err) == host
    needed = needed_bytes(graph, model, sampler, batch_loss, width=16) + 1  # rows of a step are [own ‖ aggregated]
    assert stays_on_host("auto", graph, model, sampler, GPU, batch_loss, aggregates=1) == host
    assert stays_on_host("host", graph, model, sampler, GPU, batch_loss)
    assert not stays_on_host("device", graph, model, sampler, GPU, batch_loss)
    monkeypatch.undo()
    assert not stays_on_host("auto", graph, model, sampler, CPU, batch_loss)  # there is one memory


@pytest.mark.parametrize(
    ("sampler", "share"),
    [
        (hf.FullGraph(), 1.0),
        (hf.RandomNodes(8), 1 / 8),
        (hf.RandomNodes(fraction=0.3), 0.3),
        (hf.Clusters(clusters=10, per_batch=2), 0.2),
        (hf.Neighbors((3, 3)), 1.0),
    ],
)
def test_the_share_of_the_nodes_that_a_batch_has(sampler: hf.Sampler, share: float) -> None:
    assert sampler.share(make_graph(200)) == pytest.approx(share)


def test_a_model_beside_the_graph_is_a_copy_where_it_must_be() -> None:
    model = nn.Linear(3, 2)
    assert copy_to(CPU, model) is model
    there = copy_to(torch.device("meta"), model)
    assert there is not model
    assert {p.device.type for p in there.parameters()} == {"meta"}
    assert {p.device.type for p in model.parameters()} == {"cpu"}
