"""The memory that training needs: estimates for budgets, plans and devices; and measurements.

To estimate a step, a copy of the model runs on a small batch of the same shape. The measured peak covers only the
training, not what the process did before.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from handful.batch import Batch, Sample
from handful.budget import read_sizes
from handful.graph import MASKS, Graph
from handful.kernels.memory import release
from handful.kernels.sparse import bytes_of
from handful.samplers.base import Sampler

SMALL_NODES, SMALL_NUMBERS = 20_000, 1 << 22
"""The maximum numbers of nodes and of feature values in the batch of a trial step. The memory for such a batch is large
compared with the memory for the parameters.
"""
MARGIN = 4 / 3
"""The factor that accounts for memory that is not counted: ``handful.kernels.memory`` may keep an eighth more than the
peak, and kernels have temporary arrays.
"""
KEPT_BY_EVALUATION = 3
"""The number of arrays ``(N, width)`` that exact evaluation holds: the input of a layer, its output, and temporary
arrays.
"""
_CLEAR = Path("/proc/self/clear_refs")
DEALT = 64
"""The bytes per node that the parts of an epoch need on a device, without edges."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all live tensors that are created in this context, and the maximum of this count.

    Args:
        made: existing tensors, which are not counted.

    >>> with LiveBytes() as counted:
    ...     first = torch.ones(1000)
    ...     second = first + 1
    ...     del first, second
    >>> counted.peak, counted.live
    (8000, 0)
    """

    def __init__(self, made: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        storages = [tensor.untyped_storage() for tensor in made if tensor.layout is torch.strided]
        self._seen: dict[int, Any] = {storage._cdata: storage for storage in storages}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, list | tuple) else (out,):
            if isinstance(one, Tensor) and one.layout == torch.strided:  # a sparse tensor consists of strided tensors
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
    """The memory of a training step and its batch in bytes, as a linear function of the size of the sample."""

    fixed: float
    """Bytes that do not depend on the sample, such as the state of the optimiser."""
    per_unit: float
    """Bytes of a step per unit of the sample's size; see ``units``."""
    per_node: int
    """Bytes per node of the batch: features, label and ids."""
    per_edge: int
    """Bytes per edge of the batch. If edges are weighted, the weight and the edge's index in the transpose are
    included.
    """

    def __call__(self, sample: Sample, scale: float = 1.0) -> int:
        """The memory, in bytes, of a step on a sample that is ``scale`` times as large as ``sample``."""
        return int(self.fixed + scale * (self.per_unit * units(sample) + self.batch(sample)))

    def batch(self, sample: Sample) -> int:
        """The memory, in bytes, of the batch made from ``sample``, including the transposes of its layers for the
        backward pass.
        """
        longest = max(layer.num_edges for layer in sample.layers)
        turned = (24 * one.num_sources + self.per_edge * one.num_edges for one in sample.layers if not one.symmetric)
        return sample.num_nodes * self.per_node + self.per_edge * longest + sum(turned)


def units(sample: Sample) -> int:
    """The size of a sample: the number of its nodes, plus the rows and the edges of all its layers."""
    return sample.num_nodes + sum(layer.num_targets + layer.num_edges for layer in sample.layers)


Loss = Callable[[nn.Module, Batch], Tensor]


