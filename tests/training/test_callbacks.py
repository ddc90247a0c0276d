"""What callbacks are told, in which order, and that any of them may end the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import handful as hf
from handful.batch import Batch
from handful.training.callbacks import Checksums
from handful.training.loop import Loop, batch_loss
from handful.training.module import seed_step
from handful.training.record import RunFolder
from small import small_sage, timeless

HOOKS = ("on_start", "on_gradient", "on_step", "on_epoch", "on_evaluation", "on_end")


class Watch(hf.Callback):
    """Note every call with the counters of the loop, and do something in one of them."""

    def __init__(self, name: str = "", seen: list[Any] | None = None) -> None:
        self.name, self.seen = name, [] if seen is None else seen

    def __getattribute__(self, hook: str) -> Any:
        if hook not in HOOKS:
            return super().__getattribute__(hook)
        return lambda loop, *args: self.seen.append((self.name + hook, loop.epoch, loop.steps))


@pytest.mark.parametrize("update", ["step", "epoch"])
def test_every_hook_in_order_with_the_counters_of_its_moment(graph: hf.Graph, update: str) -> None:
    watch = Watch()
    hf.fit(small_sage(graph), graph, hf.RandomNodes(2), epochs=2, update=update, callbacks=[watch])
    expected: list[tuple[str, int, int]] = [("on_start", 0, 0)]
    steps = 0
    for epoch in range(2):
        for last in (False, True):
            expected.append(("on_gradient", epoch, steps))
            if update == "step" or last:
                steps += 1
                expected.append(("on_step", epoch, steps))
        expected += [("on_epoch", epoch + 1, steps), ("on_evaluation", epoch + 1, steps)]
    assert watch.seen == [*expected, ("on_end", 2, steps)]


def test_several_are_told_in_their_order(graph: hf.Graph) -> None:
    seen: list[Any] = []
    hf.fit(small_sage(graph), graph, hf.FullGraph(), epochs=1, callbacks=[Watch("a.", seen), Watch("b.", seen)])
    assert [name for name, *_ in seen] == [f"{who}.{hook}" for hook in HOOKS for who in "ab"]


@pytest.mark.parametrize("patience", [None, 5])
@pytest.mark.parametrize("hook", HOOKS)
def test_stop_holds_from_every_hook(graph: hf.Graph, tmp_path: Path, hook: str, patience: int | None) -> None:
    class Stop(hf.Callback):
        pass

    setattr(Stop, hook, lambda self, loop, *args: loop.stop())
    watch = Watch()
    run = hf.fit(
        small_sage(graph), graph, hf.RandomNodes(2), epochs=4, patience=patience, callbacks=[Stop(), watch],
        out=tmp_path,
    )  # fmt: skip
    epochs = {"on_start": 0, "on_end": 4}.get(hook, 1)
    assert (run.epochs, run.steps) == (epochs, 2 * epochs)
    assert [line["epoch"] for line in run.history] == ([0] if epochs == 0 else list(range(1, epochs + 1)))
    assert timeless(RunFolder(tmp_path).lines()) == timeless(run.history)
    told = [name for name, *_ in watch.seen]
    assert told.count("on_end") == 1
    assert told.count("on_evaluation") == len(run.history)


@pytest.mark.parametrize("norm", ["bn", "ln"])
def test_the_seed_of_a_step_gives_its_loss_again(graph: hf.Graph, norm: str) -> None:
    class Repeat(hf.Callback):
        losses = 0

        def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
            assert all(p.grad is not None for p in loop.model.parameters())
            seed_step(loop.model, seed)
            assert batch_loss(loop.model, batch).item() == loss
            seed_step(loop.model, seed + 1)
            assert batch_loss(loop.model, batch).item() != loss
            self.losses += 1

    repeat = Repeat()
    hf.fit(small_sage(graph, norm=norm), graph, hf.RandomNodes(3), epochs=2, callbacks=[repeat])
    assert repeat.losses == 6


def test_the_end_comes_before_the_best_weights(graph: hf.Graph) -> None:
    class End(hf.Callback):
        def on_end(self, loop: Loop) -> None:
            self.last = hf.infer(loop.model, graph)
            self.best = loop.best_epoch

    end, model = End(), small_sage(graph)
    run = hf.fit(model, graph, hf.RandomNodes(2), epochs=6, lr=0.3, callbacks=[end])
    assert end.best == run.best_epoch < 6
    assert not torch.equal(end.last, hf.infer(model, graph))


def test_checksums_tell_whether_two_runs_saw_the_same_batches() -> None:
    graph = hf.load("synthetic?nodes=100&degree=4&features=4&classes=3")

    def found(seed: int, **how: Any) -> str:
        checksums = Checksums()
        hf.fit(small_sage(graph), graph, hf.RandomNodes(3), epochs=2, seed=seed, callbacks=[checksums], **how)
        return checksums.found[seed]

    first = found(1)
    assert found(1, lr=0.1) == found(1, parts_per_step=3) == first
    assert found(2) != first
