"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from signal import Signals
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from handful import ranks
from handful.batch import Batch, Sample
from handful.errors import DivergedError, HandfulError, RunError
from handful.graph import Graph
from handful.nn.network import Network
from handful.random import derived_seed
from handful.samplers.base import Sampler
from handful.settings import Precision, Settings
from handful.shuffle.epoch import shuffled
from handful.shuffle.over_ranks import outputs_of_all, shard_batches
from handful.shuffle.shards import ShardedGraph
from handful.signals import Deferred, deferred
from handful.training.callbacks import Callback
from handful.training.cost import StepCost, step_costs
from handful.training.gather import depth_of_trimming, gathered_own
from handful.training.group import Group
from handful.training.inference import infer, infer_sampled
from handful.training.loss import NodeLosses, node_loss, node_losses
from handful.training.memory import reset_peak_memory
from handful.training.metrics import METRICS, Metric
from handful.training.module import logits_of, seed_step
from handful.training.placement import beside
from handful.training.record import (
    RunFolder,
    load_tensors,
    optimizer_tensors,
    prefixed,
    restore_optimizer,
    save_tensors,
    unprefixed,
)


@dataclass
class Loop:
    """The state of a run: what callbacks see, and what a checkpoint keeps.

    ``epoch`` counts the epochs that are done. ``begin`` of ``handful.training.fit`` makes one.
    """

    model: nn.Module
    graph: Graph
    sampler: Sampler
    optimizer: optim.Optimizer
    settings: Settings
    seed: int
    scheduler: LRScheduler | None = None
    losses: NodeLosses = node_losses
    class_weight: Tensor | None = None
    metric: Metric = METRICS["accuracy"]
    callbacks: Sequence[Callback] = ()
    memory: int | None = None
    """The budget of anonymous memory in bytes: how to run, not what."""
    sends_to: torch.device | None = None
    """Where batches are sent, if the graph stays on the host."""
    step_costs: tuple[StepCost, StepCost] | None = None
    """What a step takes, where there is a budget, as it is and lean; found out in the first epoch."""
    epoch: int = 0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0
    train_seconds: float = 0.0
    prepare_seconds: float = 0.0
    best_val: float = math.nan
    best_test: float = math.nan
    best_epoch: int = 0
    stale: int = 0
    stopped: bool = False
    diverged: int | None = None
    loss: float = math.nan
    history: list[dict[str, Any]] = field(default_factory=list)
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    COUNTERS: ClassVar = (
        "epoch",
        "steps",
        "skipped",
        "seconds",
        "train_seconds",
        "best_val",
        "best_test",
        "best_epoch",
        "stale",
        "stopped",
        "diverged",
    )

    def notify(self, hook: str, *args: Any) -> None:
        """Call ``hook`` of every callback with this loop and ``args``."""
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def stop(self) -> None:
        """End the run after its current epoch."""
        self.stopped = True


def train(loop: Loop, folder: RunFolder | None = None) -> None:
    """Train until the last epoch, or until someone stops the loop; checkpoints and evaluations go to ``folder``.

    With a folder, SIGINT and SIGTERM wait for the end of the epoch, and a checkpoint is written first.

    Raises:
        DivergedError: weights, loss or logits are not finite, and no evaluated epoch came before. If one did, the run
            ends with it, and ``loop.diverged`` says when.
    """
    for device in devices_of(loop):
        reset_peak_memory(device)
    last_checkpoint = time.monotonic()
    loop.prepare_seconds = loop.sampler.prepare(loop.graph)
    loop.notify("on_start")
    recorded, leading = ranks.told(folder is not None), ranks.rank() == 0
    kept_back = deferred("after this epoch" if leading else None) if recorded else nullcontext(Deferred())
    with kept_back as signals:
        while loop.epoch < loop.settings.epochs and not loop.stopped:
            try:
                line = train_and_evaluate(loop)
            except DivergedError as error:
                if not loop.best_weights:
                    raise
                loop.diverged = loop.epoch
                loop.stop()
                if leading:
                    print(f"handful: {error}; epoch {loop.best_epoch}, the best, stands", file=sys.stderr, flush=True)
                break
            if line is not None:
                if folder is not None:
                    folder.append(line)
                    if time.monotonic() - last_checkpoint >= loop.settings.checkpoint_seconds:
                        save_checkpoint(loop, folder)
                        last_checkpoint = time.monotonic()
                loop.notify("on_evaluation", line)
            stopped, received = ranks.largest(loop.stopped, signals.received or 0)
            loop.stopped = bool(stopped)
            if received:
                if folder is not None:
                    save_checkpoint(loop, folder)
                    told = f"{Signals(int(received)).name} after epoch {loop.epoch} of {loop.settings.epochs}"
                    where = f"a checkpoint is in {folder.path}; resume goes on"
                    print(f"handful: {told}: {where}", file=sys.stderr, flush=True)
                signals.deliver(int(received))
    if not loop.best_weights:  # stopped before its first epoch
        line = note(loop, *evaluate(loop))
        if folder is not None:
            folder.append(line)
        loop.notify("on_evaluation", line)
    loop.notify("on_end")


