"""What a training step takes in memory, found out by running the model on a small batch of the same shape."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from handful.batch import Batch, Sample
from handful.graph import Graph

SMALL = 2000
"""How many nodes the smaller of the two trials has."""
MARGIN = 4 / 3
"""``handful.kernels.memory`` may keep an eighth more than is in use at once; kernels have temporaries of their own."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that are made inside and still live, and the most there were at once.

    >>> with LiveBytes() as counted:
    ...     first = torch.ones(1000)
    ...     second = first + 1
    ...     del first, second
    >>> counted.peak, counted.live
    (8000, 0)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._seen: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, list | tuple) else (out,):
            if isinstance(one, Tensor):
                self._count(one.untyped_storage())
        return out

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return

        def gone(_: Any) -> None:
            self._seen.pop(key, None)
            self.live -= size

        self._seen[key] = weakref.ref(storage, gone)
        self.live += size
        self.peak = max(self.peak, self.live)


@dataclass(frozen=True)
class StepCost:
    """The bytes of a training step beside its batch, as a straight line in the size of its sample."""

    fixed: float
    """Gradients, and what else goes by the parameters."""
    per_unit: float
    """For every node, computed row and edge."""

    def __call__(self, sample: Sample) -> int:
        return int(self.fixed + self.per_unit * units(sample))


def units(sample: Sample) -> int:
    """The size of a sample: its nodes, the rows that are computed, and the edges."""
    return sample.num_nodes + sum(layer.num_targets + layer.num_edges for layer in sample.layers)


def step_cost(model: nn.Module, graph: Graph, sample: Sample, loss: Callable[[nn.Module, Batch], Tensor]) -> StepCost:
    """The cost of steps on samples such as ``sample``, from forward and backward passes of a copy of the model on two
    small batches with layers of the same proportions.

    >>> import handful as hf
    >>> from handful.training.loop import batch_loss
    >>> graph = hf.load("synthetic?nodes=1000&degree=4&features=8")
    >>> sample = next(hf.RandomNodes(parts=2).sample(graph, seed=0, epoch=0))
    >>> cost = step_cost(hf.SAGE(8, 10, hidden=16, layers=2), graph, sample, batch_loss)
    >>> cost(sample) > 4 * 2 * 16 * sample.num_nodes
    True
    """
    share = min(0.5, SMALL / max(1, sample.num_nodes))
    trial = copy.deepcopy(model)
    trials = [small_batch(graph, sample, factor * share) for factor in (1, 2)]
    peaks = []
    for batch in trials:
        with torch.random.fork_rng(devices=[]), LiveBytes() as counted:
            loss(trial, batch).backward()  # type: ignore[no-untyped-call]
            trial.zero_grad(set_to_none=True)
        peaks.append(counted.peak * MARGIN)
    less, more = (units(batch) for batch in trials)
    per_unit = max(0.0, (peaks[1] - peaks[0]) / max(1, more - less))
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    return StepCost(max(0.0, peaks[0] - per_unit * less) + 6 * parameters, per_unit)


def small_batch(graph: Graph, sample: Sample, share: float) -> Batch:
    """A batch with layers that are ``share`` as large as those of ``sample``, of zeros and with random edges."""
    assert graph.x is not None
    assert graph.y is not None

    def part(count: int) -> int:
        return max(2, round(share * count))

    layers, generator = [], torch.Generator().manual_seed(0)
    for layer in sample.layers:
        targets, sources, edges = part(layer.num_targets), part(layer.num_sources), part(layer.num_edges)
        layers.append(
            replace(
                layer,
                indptr=torch.arange(targets + 1) * edges // targets,
                indices=torch.randint(sources, (edges,), dtype=layer.indices.dtype, generator=generator),
                num_sources=sources,
                weight=None if layer.weight is None else torch.ones(edges),
                source_degree=None if layer.source_degree is None else torch.ones(sources),
            )
        )
    nodes = layers[0].num_sources
    judged = torch.arange(min(max(1, round(share * len(sample.targets))), layers[-1].num_targets))
    x = torch.zeros(nodes, graph.num_features, dtype=graph.x.dtype)
    y = torch.zeros(len(judged), *graph.y.shape[1:], dtype=graph.y.dtype)
    return Batch(torch.arange(nodes), tuple(layers), judged, x=x, y=y)
