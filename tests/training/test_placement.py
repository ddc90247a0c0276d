"""Where the graph is changes nothing but where it is."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.errors import HandfulError
from handful.training import placement
from handful.training.callbacks import Callback
from handful.training.loop import Loop
from handful.training.placement import beside, needed_bytes, stays_on_host
from scripts import script

CPU, GPU = torch.device("cpu"), torch.device("cuda")


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
    sampler = hf.RandomNodes(3, hubs=0.05) if evaluation == "exact" else hf.Neighbors((3, 3), batch_size=40)
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
    assert not [t for t in threading.enumerate() if t.name == "handful-ahead"]


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
    monkeypatch.setattr(placement, "free_gpu", lambda device: needed_bytes(graph, model, sampler) + spare)
    assert stays_on_host("auto", graph, model, sampler, GPU) == host
    assert ("the graph stays on the host" in capsys.readouterr().err) == host
    assert stays_on_host("host", graph, model, sampler, GPU)
    assert not stays_on_host("device", graph, model, sampler, GPU)
    monkeypatch.undo()
    assert not stays_on_host("auto", graph, model, sampler, CPU)  # there is one memory


@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_the_estimate_covers_what_the_audit_of_a_step_finds(name: str) -> None:
    pytest.importorskip("triton")
    audit = script("audit")
    shape = audit.PRODUCTS.of_parts(10)
    x, y = torch.zeros(shape.nodes, shape.features), torch.zeros(shape.nodes, dtype=torch.int64)
    graph = hf.Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), x=x, y=y, num_classes=shape.classes)
    model = hf.make_model(name, shape.features, shape.classes, hidden=256, layers=5)
    peak = audit.audit_step(model, shape).peak
    beyond = hf.make_model(name, shape.features, shape.classes, hidden=256, layers=5)
    estimate = needed_bytes(graph, beyond, hf.FullGraph())
    assert peak < estimate < 1.8 * peak


@pytest.mark.parametrize(
    ("sampler", "share"),
    [
        (hf.FullGraph(), 1.0),
        (hf.RandomNodes(8), 1 / 8),
        (hf.RandomNodes(8, hubs=0.05), 1 / 8 + 0.05),
        (hf.RandomNodes(fraction=0.3), 0.3),
        (hf.Clusters(clusters=10, per_batch=2), 0.2),
        (hf.Neighbors((3, 3)), 1.0),
    ],
)
def test_the_share_of_the_nodes_that_a_batch_has(sampler: hf.Sampler, share: float) -> None:
    assert sampler.share(make_graph(200)) == pytest.approx(share)


def test_a_model_beside_the_graph_is_a_copy_where_it_must_be() -> None:
    model = nn.Linear(3, 2)
    assert beside(model, CPU) is model
    there = beside(model, torch.device("meta"))
    assert there is not model
    assert {p.device.type for p in there.parameters()} == {"meta"}
    assert {p.device.type for p in model.parameters()} == {"cpu"}