def train_and_evaluate(loop: Loop) -> dict[str, Any] | None:
    """One epoch and, where it is due, its evaluation: the line that ``metrics.jsonl`` gets."""
    began = time.perf_counter()
    train_epoch(loop)
    loop.train_seconds += time.perf_counter() - began
    last = loop.epoch == loop.settings.epochs or loop.stopped
    due = last or loop.epoch % loop.settings.evaluate_every == 0
    measured = evaluate(loop) if due else None
    loop.seconds += time.perf_counter() - began
    return None if measured is None else note(loop, *measured)


def train_epoch(loop: Loop) -> None:
    """One epoch: a forward and backward pass for every batch, and a step along the mean of each ``parts_per_step``.

    Of the batches of a step every rank computes its own (``ranks.owner``); the step is the same on all of them.
    """
    model, how = loop.model, loop.settings
    model.train()
    group, places = Group(model), 0
    total, batches, skipped, small, index = 0.0, 0, 0, 0, 0
    for batch in own_batches(loop):
        if batch is not None:
            too_small = len(batch.targets) > 0 and isinstance(model, Network) and model.too_small(batch)
            if len(batch.targets) == 0 or too_small:
                skipped, small = skipped + 1, small + too_small
            else:
                total, batches = total + learn(loop, batch, index), batches + 1
                group.add(places)
        del batch  # before the next one is made: a budget may not hold both
        index, places = index + 1, places + 1
        if places == how.step_length:
            _step(loop, group, places)
            places = 0
    if places:
        _step(loop, group, places)
    group.close()
    sums = ranks.summed(total, batches, skipped, small)
    total, (batches, skipped, small) = sums[0], map(int, sums[1:])
    loop.epoch += 1
    loop.skipped += skipped
    if small and not batches:
        raise HandfulError("batch norm needs at least two nodes in a batch: use larger batches, or norm 'ln'")
    if batches and not math.isfinite(total):
        raise diverged(loop, f"the loss is {total}")
    loop.loss = total / batches if batches else math.nan
    if loop.scheduler is not None and not isinstance(loop.scheduler, ReduceLROnPlateau):
        loop.scheduler.step()
    loop.notify("on_epoch")
    loop.stopped = bool(ranks.largest(loop.stopped)[0])


def own_batches(loop: Loop) -> Iterator[Batch | None]:
    """The batches of an epoch that this rank computes, and ``None`` in the place of all others."""
    graph, seed, epoch, rank = loop.graph, loop.seed, loop.epoch, ranks.rank()
    depth = depth_of_trimming(loop.model, loop.settings.trim)
    owner = partial(ranks.owner, per_step=loop.settings.step_length, ranks=ranks.size())
    if isinstance(graph, ShardedGraph):
        return shard_batches(graph, loop.sampler, seed, epoch, owner, depth)
    if loop.memory is None:
        samples = loop.sampler.sample(graph, seed, epoch)
        return gathered_own(graph, samples, depth, lambda index: owner(index) == rank, loop.sends_to)
    deal, say = loop.sampler.deal(graph, seed, epoch), partial(loop.notify, "on_progress")
    how: Any = {"step_bytes": partial(_step_bytes, loop), "take_lean": partial(_take_lean, loop)}
    return shuffled(graph, deal, loop.memory, depth=depth, say=say, **how)


def _take_lean(loop: Loop, lean: bool) -> None:
    if isinstance(loop.model, Network):
        loop.model.lean = lean


def _step_bytes(loop: Loop, sample: Sample) -> tuple[int, int]:
    """What a step on ``sample`` takes beside its batch, as the model is and lean; nothing if it makes none."""
    if len(sample.targets) == 0:
        return 0, 0
    if loop.step_costs is None:
        loop.step_costs = step_costs(loop.model, loop.graph, sample, partial(loss_of, loop))
    as_it_is, lean = loop.step_costs
    return as_it_is(sample), lean(sample)


