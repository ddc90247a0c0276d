"""The training loop: its two regimes against plain torch, its evaluation, its best epoch, and how it goes on."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ReduceLROnPlateau,
    StepLR,
)

import handful as hf
from graphs import make_graph
from handful.batch import Batch
from handful.random import derive_seed
from handful.training.execution import infer_sampled
from handful.training.fit import begin
from handful.training.loop import Loop, batch_loss, evaluate, train_epoch
from handful.training.loss import node_loss
from handful.training.metrics import METRICS, Metric
from handful.training.module import seed_step
from small import Last, assert_close_weights, small_sage, train_by_hand

# -- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "sgdm", "adam", "adamw"])
def test_the_epoch_regime_equals_hand_accumulated_gradients(graph: hf.Graph, optimizer: str) -> None:
    sampler, last = hf.RandomNodes(3), Last()
    # BatchNorm makes the gradient of a bias before it pure rounding, which Adam would blow up to a full step.
    ours, theirs = small_sage(graph, norm="none"), small_sage(graph, norm="none")
    hf.fit(
        ours, graph, sampler, epochs=2, lr=0.01, update="epoch", optimizer=optimizer, weight_decay=0.01, seed=5,
        trim=False, callbacks=[last],
    )  # fmt: skip
    beta = {"momentum": 0.9} if optimizer == "sgdm" else {}
    kind = {"sgd": "SGD", "sgdm": "SGD", "adam": "Adam", "adamw": "AdamW"}[optimizer]
    step = getattr(torch.optim, kind)(theirs.parameters(), lr=0.01, weight_decay=0.01, **beta)
    for epoch in range(2):
        losses = []
        for index, batch in enumerate(sampler.epoch(graph, 5, epoch)):
            seed_step(theirs, derive_seed(5, epoch, index))
            losses.append(node_loss(theirs(batch)[batch.targets], batch.y))
        step.zero_grad()
        torch.stack(losses).mean().backward()
        step.step()
    assert_close_weights(last.weights, theirs.state_dict())


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_step_regime_equals_plain_torch_with_its_clipping(graph: hf.Graph, clip: float | None) -> None:
    how: dict[str, Any] = {"epochs": 3, "clip": clip}
    last, norms = Last(), []

    class Norms(hf.Callback):
        def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
            norms.append(float(clip_grad_norm_(loop.model.parameters(), math.inf)))

    fit_how = {**how, "lr": 0.1, "optimizer": "sgd", "trim": False, "callbacks": [Norms(), last]}
    hf.fit(small_sage(graph, norm="none"), graph, hf.RandomNodes(3), **fit_how)
    model = small_sage(graph, norm="none")
    by_hand = train_by_hand(model, graph, hf.RandomNodes(3), SGD(model.parameters(), lr=0.1), **how)
    assert_close_weights(last.weights, by_hand)
    assert min(norms) > 0.05  # or the limit would change nothing


def test_one_step_per_batch_and_one_step_per_epoch_differ(graph: hf.Graph) -> None:
    steps = [hf.fit(small_sage(graph), graph, hf.RandomNodes(4), epochs=3, update=u).steps for u in ("step", "epoch")]
    assert steps == [12, 3]


def test_parts_without_training_nodes_make_no_step_and_are_counted() -> None:
    graph = make_graph(60)
    only = torch.zeros(60, dtype=torch.bool)
    only[int(graph.train_nodes[0])] = True
    graph = graph.replace(train_mask=only)
    run = hf.fit(small_sage(graph, norm="ln"), graph, hf.RandomNodes(4), epochs=5)
    assert (run.steps, run.skipped) == (5, 15)


def test_an_epoch_is_counted_and_its_loss_is_the_mean_of_its_batches(graph: hf.Graph) -> None:
    losses: list[float] = []

    class Watch(hf.Callback):
        def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
            losses.append(loss)

    loop = begin(small_sage(graph), graph, hf.RandomNodes(3), hf.Settings(), callbacks=[Watch()])
    train_epoch(loop)
    assert (loop.epoch, loop.steps) == (1, 3)
    assert loop.loss == pytest.approx(sum(losses) / 3)


def test_bf16_is_close_to_fp32_and_keeps_float32_weights(graph: hf.Graph) -> None:
    batch = next(iter(hf.RandomNodes(2).epoch(graph, 0, 0)))
    model = small_sage(graph, dropout=0.0)
    wide, narrow = batch_loss(model, batch), batch_loss(model, batch, "bf16")
    assert wide != narrow
    torch.testing.assert_close(wide, narrow, rtol=0.03, atol=0.03)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=10, lr=1e-2, precision="bf16")
    assert run.test > 0.8
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(("epochs", "every"), [(1, 1), (50, 1), (50, 50)])
def test_a_run_that_diverges_before_its_first_evaluation_stops_with_a_reason(
    graph: hf.Graph, epochs: int, every: int
) -> None:
    words = r"(the loss is \S+|a weight is not finite|a logit is not finite) in epoch \d+: use a smaller lr"
    how = {"epochs": epochs, "evaluate_every": every, "lr": 1e30, "optimizer": "sgd"}
    with pytest.raises(hf.DivergedError, match=words):
        hf.fit(small_sage(graph, norm="none"), graph, hf.FullGraph(), **how)


class Explode(hf.Callback):
    """From an epoch on, the steps are far too long."""

    def __init__(self, epoch: int) -> None:
        self.at = epoch

    def on_epoch(self, loop: Loop) -> None:
        if loop.epoch == self.at:
            loop.optimizer.param_groups[0]["lr"] = 1e38


def test_a_run_that_diverges_later_keeps_its_best_epoch_and_says_so(
    graph: hf.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, sgd = small_sage(graph, norm="none"), {"epochs": 9, "optimizer": "sgd", "lr": 0.01}
    run = hf.fit(model, graph, hf.FullGraph(), callbacks=[Explode(3)], out=tmp_path / "run", **sgd)
    assert run.diverged in (4, 5)
    assert run.best_epoch <= 3 < 9
    assert len(run.history) < 5
    said = capsys.readouterr().err
    assert f"in epoch {run.diverged}: use a smaller lr" in said
    assert f"epoch {run.best_epoch}\n" in said
    assert all(bool(p.isfinite().all()) for p in model.parameters())
    assert hf.open_run(tmp_path / "run").result.diverged == run.diverged
    again = hf.fit(small_sage(graph, norm="none"), graph, hf.FullGraph(), out=tmp_path / "run", resume=True, **sgd)
    assert (again.val, again.diverged) == (run.val, run.diverged)


# -- learning rates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "rate"),
    [
        ("constant", lambda e: 0.1),
        ("cosine", lambda e: 0.1 * (1 + math.cos(math.pi * e / 6)) / 2),
        ("linear", lambda e: 0.1 * (1 - e / 6)),
        (partial(StepLR, step_size=2, gamma=0.5), lambda e: 0.1 * 0.5 ** (e // 2)),
    ],
)
def test_the_rate_after_every_epoch(graph: hf.Graph, scheduler: Any, rate: Any) -> None:
    last = Last()
    hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=6, lr=0.1, scheduler=scheduler, callbacks=[last])
    assert last.rates == pytest.approx([rate(e) for e in range(1, 7)], abs=1e-12)


def test_a_scheduled_run_equals_plain_torch(graph: hf.Graph) -> None:
    last = Last()
    how: dict[str, Any] = {"norm": "none", "dropout": 0.0}
    hf.fit(
        small_sage(graph, **how), graph, hf.RandomNodes(2), epochs=4, lr=0.1, optimizer="sgd", scheduler="cosine",
        callbacks=[last],
    )  # fmt: skip
    model = small_sage(graph, **how)
    step = SGD(model.parameters(), lr=0.1)
    by_hand = train_by_hand(model, graph, hf.RandomNodes(2), step, epochs=4, scheduler=CosineAnnealingLR(step, 4))
    assert_close_weights(last.weights, by_hand)


def test_a_plateau_goes_by_the_validation_metric(graph: hf.Graph) -> None:
    make = partial(ReduceLROnPlateau, mode="max", factor=0.5, patience=0)
    last = Last()
    run = hf.fit(
        small_sage(graph), graph, hf.RandomNodes(2), epochs=12, lr=0.02, evaluate_every=2, scheduler=make,
        callbacks=[last],
    )  # fmt: skip
    step = SGD(small_sage(graph).parameters(), lr=0.02)
    alone, rates = make(step), []
    for line in run.history:
        alone.step(line["val"])
        rates.append(step.param_groups[0]["lr"])
    assert last.rates == rates
    assert rates[-1] < 0.02


# -- evaluation -------------------------------------------------------------------------------------------------------


def test_patience_stops_early(graph: hf.Graph) -> None:
    run = hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=200, lr=1e-2, patience=3)
    assert run.epochs < 200
    assert run.epochs == run.best_epoch + 3


def test_without_validation_nodes_the_last_epoch_stands(graph: hf.Graph) -> None:
    nobody = graph.replace(val_mask=torch.zeros(graph.num_nodes, dtype=torch.bool))
    run = hf.fit(small_sage(graph), nobody, hf.FullGraph(), epochs=3)
    assert math.isnan(run.val)
    assert (run.best_epoch, run.test) == (3, run.history[-1]["test"])
    assert run.history[-1]["val"] is None


def test_evaluation_every_k_epochs_and_at_the_end(graph: hf.Graph) -> None:
    run = hf.fit(small_sage(graph), graph, hf.FullGraph(), epochs=7, evaluate_every=3)
    assert [line["epoch"] for line in run.history] == [3, 6, 7]


def test_where_less_is_better_the_lowest_is_the_best() -> None:
    error = Metric(lambda logits, y: 1 - METRICS["accuracy"](logits, y), higher_is_better=False, name="error")
    graph = make_graph(200, classes=2)
    runs = {
        name: hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=12, lr=5e-3, metric=metric)
        for name, metric in {"accuracy": "accuracy", "error": error}.items()
    }
    lowest = min(runs["error"].history, key=lambda line: line["val"])
    assert (runs["error"].val, runs["error"].best_epoch) == (lowest["val"], lowest["epoch"])
    assert runs["error"].best_epoch == runs["accuracy"].best_epoch > 1
    assert runs["error"].test == pytest.approx(1 - runs["accuracy"].test)


def test_sampled_evaluation_with_all_neighbours_is_exact(graph: hf.Graph) -> None:
    sampler = hf.Neighbors((-1, -1), batch_size=30)
    runs = [hf.fit(small_sage(graph), graph, sampler, epochs=4, evaluation=how) for how in ("exact", "sampled")]
    for name in ("loss", "val", "test"):
        exact, sampled = ([line[name] for line in run.history] for run in runs)
        assert exact == pytest.approx(sampled)
    model = small_sage(graph)
    hf.fit(model, graph, sampler, epochs=2)
    assert graph.val_mask is not None
    nodes = graph.val_mask.nonzero().squeeze(1)
    sampled = infer_sampled(model, graph, sampler.evaluation(graph, nodes, 0))
    torch.testing.assert_close(sampled, hf.infer(model, graph)[nodes], rtol=1e-4, atol=1e-5)
    assert model.training


@pytest.mark.parametrize(
    "sampler", [hf.RandomNodes(2), hf.FullGraph(), hf.Neighbors((1,), 30), hf.RandomWalks(20, 2)], ids=str
)
def test_any_sampler_can_be_evaluated_by_sampling(graph: hf.Graph, sampler: hf.Sampler) -> None:
    """With all edges of two hops it is exact, and with one edge a hop it is not; the fanout is a setting."""
    how = {"exact": {}, "all": {"evaluation_fanout": (-1, -1)}, "one": {"evaluation_fanout": "1,1"}}
    found = {}
    for name, fanout in how.items():
        settings = hf.Settings(evaluation="exact" if name == "exact" else "sampled", **fanout)  # type: ignore[arg-type]
        loop = begin(small_sage(graph, norm="ln"), graph, sampler, settings, 3)
        nodes, outputs = loop.execution.outputs(loop)
        assert graph.val_mask is not None
        assert graph.test_mask is not None
        assert torch.equal(nodes, (graph.val_mask | graph.test_mask).nonzero().squeeze(1))
        found[name] = outputs
    torch.testing.assert_close(found["all"], found["exact"], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found["one"], found["exact"], rtol=1e-3, atol=1e-3)


def test_few_neighbours_are_an_estimate_that_a_seed_repeats(graph: hf.Graph) -> None:
    def values(seed: int) -> tuple[float, float]:
        how = hf.Settings(evaluation="sampled")
        return evaluate(begin(small_sage(graph, norm="ln"), graph, hf.Neighbors((1, 1)), how, seed))

    assert values(1) == values(1)
    assert len({values(seed) for seed in range(5)}) > 1


# -- small batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output_projection", [True, False])
def test_a_last_batch_of_one_seed_is_skipped_and_counted(output_projection: bool) -> None:
    """129 training nodes in batches of 64: BatchNorm cannot normalise one row, and training goes on without it."""
    graph = make_graph(200)
    train = torch.zeros(200, dtype=torch.bool)
    train[:129] = True
    graph = graph.replace(train_mask=train, val_mask=~train, test_mask=torch.zeros(200, dtype=torch.bool))
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2, output_projection=output_projection)
    run = hf.fit(model, graph, hf.Ladies(30, 64), epochs=3)
    assert (run.steps, run.skipped) == ((6, 3) if output_projection else (9, 0))
    trimmed = hf.fit(model, graph, hf.Neighbors((3, 3), 64, trimmed=True), epochs=3)
    assert (trimmed.steps, trimmed.skipped) == ((6, 3) if output_projection else (9, 0))
    whole = hf.fit(model, graph, hf.Neighbors((3, 3), 64), epochs=3)  # a seed and its neighbours are enough
    assert (whole.steps, whole.skipped) == (9, 0)


def test_batches_that_are_all_too_small_are_refused_with_what_to_do() -> None:
    graph = make_graph(60)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2, output_projection=True)
    with pytest.raises(hf.HandfulError, match="at least two nodes in a batch: use larger batches, or norm 'ln'"):
        hf.fit(model, graph, hf.Ladies(5, 1), epochs=1)
    model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2, output_projection=True, norm="ln")
    assert hf.fit(model, graph, hf.Ladies(5, 1), epochs=1).skipped == 0
