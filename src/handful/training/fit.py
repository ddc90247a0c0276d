"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim

from handful.batch import Batch
from handful.errors import DivergedError, HandfulError, RunError
from handful.files import write_json
from handful.graph import Graph
from handful.kernels.memory import release
from handful.kernels.threads import get_threads
from handful.nn.network import Network
from handful.nn.parallel import arrange, usable_device
from handful.random import derived_seed
from handful.samplers.base import Sampler
from handful.samplers.prefetch import prefetch
from handful.training.callbacks import Callback
from handful.training.inference import infer, infer_sampled
from handful.training.loss import node_loss
from handful.training.memory import peak_gpu, peak_ram, reset_peak_memory
from handful.training.metrics import measure
from handful.training.module import logits_of, seed_step
from handful.training.optim import make_optimizer
from handful.training.record import (
    RunFolder,
    load_tensors,
    optimizer_tensors,
    prefixed,
    read_json,
    restore_optimizer,
    save_tensors,
    unprefixed,
)
from handful.trim import trim


@dataclass(frozen=True)
class Settings:
    """How to train.

    Args:
        epochs: how many passes over the sampler's batches.
        lr, weight_decay, optimizer, momentum: see ``make_optimizer``.
        update: ``step``, one optimiser step a batch; or ``epoch``, one step an epoch on the mean of the batches'
            losses (the paper's "RNS (no batch)").
        precision: ``fp32``, or ``bf16`` for autocast with master weights in float32.
        evaluate_every: epochs between evaluations; the last epoch is always evaluated.
        evaluation: ``exact``, on the full graph; or ``sampled``, by the sampler's own neighbourhoods.
        patience: stop after this many evaluations without a better validation metric.
        trim: compute only the nodes that a batch's loss can see, where that changes nothing else (no BatchNorm).
        checkpoint_seconds: the least time between two checkpoints.
        seed: of everything that is drawn during training; initialisation is the model's own.
    """

    epochs: int = 100
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    momentum: float = 0.9
    update: str = "step"
    precision: str = "fp32"
    evaluate_every: int = 1
    evaluation: str = "exact"
    patience: int | None = None
    trim: bool = True
    checkpoint_seconds: float = 10.0
    seed: int = 42

    def __post_init__(self) -> None:
        for name, allowed in (
            ("update", ("step", "epoch")),
            ("precision", ("fp32", "bf16")),
            ("evaluation", ("exact", "sampled")),
        ):
            if getattr(self, name) not in allowed:
                raise HandfulError(f"{name} must be {' or '.join(allowed)}, got '{getattr(self, name)}'")
        for name in ("epochs", "evaluate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise HandfulError(f"{name} must be at least 1, got {value}")
        if not self.lr > 0:
            raise HandfulError(f"lr must be above 0, got {self.lr}")
        if self.seed < 0 or self.weight_decay < 0 or not 0 <= self.momentum < 1:
            raise HandfulError("seed and weight_decay must not be negative, and momentum must lie in [0, 1)")


@dataclass
class Run:
    """What a training run came to. Metrics are fractions; ``test`` is that of the epoch with the best ``val``."""

    metric: str
    val: float
    test: float
    best_epoch: int
    epochs: int
    steps: int
    skipped: int
    seconds: float
    train_seconds: float
    peak_ram_bytes: int
    peak_gpu_bytes: int | None
    seed: int
    history: list[dict[str, Any]] = field(repr=False, default_factory=list)
    dir: str | None = None

    @property
    def epoch_seconds(self) -> float:
        """The mean time of an epoch's steps, evaluation aside."""
        return self.train_seconds / self.epochs


@dataclass
class Loop:
    """The state of a run: what callbacks see, and what a checkpoint keeps."""

    model: nn.Module
    graph: Graph
    sampler: Sampler
    optimizer: optim.Optimizer
    settings: Settings
    epoch: int = 0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0
    train_seconds: float = 0.0
    best_val: float = -math.inf
    best_test: float = math.nan
    best_epoch: int = 0
    stale: int = 0
    stopped: bool = False
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
    )


