"""A run that was broken off ends bit for bit like one that was not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

import handful as hf
from graphs import make_graph
from handful.training.checkpoint import plain_part, restore, snapshot, with_plain_part
from handful.training.fit import begin
from handful.training.loop import Loop, train_epoch
from handful.training.record import RunFolder
from small import BreakOff, assert_same_end, small_sage


def test_a_loop_goes_on_where_its_snapshot_was_taken(graph: hf.Graph) -> None:
    """Also the moments of the optimiser and the best weights, of a model that has trained on."""

    def fresh() -> Loop:
        return begin(small_sage(graph), graph, hf.RandomNodes(2), hf.Settings(lr=0.1))

    whole, other = fresh(), fresh()
    for loop in (whole, other):
        loop.best_weights = {name: torch.full_like(value, 3.0) for name, value in loop.model.state_dict().items()}
    train_epoch(whole)
    tensors, state = snapshot(whole)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    train_epoch(other)
    train_epoch(other)
    restore(other, tensors, state)
    train_epoch(whole)
    train_epoch(other)
    found, expected = (snapshot(loop) for loop in (other, whole))
    assert found[0].keys() == expected[0].keys()
    assert all(torch.equal(found[0][name], tensor) for name, tensor in expected[0].items())
    assert {**found[1], "train_seconds": 0} == {**expected[1], "train_seconds": 0}


def warm_cosine(optimizer: Optimizer) -> LRScheduler:
    return SequentialLR(optimizer, [LinearLR(optimizer, 0.1, 1.0, 3), CosineAnnealingLR(optimizer, 5)], [3])


def in_steps_after_a_start(optimizer: Optimizer) -> LRScheduler:
    return SequentialLR(optimizer, [LinearLR(optimizer, 0.1, 1.0, 2), MultiStepLR(optimizer, [1, 3])], [2])


SCHEDULERS = {
    "cosine": "cosine",
    "linear": "linear",
    "steps": partial(StepLR, step_size=3),
    "milestones": partial(MultiStepLR, milestones=[2, 5]),
    "function": partial(LambdaLR, lr_lambda=lambda epoch: 0.9**epoch),
    "plateau": partial(ReduceLROnPlateau, mode="max", factor=0.5, patience=0),
    "cycle": partial(OneCycleLR, max_lr=0.1, total_steps=9),  # moves the momentum too
    "warm": warm_cosine,
    "warm steps": in_steps_after_a_start,
}


@pytest.mark.parametrize("optimizer", ["adam", partial(SGD, momentum=0.9)], ids=["adam", "own"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_broken_run_with_a_scheduler_ends_bit_for_bit(tmp_path: Path, scheduler: str, optimizer: Any) -> None:
    graph = make_graph(80)

    def train(name: str, epoch: int | None = None, resume: bool = False) -> None:
        callbacks = [] if epoch is None else [BreakOff(epoch)]
        hf.fit(
            small_sage(graph), graph, hf.RandomNodes(2), epochs=8, lr=0.01, checkpoint_seconds=0.0, optimizer=optimizer,
            scheduler=SCHEDULERS[scheduler], out=tmp_path / name, resume=resume, callbacks=callbacks,
        )  # fmt: skip

    train("whole")
    for epoch in (2, 6):
        with pytest.raises(KeyboardInterrupt):
            train("broken", epoch, resume=True)
    train("broken", resume=True)
    assert_same_end(RunFolder(tmp_path / "broken"), RunFolder(tmp_path / "whole"))


def test_a_run_that_was_stopped_stays_so_when_it_is_resumed(tmp_path: Path) -> None:
    """Patience ran out, the checkpoint was written, and the process ended before the result was."""

    class End(hf.Callback):
        def on_end(self, loop: Loop) -> None:
            raise KeyboardInterrupt

    graph = make_graph(80)
    how: dict[str, Any] = {"epochs": 50, "lr": 0.05, "patience": 2, "checkpoint_seconds": 0.0}
    whole = hf.fit(small_sage(graph), graph, hf.RandomNodes(2), out=tmp_path / "whole", **how)
    assert whole.epochs < 50
    how |= {"out": tmp_path / "broken", "resume": True}
    with pytest.raises(KeyboardInterrupt):
        hf.fit(small_sage(graph), graph, hf.RandomNodes(2), callbacks=[End()], **how)
    assert hf.fit(small_sage(graph), graph, hf.RandomNodes(2), **how).epochs == whole.epochs
    assert_same_end(RunFolder(tmp_path / "broken"), RunFolder(tmp_path / "whole"))


def test_what_json_cannot_keep_stays_as_it_was_made() -> None:
    made = {"last_epoch": 0, "betas": (0.9, 0.99), "function": len, "inner": [{"rate": 1.0, "by number": {5: 1}}]}
    later = {"last_epoch": 4, "betas": (0.5, 0.99), "function": max, "inner": [{"rate": 0.25, "by number": {6: 1}}]}
    kept = plain_part(later)
    assert kept == {"last_epoch": 4, "betas": [0.5, 0.99], "function": None, "inner": [{"rate": 0.25, "by number": {}}]}
    inner = [{"rate": 0.25, "by number": {5: 1}}]
    assert with_plain_part(made, kept) == {"last_epoch": 4, "betas": (0.5, 0.99), "function": len, "inner": inner}
