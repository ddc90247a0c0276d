"""Small models, runs and batches that several tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

import handful as hf
from handful.batch import Batch
from handful.random import derive_seed
from handful.training.loop import Loop
from handful.training.module import seed_step
from handful.training.record import RunFolder, load_tensors


def full_batch(graph: hf.Graph) -> Batch:
    """The whole graph as one batch."""
    return next(iter(hf.FullGraph().epoch(graph, 0, 0)))


def dense(graph: hf.Graph) -> Tensor:
    """A: row v has the weights of the edges that point to v."""
    out = torch.zeros(graph.num_nodes, graph.num_nodes)
    weight = torch.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight
    return out.index_put_((graph.edge_index[1], graph.edge_index[0]), weight, accumulate=True)


def dense_mean(graph: hf.Graph) -> Tensor:
    """A over the sums of its rows; rows that sum to 0 stay 0."""
    a = dense(graph)
    return a / torch.where(a.sum(1) > 0, a.sum(1), 1)[:, None]


def dense_gcn(graph: hf.Graph) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2); a loop that is there already is not added again."""
    a = dense(graph)
    a += torch.diag((a.diagonal() == 0).float())
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d


def small_sage(graph: hf.Graph, seed: int = 0, **options: Any) -> hf.SAGE:
    """Two narrow layers with the initial weights of ``seed``."""
    torch.manual_seed(seed)
    return hf.SAGE(graph.num_features, graph.num_outputs, **{"hidden": 16, "layers": 2, **options})


def train_by_hand(
    model: hf.SAGE,
    graph: hf.Graph,
    sampler: hf.Sampler,
    optimizer: Optimizer,
    *,
    epochs: int,
    seed: int = 42,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    clip: float | None = None,
    scheduler: LRScheduler | None = None,
) -> dict[str, Tensor]:
    """What ``fit`` does, in a few lines of torch; the weights after the last epoch."""
    model.train()
    for epoch in range(epochs):
        for index, batch in enumerate(sampler.epoch(graph, seed, epoch)):
            seed_step(model, derive_seed(seed, epoch, index))
            optimizer.zero_grad()
            loss(model(batch)[batch.targets], batch.y).backward()
            if clip is not None:
                clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return model.state_dict()


class Last(hf.Callback):
    """Keep the weights after the last epoch, and the learning rate after every evaluation."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        self.rates.append(loop.optimizer.param_groups[0]["lr"])

    def on_end(self, loop: Loop) -> None:
        self.weights = {name: value.clone() for name, value in loop.model.state_dict().items()}


def assert_close_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Up to rounding."""
    for name, value in a.items():
        torch.testing.assert_close(value, b[name], rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


class BreakOff(hf.Callback):
    """End the process, as far as a test can, after the evaluation of an epoch (of a seed)."""

    def __init__(self, epoch: int, seed: int | None = None) -> None:
        self.epoch, self.seed = epoch, seed

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        if line["epoch"] == self.epoch and self.seed in (None, loop.seed):
            raise KeyboardInterrupt


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluations without what a clock has told."""
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in history]


def same_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_same_end(one: RunFolder, other: RunFolder) -> None:
    """Both runs came to the same evaluations, best weights and last state, bit for bit."""
    assert timeless(one.lines()) == timeless(other.lines())
    assert one.model.read_bytes() == other.model.read_bytes()
    assert same_weights(load_tensors(one.checkpoint)[0], load_tensors(other.checkpoint)[0])


def another(value: Any, hint: Any) -> Any:
    """A value other than ``value`` that a field of this type takes too."""
    choices = get_args(hint)
    if choices and all(isinstance(choice, str) for choice in choices):
        return next(choice for choice in choices if choice != value)
    if isinstance(value, bool):
        return not value
    if value is None:
        return "3" if str in choices else (3,) if tuple[int, ...] in choices else 3
    if isinstance(value, tuple):
        return (*value, 3)
    return value + 1 if isinstance(value, int) else value / 2 or 0.25