def learn(loop: Loop, batch: Batch, index: int) -> float:
    """Forward and backward pass on batch ``index`` of the epoch; its loss."""
    seed = derived_seed(loop.seed, loop.epoch, index)
    seed_step(loop.model, seed)
    loss = loss_of(loop, loop.model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    value = float(loss.detach())
    loop.notify("on_gradient", batch, value, seed)
    return value


def loss_of(loop: Loop, model: nn.Module, batch: Batch) -> Tensor:
    """The loss of ``model`` on ``batch`` with the settings of the loop."""
    return batch_loss(model, batch, loop.settings.precision, loop.losses, loop.class_weight)


def batch_loss(
    model: nn.Module,
    batch: Batch,
    precision: Precision = "fp32",
    losses: NodeLosses = node_losses,
    class_weight: Tensor | None = None,
) -> Tensor:
    """L̂^B(w): the loss on the batch's targets."""
    with autocast(batch.x.device, precision):
        logits = logits_of(model, batch)
    return node_loss(logits.index_select(0, batch.targets), batch.y, batch.target_weight, class_weight, losses)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """bfloat16 products for ``bf16``."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def _step(loop: Loop, group: Group, places: int) -> None:
    if not group.mean(places):
        return
    if loop.settings.clip is not None:
        clip_grad_norm_(loop.model.parameters(), loop.settings.clip)
    loop.optimizer.step()
    loop.optimizer.zero_grad(set_to_none=True)
    loop.steps += 1
    loop.notify("on_step")


def evaluate(loop: Loop) -> tuple[float, float]:
    """The metric on the validation and on the test nodes, from one inference.

    Raises:
        DivergedError: a weight, or a logit of these nodes, is not finite.
    """
    graph = loop.graph
    assert graph.val_mask is not None
    assert graph.test_mask is not None
    if not all(bool(p.isfinite().all()) for p in loop.model.parameters()):
        raise diverged(loop, "a weight is not finite")
    nodes, outputs = outputs_of(loop)
    if not bool(outputs.isfinite().all()):
        raise diverged(loop, "a logit is not finite")
    val, test = (mask[nodes] for mask in (graph.val_mask, graph.test_mask))
    judged = [loop.metric.of(outputs[mask], graph, nodes[mask]) for mask in (val, test)]
    return tuple(ranks.told(list(map(float, judged))))


def outputs_of(loop: Loop) -> tuple[Tensor, Tensor]:
    """The validation and test nodes, ascending, and the model's outputs for them, as the settings infer them."""
    graph, how = loop.graph, loop.settings
    assert graph.val_mask is not None
    assert graph.test_mask is not None
    nodes = (graph.val_mask | graph.test_mask).nonzero().squeeze(1)
    if isinstance(graph, ShardedGraph):
        return nodes, outputs_of_all(graph, infer(loop.model, graph))
    model = loop.model if loop.sends_to is None else beside(loop.model, graph.device)
    if how.evaluation == "exact":
        told, shared = partial(_tell_rows, loop), ranks.size() > 1
        found = infer(model, graph, sampler=loop.sampler, memory=loop.memory, progress=told, shared=shared)
        return nodes, found[nodes]
    samples = loop.sampler.evaluation(graph, nodes, derived_seed(loop.seed, loop.epoch), how.evaluation_fanout)
    return nodes, infer_sampled(model, graph, samples)


def _tell_rows(loop: Loop, number: int, done: int, of: int) -> None:
    loop.notify("on_progress", f"evaluating, pass {number}", done / of)


def diverged(loop: Loop, how: str) -> DivergedError:
    """The error of a run that has gone astray, and what to do."""
    return DivergedError(f"{how} in epoch {loop.epoch}: use a smaller lr, or another norm")


def note(loop: Loop, val: float, test: float) -> dict[str, Any]:
    """Keep an evaluation: the history, the best so far, and whether patience has run out."""
    # Without validation nodes (NaN) the last epoch stands.
    if math.isnan(val) or loop.metric.better(val, than=loop.best_val):
        loop.best_val, loop.best_test, loop.best_epoch, loop.stale = val, test, loop.epoch, 0
        loop.best_weights = {k: v.detach().clone() for k, v in loop.model.state_dict().items()}
    else:
        loop.stale += 1
    if loop.settings.patience is not None and loop.stale >= loop.settings.patience:
        loop.stop()
    if isinstance(loop.scheduler, ReduceLROnPlateau):
        loop.scheduler.step(val)
    line: dict[str, Any] = {
        "epoch": loop.epoch,
        "steps": loop.steps,
        "loss": loop.loss,
        "val": val,
        "test": test,
        "seconds": loop.seconds,
        "train_seconds": loop.train_seconds,
    }
    line = {k: v if math.isfinite(v) else None for k, v in line.items()}
    loop.history.append(line)
    return line


def devices_of(loop: Loop) -> set[torch.device]:
    """Where the graph and the layers of the model are."""
    return {loop.graph.device, *(parameter.device for parameter in loop.model.parameters())}


# -- checkpoints ------------------------------------------------------------------------------------------------------


def save_checkpoint(loop: Loop, folder: RunFolder) -> None:
    """Everything that the next epoch depends on, in one file."""
    with folder.written(f"the checkpoint of epoch {loop.epoch}"):
        save_tensors(folder.checkpoint, *snapshot(loop))


def restore_checkpoint(loop: Loop, folder: RunFolder) -> None:
    """Put ``loop`` where ``save_checkpoint`` left it."""
    try:
        restore(loop, *load_tensors(folder.checkpoint))
    except (LookupError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{folder.checkpoint} is not of this run ({error}): use another folder") from None


def snapshot(loop: Loop) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that the next epoch depends on: tensors by name, and plain values."""
    tensors = prefixed("model", loop.model.state_dict())
    tensors |= prefixed("best", loop.best_weights)
    tensors |= prefixed("optimizer", optimizer_tensors(loop.optimizer))
    state: dict[str, Any] = {name: getattr(loop, name) for name in loop.COUNTERS}
    state["groups"] = plain_part([{**group, "params": None} for group in loop.optimizer.param_groups])
    if loop.scheduler is not None:
        state["scheduler"] = plain_part(loop.scheduler.state_dict())
    state["history"] = loop.history
    return tensors, state


def restore(loop: Loop, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
    """Put ``loop`` where ``snapshot`` was taken."""
    loop.model.load_state_dict(unprefixed("model", tensors))
    restore_optimizer(loop.optimizer, unprefixed("optimizer", tensors))
    for group, kept in zip(loop.optimizer.param_groups, state["groups"], strict=True):
        group |= with_plain_part(group, kept)
    if loop.scheduler is not None:
        loop.scheduler.load_state_dict(with_plain_part(loop.scheduler.state_dict(), state["scheduler"]))
    for name in (*loop.COUNTERS, "history"):
        setattr(loop, name, state[name])
    loop.best_weights = {k: v.to(loop.graph.device) for k, v in unprefixed("best", tensors).items()}


def begin_alike(loop: Loop) -> None:
    """Let every rank begin where rank 0 is: weights, optimiser, schedule, counters and history."""
    if ranks.size() == 1:
        return
    tensors, state = snapshot(loop)
    tensors, state = ranks.told_tensors(tensors), ranks.told(state)
    if ranks.rank() > 0:
        restore(loop, tensors, state)
    length, size = loop.settings.step_length, ranks.size()
    if length < size and ranks.rank() == 0:
        idle = f"{size - int(length)} of {size} ranks have nothing to do"
        print(f"handful: parts_per_step is {length}: {idle}; give at least {size}", file=sys.stderr, flush=True)


def plain_part(state: Any) -> Any:
    """What JSON can keep of a scheduler's or optimiser's state, at any depth; ``None`` in the place of all else.

    >>> plain_part({"last_epoch": 3, "betas": (0.9, 0.99), "function": print, "inner": [{"milestones": {5: 1}}]})
    {'last_epoch': 3, 'betas': [0.9, 0.99], 'function': None, 'inner': [{'milestones': {}}]}
    """
    if isinstance(state, dict):
        return {key: plain_part(value) for key, value in state.items() if isinstance(key, str)}
    if isinstance(state, list | tuple):
        return [plain_part(value) for value in state]
    return state if isinstance(state, bool | int | float | str) else None


def with_plain_part(state: Any, kept: Any) -> Any:
    """``state`` with what ``plain_part`` kept of another one in its place.

    >>> with_plain_part({"last_epoch": 0, "function": print}, {"last_epoch": 3, "function": None})["last_epoch"]
    3
    """
    if kept is None or kept == {}:
        return state
    if isinstance(state, dict) and isinstance(kept, dict):
        return {**state, **{key: with_plain_part(state.get(key), value) for key, value in kept.items()}}
    if isinstance(state, list | tuple) and isinstance(kept, list) and len(state) == len(kept):
        return type(state)(map(with_plain_part, state, kept))
    return kept