def fit(
    model: nn.Module,
    graph: Graph,
    sampler: Sampler,
    *,
    device: str | torch.device = "cpu",
    devices: Sequence[str | torch.device] = (),
    checkpoint_activations: bool = False,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Train ``model`` on ``graph`` with the batches of ``sampler``; the model is left with its best weights.

    Args:
        model: one of handful's backbones, or any module with ``forward(x, edge_index)``.
        graph: with features, labels and a split.
        sampler: where batches come from.
        device: where to train; the graph is moved there.
        devices: spread the model's layers over these instead, in order; the graph is on the first.
        checkpoint_activations: keep only what enters a layer, and run the layer again in the backward pass: less
            memory, the same result.
        out: the run folder; nothing is written without one.
        resume: go on with the run in ``out`` (or begin it). It ends bit for bit like a run that was never broken off.
        callbacks: see ``Callback``.
        settings: see ``Settings``.
    """
    how = Settings(**settings)
    places = [usable_device(name) for name in devices or [device]]
    graph = graph.require_training().to(places[0])
    model = arrange(model, places, checkpoint_activations)
    loop = begin(model, graph, sampler, how)
    folder = RunFolder(out) if out is not None else None
    with folder.held() if folder is not None else nullcontext():
        if folder is not None:
            folder.begin(_config(loop), resume)
            if resume and folder.result.exists():
                return _finished(loop, folder)
            if resume and folder.checkpoint.exists():
                _restore(loop, folder)
        try:
            return _train(loop, folder, callbacks)
        finally:
            release()


def begin(model: nn.Module, graph: Graph, sampler: Sampler, how: Settings) -> Loop:
    """A run that has not trained yet, with the optimiser that its settings ask for."""
    optimizer = make_optimizer(how.optimizer, model.parameters(), how.lr, how.weight_decay, how.momentum)
    return Loop(model, graph, sampler, optimizer, how)


def _train(loop: Loop, folder: RunFolder | None, callbacks: Sequence[Callback]) -> Run:
    how = loop.settings
    for device in _devices(loop):
        reset_peak_memory(device)
    last_checkpoint = time.monotonic()
    for callback in callbacks:
        callback.on_start(loop)
    while loop.epoch < how.epochs and not loop.stopped:
        began = time.perf_counter()
        train_epoch(loop, callbacks)
        loop.epoch += 1
        loop.train_seconds += time.perf_counter() - began
        if loop.epoch % how.evaluate_every == 0 or loop.epoch == how.epochs:
            val, test = evaluate(loop)
            loop.seconds += time.perf_counter() - began
            line = _note(loop, val, test)
            if folder is not None:
                folder.append(line)
                if time.monotonic() - last_checkpoint >= how.checkpoint_seconds:
                    _checkpoint(loop, folder)
                    last_checkpoint = time.monotonic()
            for callback in callbacks:
                callback.on_evaluation(loop, line)
        else:
            loop.seconds += time.perf_counter() - began
    for callback in callbacks:
        callback.on_end(loop)
    return _finish(loop, folder)


def train_epoch(loop: Loop, callbacks: Sequence[Callback] = ()) -> None:
    """One epoch: a forward and backward pass for every batch, and a step for each, or one for all."""
    model, how = loop.model, loop.settings
    model.train()
    total, batches = 0.0, 0
    for index, batch in enumerate(_batches(loop)):
        if len(batch.targets) == 0:
            loop.skipped += 1
            continue
        seed_step(model, derived_seed(how.seed, loop.epoch, index))
        loss = batch_loss(model, batch, how.precision)
        loss.backward()  # type: ignore[no-untyped-call]
        total, batches = total + float(loss.detach()), batches + 1
        for callback in callbacks:
            callback.on_gradient(loop, batch, float(loss.detach()))
        if how.update == "step":
            _step(loop, callbacks)
    if batches and how.update == "epoch":
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= batches
        _step(loop, callbacks)
    if batches and not math.isfinite(total):
        raise DivergedError(f"the loss is {total} in epoch {loop.epoch + 1}: use a smaller --lr, or another norm")
    loop.loss = total / batches if batches else math.nan
    for callback in callbacks:
        callback.on_epoch(loop)


def _batches(loop: Loop) -> Iterator[Batch]:
    """The sampler's batches of this epoch, cut to what their loss can see where the model lets them be.

    They are made ahead where another device trains; on the CPU the kernels of both would only share its cores.
    """
    batches = loop.sampler.epoch(loop.graph, loop.settings.seed, loop.epoch)
    if isinstance(loop.model, Network) and loop.model.trimmable and loop.settings.trim:
        batches = map(partial(trim, depth=loop.model.depth), batches)  # holds on to none of them
    return batches if loop.graph.device.type == "cpu" else prefetch(batches)


def batch_loss(model: nn.Module, batch: Batch, precision: str = "fp32") -> Tensor:
    """L̂^B(w): the loss on the batch's targets."""
    with autocast(batch.x.device, precision):
        logits = logits_of(model, batch)
    return node_loss(logits.index_select(0, batch.targets), batch.y, batch.target_weight)


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """bfloat16 products where it was asked for."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def _step(loop: Loop, callbacks: Sequence[Callback]) -> None:
    loop.optimizer.step()
    loop.optimizer.zero_grad(set_to_none=True)
    loop.steps += 1
    for callback in callbacks:
        callback.on_step(loop)


def evaluate(loop: Loop) -> tuple[float, float]:
    """The metric on the validation and on the test nodes, from one inference."""
    graph, how = loop.graph, loop.settings
    assert graph.y is not None
    assert graph.val_mask is not None
    assert graph.test_mask is not None
    if how.evaluation == "exact":
        logits = infer(loop.model, graph)
    else:
        if not hasattr(loop.sampler, "evaluation"):
            raise HandfulError(f"sampler '{loop.sampler.name}' cannot evaluate by sampling: use evaluation exact")
        nodes = (graph.val_mask | graph.test_mask).nonzero().squeeze(1)
        seed = derived_seed(how.seed, loop.epoch)
        logits = infer_sampled(loop.model, loop.sampler.evaluation(graph, nodes, seed), graph.num_nodes)
    val, test = (measure(graph.metric, logits[mask], graph.y[mask]) for mask in (graph.val_mask, graph.test_mask))
    return val, test


def _note(loop: Loop, val: float, test: float) -> dict[str, Any]:
    """Keep an evaluation: the history, the best so far, and whether patience has run out."""
    better = not val <= loop.best_val  # without validation nodes (NaN) the last epoch stands
    if better:
        loop.best_val, loop.best_test, loop.best_epoch, loop.stale = val, test, loop.epoch, 0
        loop.best_weights = {k: v.detach().clone() for k, v in loop.model.state_dict().items()}
    else:
        loop.stale += 1
    _heed_patience(loop)
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


def _devices(loop: Loop) -> set[torch.device]:
    return {loop.graph.device, *(parameter.device for parameter in loop.model.parameters())}


def _peak_gpu(loop: Loop) -> int | None:
    """Summed over the GPUs that hold the model."""
    peaks = [peak for device in _devices(loop) if (peak := peak_gpu(device)) is not None]
    return sum(peaks) if peaks else None


def _heed_patience(loop: Loop) -> None:
    loop.stopped = loop.settings.patience is not None and loop.stale >= loop.settings.patience


def _config(loop: Loop) -> dict[str, Any]:
    """All that decides how the run goes. A run is resumed only with the same; in another environment it still goes on,
    but sums are rounded in another order."""
    return {
        "graph": loop.graph.name,
        "topology": loop.graph.checksum,
        "metric": loop.graph.metric,
        "split": {m: int(getattr(loop.graph, f"{m}_mask").sum()) for m in ("train", "val", "test")},
        "model": f"{type(loop.model).__name__}({sum(p.numel() for p in loop.model.parameters())} parameters)",
        "sampler": {"name": loop.sampler.name, **loop.sampler.options()},
        "settings": asdict(loop.settings),
        "environment": {
            "threads": get_threads(),
            "device": loop.graph.device.type,
            "torch": torch.__version__,
        },
    }


def _checkpoint(loop: Loop, folder: RunFolder) -> None:
    tensors = prefixed("model", loop.model.state_dict())
    tensors |= prefixed("best", loop.best_weights)
    tensors |= prefixed("optimizer", optimizer_tensors(loop.optimizer))
    save_tensors(folder.checkpoint, tensors, {name: getattr(loop, name) for name in loop.COUNTERS})


def _restore(loop: Loop, folder: RunFolder) -> None:
    tensors, counters = load_tensors(folder.checkpoint)
    loop.model.load_state_dict(unprefixed("model", tensors))
    restore_optimizer(loop.optimizer, unprefixed("optimizer", tensors))
    loop.best_weights = {k: v.to(loop.graph.device) for k, v in unprefixed("best", tensors).items()}
    for name in loop.COUNTERS:
        setattr(loop, name, counters[name])
    folder.rewind(loop.epoch)
    loop.history = folder.lines()
    _heed_patience(loop)


def _finish(loop: Loop, folder: RunFolder | None) -> Run:
    run = Run(
        metric=loop.graph.metric,
        val=loop.best_val,
        test=loop.best_test,
        best_epoch=loop.best_epoch,
        epochs=loop.epoch,
        steps=loop.steps,
        skipped=loop.skipped,
        seconds=loop.seconds,
        train_seconds=loop.train_seconds,
        peak_ram_bytes=peak_ram(),
        peak_gpu_bytes=_peak_gpu(loop),
        seed=loop.settings.seed,
        history=loop.history,
        dir=None if folder is None else str(folder.path),
    )
    if folder is not None:
        _checkpoint(loop, folder)
        save_tensors(folder.model, loop.best_weights)
        write_json(folder.result, {k: v for k, v in asdict(run).items() if k not in ("history", "dir")})
    loop.model.load_state_dict(loop.best_weights)
    return run


def _finished(loop: Loop, folder: RunFolder) -> Run:
    """The run that ``folder`` holds already."""
    tensors, _ = load_tensors(folder.model)
    loop.model.load_state_dict(tensors)
    try:
        result = read_json(folder.result)
        result |= {k: math.nan for k in ("val", "test") if result.get(k) is None}
        return Run(**result, history=folder.lines(), dir=str(folder.path))
    except TypeError as error:
        raise RunError(f"{folder.result} is not a result of this version: {error}") from None
