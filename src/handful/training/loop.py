"""The training loop. The functions in this file are in reading order, from top to bottom."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from signal import Signals
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from handful import ranks
from handful.batch import Batch
from handful.errors import DivergedError, HandfulError
from handful.files import plain
from handful.graph import Graph
from handful.nn.network import Network
from handful.random import derive_seed
from handful.samplers.base import Sampler
from handful.settings import Precision, Settings
from handful.signals import Deferred, deferred
from handful.training.callbacks import Callback
from handful.training.checkpoint import save_checkpoint
from handful.training.cost import reset_peak_memory
from handful.training.execution import Execution, InMemory
from handful.training.group import Group
from handful.training.loss import NodeLosses, node_loss, node_losses
from handful.training.metrics import METRICS, Metric
from handful.training.module import logits_of, seed_step
from handful.training.record import Counts, RunFolder


@dataclass
class Loop(Counts):
    """The state of a run. Callbacks get the loop, and checkpoints save its state.

    ``epoch`` is the number of completed epochs. ``handful.training.fit.begin`` creates a ``Loop``.
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
    execution: Execution = field(default_factory=InMemory)
    """The source of batches, and of outputs for the evaluation. The choice of the execution does not change the
    result.
    """
    epoch: int = 0
    best_val: float = math.nan
    best_test: float = math.nan
    stale: int = 0
    stopped: bool = False
    loss: float = math.nan
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    saved_at: float = 0.0
    """The time when this process wrote its last checkpoint. If there is none yet, this is the time when ``train``
    started.
    """

    def notify(self, hook: str, *args: Any) -> None:
        """Call the method ``hook`` of every callback with this loop and ``args``."""
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def stop(self) -> None:
        """End the run after its current epoch."""
        self.stopped = True

    def loss_on(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of ``model`` on ``batch``, with the precision, the loss function and the class weights of the
        run.
        """
        return batch_loss(model, batch, self.settings.precision, self.losses, self.class_weight)

    @property
    def devices(self) -> set[torch.device]:
        """All devices of the graph and of the model's parameters."""
        return {self.graph.device, *(parameter.device for parameter in self.model.parameters())}


def train(loop: Loop, folder: RunFolder | None = None) -> None:
    """Train until the last epoch, or until ``loop.stop()`` is called. Checkpoints and evaluations are written to
    ``folder``.

    If there is a folder, SIGINT and SIGTERM take effect only at the end of the epoch, after a checkpoint is written.

    Raises:
        DivergedError: weights, loss or logits became infinite or NaN before the first evaluation. If a run diverges
            later, it ends with its best evaluated epoch, and ``loop.diverged`` is set to the epoch of the divergence.
    """
    for device in loop.devices:
        reset_peak_memory(device)
    loop.saved_at = time.monotonic()
    known = loop.execution.known
    loop.prepare_seconds = loop.sampler.prepare(loop.graph) + (0.0 if known is None else known.seconds)
    loop.notify("on_start")
    recorded, leading = ranks.broadcast(folder is not None), ranks.rank() == 0
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
                    print(f"handful: {error}; the result is epoch {loop.best_epoch}", file=sys.stderr, flush=True)
                break
            if line is not None:
                keep_line(loop, line, folder)
            stopped, received = ranks.largest(loop.stopped, signals.received or 0)
            loop.stopped = bool(stopped)
            if received:
                if folder is not None:
                    save_checkpoint(loop, folder)
                    what = f"{Signals(int(received)).name} after epoch {loop.epoch} of {loop.settings.epochs}"
                    where = f"a checkpoint is in {folder.path}; resume continues it"
                    print(f"handful: {what}: {where}", file=sys.stderr, flush=True)
                signals.deliver(int(received))
    if not loop.best_weights:  # stopped before its first epoch
        keep_line(loop, note(loop, *evaluate(loop)), folder)
    loop.notify("on_end")


def keep_line(loop: Loop, line: dict[str, Any], folder: RunFolder | None) -> None:
    """Write the evaluation ``line``, and a checkpoint if one is due; then notify the callbacks."""
    if folder is not None:
        folder.append(line)
        if time.monotonic() - loop.saved_at >= loop.settings.checkpoint_seconds:
            save_checkpoint(loop, folder)
            loop.saved_at = time.monotonic()
    loop.notify("on_evaluation", line)


def train_and_evaluate(loop: Loop) -> dict[str, Any] | None:
    """Train one epoch. If an evaluation is due, evaluate the model and return the line for ``metrics.jsonl``; otherwise
    return ``None``.
    """
    began = time.perf_counter()
    train_epoch(loop)
    loop.train_seconds += time.perf_counter() - began
    due = loop.stopped or loop.epoch == loop.settings.epochs or loop.epoch % loop.settings.evaluate_every == 0
    measured = evaluate(loop) if due else None
    loop.seconds += time.perf_counter() - began
    return None if measured is None else note(loop, *measured)


def train_epoch(loop: Loop) -> None:
    """Train one epoch: one forward and backward pass per batch, and one optimiser step per ``parts_per_step`` batches,
    with the mean gradient of these batches.

    If there are several ranks, each computes some of the batches of a step (see ``ranks.owner``), and all make the same
    step.
    """
    model, how = loop.model, loop.settings
    model.train()
    group, places = Group(model), 0
    total, batches, skipped, small, index = 0.0, 0, 0, 0, 0
    for batch in loop.execution.batches(loop):
        if batch is not None:
            too_small = len(batch.targets) > 0 and isinstance(model, Network) and model.too_small(batch)
            if len(batch.targets) == 0 or too_small:
                skipped, small = skipped + 1, small + too_small
            else:
                total, batches = total + learn(loop, batch, index), batches + 1
                group.add(places)
        del batch  # free it before the next batch: two batches may not fit into a budget
        index, places = index + 1, places + 1
        if places == how.step_length:
            _step(loop, group, places)
            places = 0
    if places:
        _step(loop, group, places)
    group.close()
    sums = ranks.add_up(total, batches, skipped, small)
    total, (batches, skipped, small) = sums[0], map(int, sums[1:])
    loop.epoch += 1
    loop.skipped += skipped
    if small and not batches:
        raise HandfulError("batch norm needs at least two nodes in a batch: use larger batches, or norm 'ln'")
    if batches and not math.isfinite(total):
        raise divergence(loop, f"the loss is {total}")
    loop.loss = total / batches if batches else math.nan
    if loop.scheduler is not None and not isinstance(loop.scheduler, ReduceLROnPlateau):
        loop.scheduler.step()
    loop.notify("on_epoch")
    loop.stopped = bool(ranks.largest(loop.stopped)[0])


def learn(loop: Loop, batch: Batch, index: int) -> float:
    """Run the forward and backward pass on batch ``index`` of the epoch, and return the loss."""
    seed = derive_seed(loop.seed, loop.epoch, index)
    seed_step(loop.model, seed)
    loss = loop.loss_on(loop.model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    value = float(loss.detach())
    loop.notify("on_gradient", batch, value, seed)
    return value


def batch_loss(
    model: nn.Module,
    batch: Batch,
    precision: Precision = "fp32",
    losses: NodeLosses = node_losses,
    class_weight: Tensor | None = None,
) -> Tensor:
    """L̂^B(w): the loss on the batch's targets."""
    with torch.autocast(batch.x.device.type, torch.bfloat16) if precision == "bf16" else nullcontext():
        logits = logits_of(model, batch)
    return node_loss(logits.index_select(0, batch.targets), batch.y, batch.target_weight, class_weight, losses)


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
    """Compute the metric on the validation nodes and on the test nodes, with a single inference.

    Raises:
        DivergedError: a weight, or a logit of one of these nodes, is infinite or NaN.
    """
    if not all(bool(p.isfinite().all()) for p in loop.model.parameters()):
        raise divergence(loop, "a weight is not finite")
    nodes, outputs = loop.execution.outputs(loop)
    if not bool(outputs.isfinite().all()):
        raise divergence(loop, "a logit is not finite")
    graph = loop.graph.judged
    assert graph.val_mask is not None
    val = graph.val_mask[nodes]  # all others are test nodes
    return tuple(ranks.broadcast([float(loop.metric.of(outputs[mask], graph, nodes[mask])) for mask in (val, ~val)]))


def divergence(loop: Loop, how: str) -> DivergedError:
    """The error for a diverged run, with advice."""
    return DivergedError(f"{how} in epoch {loop.epoch}: use a smaller lr, or another norm")


def note(loop: Loop, val: float, test: float) -> dict[str, Any]:
    """Record an evaluation: add it to the history, update the best epoch, check for early stopping, and return the line
    for ``metrics.jsonl``.
    """
    # Without validation nodes (NaN), the last epoch is the best.
    if math.isnan(val) or loop.metric.better(val, than=loop.best_val):
        loop.best_val, loop.best_test, loop.best_epoch, loop.stale = val, test, loop.epoch, 0
        loop.best_weights = {k: v.detach().clone() for k, v in loop.model.state_dict().items()}
    else:
        loop.stale += 1
    if loop.settings.patience is not None and loop.stale >= loop.settings.patience:
        loop.stop()
    if isinstance(loop.scheduler, ReduceLROnPlateau):
        loop.scheduler.step(val)
    counts = {name: getattr(loop, name) for name in ("epoch", "steps", "loss")}
    times = {"seconds": loop.seconds, "train_seconds": loop.train_seconds}
    line: dict[str, Any] = plain({**counts, "val": val, "test": test, **times})
    loop.history.append(line)
    return line