def step_cost(
    model: nn.Module, graph: Graph, sample: Sample, loss: Loss, scale: float = 1.0, width: int | None = None
) -> StepCost:
    """Measure the memory of steps on samples such as ``sample``. A copy of the model runs forward and backward on a
    trial batch whose layers have the same proportions. The batch is ``scale`` times as large as the sample, but not
    larger than the maximum size of a trial. The features of the batch have ``width`` columns. By default, this is the
    number of the graph's features.

    >>> import handful as hf
    >>> from handful.training.loop import batch_loss
    >>> graph = hf.load("synthetic?nodes=1000&degree=4&features=8")
    >>> sample = next(hf.RandomNodes(parts=2).sample(graph, seed=0, epoch=0))
    >>> cost = step_cost(hf.SAGE(8, 10, hidden=16, layers=2), graph, sample, batch_loss)
    >>> cost(sample) > 4 * 2 * 16 * sample.num_nodes
    True
    """
    most = min(SMALL_NODES, SMALL_NUMBERS // max(1, graph.num_features))
    batch = small_batch(graph, sample, min(scale, most / max(1, sample.num_nodes)), width)
    trial = copy.deepcopy(model).to(batch.x.device)
    with torch.random.fork_rng(devices=[]), LiveBytes(tensors(batch)) as counted:
        loss(trial, batch).backward()  # type: ignore[no-untyped-call]
    parameters = sum(p.nbytes for p in model.parameters())
    return replace(batch_cost(graph), fixed=6 * parameters, per_unit=MARGIN * counted.peak / units(batch))


def batch_cost(graph: Graph) -> StepCost:
    """The memory of a batch alone, without a training step."""
    assert graph.x is not None
    return StepCost(0, 0, row_bytes(graph.x) + 32, 4 if graph.edge_weight is None else 20)


def needed_bytes(graph: Graph, model: nn.Module, sampler: Sampler, loss: Loss, width: int | None = None) -> int:
    """Estimate the memory of training, in bytes, on a device that also holds the graph.

        memory = graph + the parts of one epoch + max(one training step, one evaluation)

    The estimate uses the first batch with training nodes. An evaluation holds ``KEPT_BY_EVALUATION`` arrays with a row
    for each node. The features of a batch have ``width`` columns. By default, this is the number of the graph's
    features.

    >>> import handful as hf
    >>> from handful.training.loop import batch_loss
    >>> graph = hf.load("synthetic?nodes=1000&degree=4&features=8")
    >>> model = hf.SAGE(8, graph.num_outputs, hidden=64, layers=3)
    >>> one, eight = (needed_bytes(graph, model, hf.RandomNodes(m), batch_loss) for m in (1, 8))
    >>> one > 2 * eight
    True
    """
    sample = next((one for one in sampler.sample(graph, seed=0, epoch=0) if len(one.targets)), None)
    step = 0 if sample is None else step_cost(model, graph, sample, loss, width=width)(sample)
    if sample is not None and graph.x is not None and width is not None:
        step += sample.num_nodes * row_bytes(graph.x) * (width - graph.num_features) // max(1, graph.num_features)
    width = max((p.shape[0] for p in model.parameters() if p.ndim == 2), default=0)
    evaluation = 4 * KEPT_BY_EVALUATION * graph.num_nodes * width
    dealt = DEALT * graph.num_nodes + int(sampler.share(graph) * graph.indices.nbytes)
    return graph_bytes(graph) + dealt + max(step, evaluation)


def row_bytes(x: Tensor) -> int:
    """The mean size of a row of features, in bytes; the features may be sparse."""
    return -(-bytes_of(x) // max(1, len(x)))


def graph_bytes(graph: Graph) -> int:
    """The total size of a graph's arrays, in bytes."""
    arrays = (getattr(graph, name) for name in ("indptr", "indices", "edge_weight", "x", "y", *MASKS))
    return sum(bytes_of(array) for array in arrays if array is not None)


def tensors(batch: Batch) -> list[Tensor]:
    """All tensors of a batch."""
    result: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        result.append(tensor)
        return tensor

    batch.map(note)
    return result


def small_batch(graph: Graph, sample: Sample, share: float, width: int | None = None) -> Batch:
    """A batch of zeros with random edges. The layers are ``share`` times as large as those of ``sample``.

    The features have ``width`` columns. By default, this is the number of the graph's features.
    """
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
    x = torch.zeros(nodes, width or graph.num_features, dtype=graph.x.dtype, layout=graph.x.layout)
    y = torch.zeros(len(judged), *graph.y.shape[1:], dtype=graph.y.dtype)
    return Batch(torch.arange(nodes), tuple(layers), judged, x=x, y=y)


# -- measured ---------------------------------------------------------------------------------------------------------


def reset_peak_memory(device: torch.device) -> None:
    """Reset the measured peaks of main memory and of ``device``. On systems other than Linux, the peak of main memory
    cannot be reset: it covers the whole life of the process.
    """
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def resting_ram() -> int:
    """Release unused memory, reset the peak, and return the resident memory in bytes."""
    gc.collect()
    release()
    reset_peak_memory(torch.device("cpu"))
    return peak_ram()


def peak_ram() -> int:
    """The peak resident memory since the last reset, in bytes."""
    if peak := read_sizes().get("VmHWM"):
        return peak
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def free_gpu(device: torch.device) -> int | None:
    """The number of bytes that torch can still allocate on this device; ``None`` if the device is not a GPU."""
    if device.type != "cuda":
        return None
    held, used = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + held - used


def peak_gpu(device: torch.device) -> int | None:
    """The peak of the memory that torch allocated on this device since the last reset, in bytes; ``None`` if the device
    is not a GPU.
    """
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None
