"""The training loop: its two regimes, its evaluation, and what it does with odd batches and models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.random import derived_seed
from handful.training.fit import batch_loss
from handful.training.loss import node_loss
from handful.training.metrics import accuracy
from handful.training.module import seed_step


def small_sage(graph: hf.Graph, seed: int = 0, **options: object) -> hf.SAGE:
    torch.manual_seed(seed)
    return hf.SAGE(graph.num_features, graph.num_outputs, hidden=16, layers=2, **options)


def test_learns_and_reports_the_best_epoch(graph: hf.Graph) -> None:
    model = small_sage(graph)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=15, lr=1e-2)
    assert run.test > 0.8
    best = max(run.history, key=lambda line: line["val"])
    assert (run.val, run.test, run.best_epoch) == (best["val"], best["test"], best["epoch"])
    assert (run.epochs, run.steps, len(run.history)) == (15, 30, 15)
    assert run.peak_ram_bytes > 0
    assert 0 < run.train_seconds <= run.seconds
    assert graph.test_mask is not None
    assert graph.y is not None
    logits = hf.infer(model, graph)
    assert accuracy(logits[graph.test_mask], graph.y[graph.test_mask]) == run.test


@pytest.mark.parametrize("optimizer", ["sgd", "sgdm", "adam", "adamw"])
def test_the_epoch_regime_equals_hand_accumulated_gradients(graph: hf.Graph, optimizer: str) -> None:
    sampler = hf.RandomNodes(3)
    # BatchNorm makes the gradient of a bias before it pure rounding, which Adam would blow up to a full step.
    ours, theirs = small_sage(graph, norm="none"), small_sage(graph, norm="none")
    hf.fit(
        ours,
        graph,
        sampler,
        epochs=2,
        lr=0.01,
        update="epoch",
        optimizer=optimizer,
        weight_decay=0.01,
        seed=5,
        trim=False,
    )
    beta = {"momentum": 0.9} if optimizer == "sgdm" else {}
    kind = {"sgd": "SGD", "sgdm": "SGD", "adam": "Adam", "adamw": "AdamW"}[optimizer]
    step = getattr(torch.optim, kind)(theirs.parameters(), lr=0.01, weight_decay=0.01, **beta)
    states = []
    for epoch in range(2):
        losses = []
        for index, batch in enumerate(sampler.epoch(graph, 5, epoch)):
            seed_step(theirs, derived_seed(5, epoch, index))
            losses.append(node_loss(theirs(batch)[batch.targets], batch.y))
        step.zero_grad()
        torch.stack(losses).mean().backward()
        step.step()
        states.append({k: v.clone() for k, v in theirs.state_dict().items()})
    trained = ours.state_dict()  # the best epoch's weights, whichever it was
    assert any(
        all(torch.allclose(trained[k], state[k], rtol=1e-4, atol=1e-6) for k in trained if "num_batches" not in k)
        for state in states
    )


def test_one_step_a_batch_and_one_step_an_epoch_differ(graph: hf.Graph) -> None:
    steps = [hf.fit(small_sage(graph), graph, hf.RandomNodes(4), epochs=3, update=u).steps for u in ("step", "epoch")]
    assert steps == [12, 3]


def test_the_same_seed_gives_the_same_run(graph: hf.Graph) -> None:
    runs = [hf.fit(small_sage(graph), graph, hf.RandomNodes(3), epochs=4, seed=s) for s in (1, 1, 2)]
    losses = [[line["loss"] for line in run.history] for run in runs]
    assert losses[0] == losses[1] != losses[2]


def test_parts_without_training_nodes_make_no_step_and_are_counted() -> None:
    graph = make_graph(60)
    only = torch.zeros(60, dtype=torch.bool)
    only[int(graph.train_nodes[0])] = True
    graph = graph.replace(train_mask=only)
    run = hf.fit(small_sage(graph, norm="ln"), graph, hf.RandomNodes(4), epochs=5)
    assert (run.steps, run.skipped) == (5, 15)


def test_patience_stops_early(graph: hf.Graph) -> None:
    run = hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=200, lr=1e-2, patience=3)
    assert run.epochs < 200
    assert run.epochs == run.best_epoch + 3


def test_without_validation_nodes_the_last_epoch_stands(graph: hf.Graph) -> None:
    run = hf.fit(
        small_sage(graph),
        graph.replace(val_mask=torch.zeros(graph.num_nodes, dtype=torch.bool)),
        hf.FullGraph(),
        epochs=3,
    )
    assert math.isnan(run.val)
    assert (run.best_epoch, run.test) == (3, run.history[-1]["test"])


def test_evaluation_every_k_epochs_and_at_the_end(graph: hf.Graph) -> None:
    run = hf.fit(small_sage(graph), graph, hf.FullGraph(), epochs=7, evaluate_every=3)
    assert [line["epoch"] for line in run.history] == [3, 6, 7]


@pytest.mark.parametrize("metric", ["accuracy", "average_precision", "roc_auc"])
def test_two_classes_use_one_logit_and_binary_metrics(metric: str) -> None:
    graph = make_graph(200, classes=2).replace(metric=metric)
    assert graph.num_outputs == 1
    run = hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=10, lr=1e-2)
    assert run.metric == metric
    assert run.test > 0.7


def test_any_pyg_module_trains(graph: hf.Graph) -> None:
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 16, 2, graph.num_classes, dropout=0.3)
    first = hf.fit(model, graph, hf.RandomNodes(2), epochs=15, lr=1e-2)
    assert first.test > 0.8
    torch.manual_seed(0)
    again = GraphSAGE(graph.num_features, 16, 2, graph.num_classes, dropout=0.3)
    assert hf.fit(again, graph, hf.RandomNodes(2), epochs=15, lr=1e-2).test == first.test


@pytest.mark.parametrize("cls", [hf.SAGE, hf.GCN, hf.GAT])
def test_trimming_changes_no_loss(cls: type) -> None:
    graph = make_graph(400, degree=2)
    few = torch.zeros(400, dtype=torch.bool)
    few[graph.train_nodes[:20]] = True
    graph = graph.replace(train_mask=few)
    histories = []
    for trim in (True, False):
        torch.manual_seed(0)
        model = cls(graph.num_features, graph.num_outputs, hidden=16, layers=2, norm="ln", dropout=0.0)
        run = hf.fit(model, graph, hf.RandomNodes(2), epochs=4, lr=1e-2, trim=trim)
        histories.append([line["loss"] for line in run.history])
    assert histories[0] == pytest.approx(histories[1], rel=1e-4)


def test_bf16_is_close_to_fp32_and_keeps_float32_weights(graph: hf.Graph) -> None:
    batch = next(iter(hf.RandomNodes(2).epoch(graph, 0, 0)))
    model = small_sage(graph, dropout=0.0)
    wide, narrow = batch_loss(model, batch), batch_loss(model, batch, "bf16")
    assert wide != narrow
    torch.testing.assert_close(wide, narrow, rtol=0.03, atol=0.03)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=10, lr=1e-2, precision="bf16")
    assert run.test > 0.8
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_callbacks_see_every_hook_in_order(graph: hf.Graph) -> None:
    seen: list[str] = []

    class Watch(hf.Callback):
        def on_start(self, loop: object) -> None:
            seen.append("start")

        def on_gradient(self, loop: object, batch: Batch, loss: float) -> None:
            assert all(p.grad is not None for p in loop.model.parameters())
            assert math.isfinite(loss)
            seen.append("gradient")

        def on_step(self, loop: object) -> None:
            seen.append("step")

        def on_epoch(self, loop: object) -> None:
            seen.append("epoch")

        def on_evaluation(self, loop: object, line: dict) -> None:
            seen.append("evaluation")

        def on_end(self, loop: object) -> None:
            seen.append("end")

    hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=1, callbacks=[Watch()])
    assert seen == ["start", "gradient", "step", "gradient", "step", "epoch", "evaluation", "end"]


def test_a_loss_that_is_not_finite_stops_with_a_reason(graph: hf.Graph) -> None:
    with pytest.raises(hf.HandfulError, match="smaller --lr"):
        hf.fit(small_sage(graph, norm="none"), graph, hf.FullGraph(), epochs=50, lr=1e30, optimizer="sgd")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"update": "batch"}, "update must be step or epoch"),
        ({"precision": "fp16"}, "precision must be fp32 or bf16"),
        ({"optimizer": "adm"}, "did you mean adam"),
        ({"evaluation": "sampled"}, "cannot evaluate by sampling"),
    ],
)
def test_wrong_settings_are_named(graph: hf.Graph, settings: dict, words: str) -> None:
    with pytest.raises(hf.HandfulError, match=words):
        hf.fit(small_sage(graph), graph, hf.RandomNodes(2), **settings)


def test_a_graph_without_labels_is_refused(graph: hf.Graph) -> None:
    bare = hf.Graph(graph.indptr, graph.indices)
    with pytest.raises(hf.GraphError, match="cannot be trained on: it has no x, y, train_mask"):
        hf.fit(nn.Linear(1, 1), bare, hf.FullGraph())


def test_a_sampler_of_ones_own_needs_only_an_epoch(graph: hf.Graph) -> None:
    @dataclass(frozen=True)
    class Twice(hf.Sampler):
        def epoch(self, graph: hf.Graph, seed: int, epoch: int) -> Iterator[Batch]:
            for _ in range(2):
                yield from hf.FullGraph().epoch(graph, seed, epoch)

    assert hf.fit(small_sage(graph), graph, Twice(), epochs=2).steps == 4
