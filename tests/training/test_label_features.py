"""Labels of neighbours as features: no label of a step is its input, and the counts are those of a dense reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import handful as hf
from graphs import make_graph, make_numbers
from handful.errors import HandfulError, RunError
from handful.graph import MASKS
from handful.samplers.base import Sampler
from handful.studies.diagnose import diagnose_samplers
from handful.studies.explain import moved_by
from handful.training.callbacks import Callback
from handful.training.fit import SEED, begin
from handful.training.inference import infer, outputs_of
from handful.training.label_features import LabelHead, neighbour_counts
from handful.training.loop import Loop
from handful.training.record import load_model, write_config

SMALL: dict[str, Any] = {"hidden": 8, "layers": 2}
HOW: dict[str, Any] = {"epochs": 4, "lr": 0.05, "label_features": True}
HOWS: list[dict[str, Any]] = [{}, {"mean_field": 3.0}, {"first_hop": "exact"}, {"trim": False}]
SAMPLERS = [hf.RandomNodes(3), hf.RandomWalks(roots=10, length=2)]


def graph_with_loops(*, weighted: bool = False, undirected: bool = True) -> hf.Graph:
    """A graph with self-loops and repeated edges."""
    plain = make_graph(60, 4, weighted=weighted, undirected=undirected)
    more = torch.tensor([[0, 1, 2, 2, 3, 3], [0, 1, 2, 2, 4, 4]])
    weight = None if plain.edge_weight is None else torch.cat([plain.edge_weight, torch.full((6,), 0.3)])
    fields = {name: getattr(plain, name) for name in ("x", "y", "num_classes", *MASKS)}
    return hf.Graph.from_edge_index(torch.cat([plain.edge_index, more], 1), 60, edge_weight=weight, **fields)


def dense_counts(graph: hf.Graph, known: Tensor) -> Tensor:
    """(N, K): the number of edges from ``known`` nodes of each class, loops left out, edge by edge."""
    assert graph.y is not None
    out = torch.zeros(graph.num_nodes, graph.num_classes or 0)
    for source, target in graph.edge_index.T.tolist():
        if source != target and bool(known[source]):
            out[target, graph.y[source]] += 1
    return out


def step_inputs(graph: hf.Graph, sampler: Sampler, **how: Any) -> list[hf.Batch]:
    """The batches of the first epoch of a run with label features."""
    torch.manual_seed(0)
    settings = hf.Settings(label_features=True, **how)
    loop = begin(hf.SAGE(8, 4, **SMALL), graph, sampler, settings)
    return [batch for batch in loop.execution.batches(loop) if batch is not None]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("undirected", [False, True])
def test_counts_are_those_of_a_dense_reference(weighted: bool, undirected: bool) -> None:
    graph = graph_with_loops(weighted=weighted, undirected=undirected)
    assert graph.train_mask is not None
    assert torch.equal(neighbour_counts(graph, 4), dense_counts(graph, graph.train_mask))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_batch_counts_the_labels_outside_of_its_part(sampler: Sampler, weighted: bool, how: dict[str, Any]) -> None:
    graph = graph_with_loops(weighted=weighted)
    assert graph.train_mask is not None
    samples = sampler.sample(graph, SEED, 0)
    for sample, batch in zip(samples, step_inputs(graph, sampler, **how), strict=True):
        outside = graph.train_mask.clone()
        outside[sample.nodes] = False
        assert batch.label_counts is not None
        assert torch.equal(batch.label_counts, dense_counts(graph, outside)[batch.nodes[batch.targets]])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_labels_inside_of_a_batch_do_not_change_its_inputs(sampler: Sampler, how: dict[str, Any]) -> None:
    graph = graph_with_loops()
    assert graph.y is not None
    before = step_inputs(graph, sampler, **how)
    samples = [*sampler.sample(graph, SEED, 0)]
    assert any(bool(batch.label_counts.any()) for batch in before if batch.label_counts is not None)
    for i, sample in enumerate(samples):
        y = graph.y.clone()
        y[sample.nodes] = (y[sample.nodes] + 1) % 4
        after = step_inputs(graph.replace(y=y), sampler, **how)[i]
        assert after.label_counts is not None
        assert torch.equal(after.label_counts, before[i].label_counts)
        assert torch.equal(after.x, before[i].x)
        assert not torch.equal(after.y, before[i].y)


def test_labels_of_validation_and_test_nodes_change_nothing() -> None:
    graph = make_graph(120)
    assert graph.y is not None
    assert graph.train_mask is not None
    other = graph.replace(y=torch.where(graph.train_mask, graph.y, (graph.y + 1) % 4))
    runs = [hf.fit("sage", one, hf.RandomNodes(3), options=SMALL, **HOW) for one in (graph, other)]
    assert [line["loss"] for line in runs[0].history] == [line["loss"] for line in runs[1].history]
    assert torch.equal(neighbour_counts(graph, 4), neighbour_counts(other, 4))


def test_outputs_are_those_of_the_network_and_of_the_head() -> None:
    graph = make_graph(120)
    model = hf.fit("sage", graph, hf.RandomNodes(3), options=SMALL, **HOW).model
    head = model.label_head  # type: ignore[union-attr]
    assert isinstance(head, LabelHead)
    assert bool(head.weight.any())
    counts = neighbour_counts(graph, 4)
    p = (torch.bincount(graph.y[graph.train_mask], minlength=4) + 1).float()  # type: ignore[index]
    p /= p.sum()
    evidence = torch.log((counts + p) / (counts.sum(1, keepdim=True) + 1)) - torch.log(p)
    wanted = outputs_of(model, graph) + evidence @ head.weight.T
    torch.testing.assert_close(infer(model, graph), wanted.detach())
    unlabelled = graph.replace(train_mask=None, val_mask=None, test_mask=None)
    assert torch.equal(infer(model, unlabelled), outputs_of(model, unlabelled))


def test_the_head_learns_what_the_features_do_not_tell() -> None:
    graph = make_graph(400, 12)
    assert graph.x is not None
    blind = graph.replace(x=torch.zeros_like(graph.x))
    tests = [
        hf.fit("sage", blind, hf.RandomNodes(4), options=SMALL, epochs=10, lr=0.05, label_features=on).test
        for on in (False, True)
    ]
    assert tests[1] > tests[0] + 0.2  # chance is a quarter, and 70% of the edges are within a class


def test_two_classes_and_sampled_evaluation() -> None:
    graph = make_graph(150, classes=2)
    run = hf.fit(
        "sage", graph, hf.RandomNodes(3), options=SMALL, evaluation="sampled", evaluation_fanout=(-1, -1), **HOW
    )
    head = run.model.label_head  # type: ignore[union-attr]
    assert isinstance(head, LabelHead)
    assert head.weight.shape == (1, 2)
    exact = hf.fit("sage", graph, hf.RandomNodes(3), options=SMALL, **HOW)
    assert [line["val"] for line in run.history] == pytest.approx([line["val"] for line in exact.history])


def test_a_step_drops_the_counts_of_half_of_its_targets() -> None:
    torch.manual_seed(0)
    head = LabelHead(4, torch.full((4,), 0.25)).requires_grad_(False)
    head.weight.copy_(torch.eye(4))
    counts = torch.ones(10_000, 4) + torch.eye(4).repeat(2_500, 1)
    torch.manual_seed(1)
    once = head(counts)
    torch.manual_seed(1)
    assert torch.equal(head(counts), once)  # the seed of the step decides
    dropped = (once == 0).all(1)
    assert abs(int(dropped.sum()) - 5_000) < 5 * 50  # five standard deviations of a fair coin
    assert torch.equal(once[~dropped], head.eval()(counts)[~dropped])


def test_the_network_predicts_without_labels_too() -> None:
    graph = make_graph(400, 12)
    how = {"options": SMALL, "epochs": 15, "lr": 0.05}
    both, plain = (hf.fit("sage", graph, hf.RandomNodes(4), **how, label_features=on).model for on in (True, False))
    unlabelled = graph.replace(**dict.fromkeys(MASKS))
    y, test = graph.y, graph.test_mask
    assert y is not None
    right = [float((infer(model, unlabelled).argmax(1) == y)[test].float().mean()) for model in (both, plain)]
    assert right[0] > right[1] - 0.1  # 100 test nodes: a standard deviation is 0.05


@pytest.mark.parametrize("given", [True, "yes"])
def test_a_truth_value_is_a_name(given: Any) -> None:
    assert hf.Settings(label_features=given) == hf.Settings(label_features="yes") != hf.Settings()
    with pytest.raises(HandfulError, match="label_features"):
        hf.Settings(label_features="maybe")  # type: ignore[arg-type]


def test_auto_is_settled_by_the_graph_and_the_sampler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how: dict[str, Any] = {"options": SMALL, "epochs": 1, "label_features": "auto"}
    classes, numbers = make_graph(60), make_numbers(60)
    assert hf.fit("sage", classes, hf.RandomNodes(2), **how).model.label_head is not None  # type: ignore[union-attr]
    assert capsys.readouterr().err == ""
    for graph, sampler in ((numbers, hf.RandomNodes(2)), (classes, hf.FullGraph())):
        assert hf.fit("sage", graph, sampler, **how).model.label_head is None  # type: ignore[union-attr]
        assert capsys.readouterr().err.count("label_features") == 1
    for graph, found in ((classes, "yes"), (numbers, "no")):
        saved = hf.save(graph, tmp_path / found)
        made = hf.Experiment(
            str(saved), **SMALL, epochs=1, label_features="auto", seeds=(1,), sampler=hf.RandomNodes(2)
        )
        write_config(tmp_path / f"run-{found}" / "config.json", made.settled().to_json())  # as for a job
        made.run(tmp_path / f"run-{found}", resume=True)
        assert hf.open_run(tmp_path / f"run-{found}").experiment.settings.label_features == found
    with pytest.raises(HandfulError, match="memory"):  # a budget must not change the result
        hf.fit("sage", hf.load(tmp_path / "yes"), hf.RandomNodes(2), memory="64GiB", **how)


class Stop(Callback):
    """Ends a run as a kill would."""

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        if loop.epoch == 2:
            raise KeyboardInterrupt


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    graph, how = make_graph(120), {**HOW, "options": SMALL, "mean_field": 1.0, "checkpoint_seconds": 0.0}
    whole = hf.fit("sage", graph, hf.RandomNodes(3), out=tmp_path / "whole", **how)
    with pytest.raises(KeyboardInterrupt):
        hf.fit("sage", graph, hf.RandomNodes(3), out=tmp_path / "parts", callbacks=[Stop()], **how)
    resumed = hf.fit("sage", graph, hf.RandomNodes(3), out=tmp_path / "parts", resume=True, **how)
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name])
    again = load_model(tmp_path / "parts")
    assert torch.equal(infer(again, graph), infer(resumed.model, graph))


def test_predictions_of_a_run_use_the_labels(tmp_path: Path) -> None:
    saved = hf.save(make_graph(150).replace(class_names=("a", "b", "c", "d")), tmp_path / "graph")
    hf.Experiment(str(saved), **SMALL, **HOW, seeds=(1,)).with_method("rns", parts=3).run(tmp_path / "run")
    opened, graph = hf.open_run(tmp_path / "run"), hf.load(saved)
    wanted = infer(opened.model, graph).softmax(1)
    torch.testing.assert_close(torch.from_numpy(opened.predict_proba()), wanted)
    unlabelled = graph.replace(y=None, train_mask=None, val_mask=None, test_mask=None)
    wanted = outputs_of(opened.model, unlabelled).softmax(1)
    torch.testing.assert_close(torch.from_numpy(opened.predict_proba(unlabelled)), wanted)
    assert graph.y is not None
    some = torch.where(torch.arange(150) % 3 > 0, graph.y, -1)  # without a split, all known labels are features
    known = graph.replace(y=some, train_mask=some >= 0, val_mask=None, test_mask=None)
    no_split: dict[str, Any] = dict.fromkeys(MASKS)
    loose = opened.prediction(known.replace(**no_split))
    torch.testing.assert_close(torch.from_numpy(loose.values), infer(opened.model, known).softmax(1))
    assert set(loose.splits) == {""}
    nothing = known.replace(y=torch.full((150,), -1), **no_split)
    torch.testing.assert_close(torch.from_numpy(opened.predict_proba(nothing)), wanted)
    assert "labels of training neighbours" in (tmp_path / "run" / "README.md").read_text()
    with pytest.raises(RunError, match="classes"):
        opened.predict_proba(known.replace(class_names=("b", "a", "c", "d"), **no_split))
    with pytest.raises(HandfulError, match="memory"):
        opened.prediction(graph, memory="8GiB")


def test_the_effect_of_a_neighbour_has_that_of_its_label(tmp_path: Path) -> None:
    graph = make_graph(60)
    saved = hf.save(graph, tmp_path / "graph")
    hf.Experiment(str(saved), **SMALL, **HOW, seeds=(1,)).with_method("rns", parts=3).run(tmp_path / "run")
    opened, node = hf.open_run(tmp_path / "run"), int((graph.in_degree > 0).nonzero()[0])
    _, before, effects = moved_by(opened, graph, node, {})
    edges = graph.edge_index
    for other in edges[0, edges[1] == node].unique().tolist():
        kept = ~((edges == node).any(0) & (edges == other).any(0))
        fields = {name: getattr(graph, name) for name in ("x", "y", "num_classes", *MASKS)}
        p = infer(opened.model, hf.Graph.from_edge_index(edges[:, kept], 60, **fields)).softmax(1)[node]
        of = int(infer(opened.model, graph)[node].argmax())
        effect = next(effect for name, effect in effects.items() if name.startswith(f"neighbour {other} "))
        assert before - effect == pytest.approx(100 * float(p[of]), abs=1e-3)


@pytest.mark.parametrize(
    ("graph", "sampler"),
    [
        (make_graph(60), hf.FullGraph()),
        (make_graph(60), hf.RandomNodes(1)),
        (make_graph(60), hf.Neighbors((2, 2))),
        (make_graph(60), hf.Ladies(10)),
        (make_graph(60), hf.RandomWalks(roots=5, normalize=True)),
        (make_numbers(60), hf.RandomNodes(2)),
    ],
)
def test_what_cannot_be_is_refused(graph: hf.Graph, sampler: Sampler) -> None:
    with pytest.raises(HandfulError, match="label_features"):
        hf.fit("sage", graph, sampler, options=SMALL, epochs=1, label_features=True)


def test_other_refusals(tmp_path: Path) -> None:
    graph = make_graph(60)
    saved = hf.load(hf.save(graph, tmp_path / "graph"))
    with pytest.raises(HandfulError, match="memory"):
        hf.fit("sage", saved, hf.RandomNodes(2), options=SMALL, memory="64GiB", **HOW)

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.linear(x)
            return out

    with pytest.raises(HandfulError, match="Own"):
        hf.fit(Own(), graph, hf.RandomNodes(2), **HOW)
    assert hf.fit(Own(), graph, hf.RandomNodes(2), epochs=1, label_features="auto").epochs == 1
    model = hf.fit("sage", graph, hf.RandomNodes(2), options=SMALL, **HOW).model
    with pytest.raises(HandfulError, match="label_features"):
        hf.fit(model, graph, hf.RandomNodes(2), epochs=1)
    assert "label_head.weight" in hf.fit(model, graph, hf.RandomNodes(2), **HOW).model.state_dict()
    with pytest.raises(HandfulError, match="4 classes"):
        infer(model, make_graph(60, classes=5))
    with pytest.raises(HandfulError, match="label_features"):
        hf.NodeClassifier(epochs=1, settings={"label_features": True}).fit(graph)
    with pytest.raises(HandfulError, match="label_features"):
        diagnose_samplers([hf.Experiment(str(saved.folder), **SMALL, **HOW, seeds=(1,))], 1, 1)


def test_without_the_setting_batches_have_no_counts() -> None:
    graph = make_graph(60)
    loop = begin(hf.SAGE(8, 4, **SMALL), graph, hf.RandomNodes(2), hf.Settings())
    assert all(batch is not None and batch.label_counts is None for batch in loop.execution.batches(loop))
