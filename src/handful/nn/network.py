"""The base class of all models: the forward pass on a batch, inference in chunks of rows, and the list of layers.

A layer runs on the device of its parameters, so a model that does not fit on one device can use several devices.
Activations may be recomputed in the backward pass. Neither several devices nor recomputation changes the result:
dropout is a function of ``step_seed``, so a layer that runs again gives the same output.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import chain, pairwise
from typing import Annotated, Any, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from handful.adjacency import Adjacency, Hop
from handful.batch import Batch
from handful.errors import HandfulError
from handful.kernels.gather import rows_between
from handful.kernels.threads import even_ranges
from handful.settings import Range, check_value

T = TypeVar("T")
Width = Annotated[int, Range(1, 2**20)]
Depth = Annotated[int, Range(1, 1000)]
Heads = Annotated[int, Range(1, 1024)]
"""The allowed sizes of a model. For larger sizes, even listing the layers would take too long."""
Features = Annotated[int, Range(1, 2**31)]


class Network(nn.Module, ABC):
    """A model that takes a ``Batch``. The attribute ``step_seed`` determines all dropout; the training loop sets it
    before each step.

    Args:
        in_features: the number of input features.
        out_features: the number of logits.
        options: all other arguments, as for ``make_model``. The model keeps its options, so that a saved model can be
            made again.
    """

    takes_batch = True
    """Whether the training loop calls this module with a ``Batch``, instead of ``(x, edge_index)``."""
    sums_neighbors = True
    """Whether a layer uses other nodes only in weighted sums over edges, with arbitrary edge weights."""
    sees_all = False
    """Whether every layer depends on all nodes of a batch, so that all layers must share one subgraph."""
    checkpoint_activations = False
    """Whether training stores only the input of each layer, and runs the layer again in the backward pass."""

    units: tuple[list[float], list[float]] | None = None
    """For regression: the means and the standard deviations of the training labels, since the model predicts
    standardised labels.
    """

    def __init__(self, in_features: int, out_features: int, **options: Any) -> None:
        super().__init__()
        self.in_features = check_value("in_features", in_features, Features)
        two = out_features == 1 and options.get("two_logits")
        self.out_features = 2 if two else check_value("out_features", out_features, Features)
        self.options = self.check(options)
        self.step_seed = 0
        self.label_head: nn.Module | None = None  # see handful.training.label_features

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Convert ``options`` to the plain types that the model declares.

        Raises:
            HandfulError: the model does not accept a value.
        """
        known = declared_options(cls)
        return {
            name: check_value(name, value, known[name].annotation) if name in known else value
            for name, value in options.items()
        }

    @classmethod
    def hops(cls, options: Mapping[str, Any]) -> int:
        """The receptive field of a model with these options, in hops."""
        return int(options["layers"])

    @classmethod
    def first_hop(cls, options: Mapping[str, Any]) -> Hop | None:
        """The aggregation of the features in layer 0 of a model with these options; ``None`` if layer 0 transforms the
        features first, or if the aggregation is not linear."""
        return None

    @property
    def hop(self) -> Hop | None:
        """The aggregation in layer 0 of this model; see ``first_hop``."""
        return self.first_hop(self.options)

    @property
    def depth(self) -> int:
        """The receptive field of the output, in hops."""
        return self.hops(self.options)

    @property
    @abstractmethod
    def whole_layers(self) -> int:
        """How many of the first layers need all nodes of a batch, for example for the statistics of BatchNorm in
        training mode. If this number is 0, nodes more than ``depth`` hops from every target have no effect on the loss.
        """

    def too_small(self, batch: Batch) -> bool:
        """Whether ``batch`` is too small for a training step: BatchNorm needs the variance of at least two nodes."""
        return False

    @abstractmethod
    def blocks(self) -> list[list[nn.Module]]:
        """The modules of each layer. Layers are in the order in which they run, and every module belongs to a layer."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """The logits of the last layer's targets. If sources and targets are the same nodes, these are all nodes."""

    @abstractmethod
    def infer(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        """Compute ``forward`` on a whole graph in evaluation mode. The computation runs in chunks of rows, so that
        temporary arrays stay small.
        """

    @abstractmethod
    def embeddings(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        """The node embeddings in evaluation mode: the input of the layer that gives the logits. The computation runs in
        chunks, as in ``infer``.
        """

    def run_layer(self, i: int, layer: Callable[..., T], *args: Any) -> T:
        """Run ``layer(*args)`` on the device of layer ``i``. If activation checkpointing is on, the backward pass runs
        the layer again.
        """
        block = self.blocks()[i]
        device = device_of(block)
        args = tuple(moved(value, device) for value in args)
        if not (self.checkpoint_activations and torch.is_grad_enabled()):
            return layer(*args)
        seed = self.step_seed
        return checkpoint(  # type: ignore[no-any-return]
            layer,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=lambda: (nullcontext(), self.second_run(block, seed)),
        )

    @contextmanager
    def second_run(self, block: Sequence[nn.Module], seed: int) -> Iterator[None]:
        """A context in which a layer runs again: dropout uses ``seed``, and the running statistics, which already
        include this batch, do not change.
        """
        now = self.step_seed
        buffers = [(m, *named) for top in block for m in top.modules() for named in m.named_buffers(recurse=False)]
        self.step_seed = seed
        # Other tensors replace the buffers for this time: to autograd, a copy back into the same buffers is a change.
        for module, name, value in buffers:
            setattr(module, name, value.clone())
        try:
            yield
        finally:
            self.step_seed = now
            for module, name, value in buffers:
                setattr(module, name, value)


@cache
def declared_options(model: type[Network]) -> dict[str, inspect.Parameter]:
    """The options that a model and its base classes declare, with their types and defaults."""
    result: dict[str, inspect.Parameter] = {}
    for cls in model.__mro__:
        if issubclass(cls, Network) and "__init__" in vars(cls):
            hints = get_type_hints(cls.__init__, include_extras=True)
            for name, parameter in inspect.signature(cls.__init__).parameters.items():
                if parameter.default is not parameter.empty:
                    result.setdefault(name, parameter.replace(annotation=hints[name]))
    return result


def arguments(scope: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor by name, including those in ``options``. ``scope`` is ``locals()`` at the start of
    the constructor.
    """
    named = {name: value for name, value in scope.items() if name not in ("self", "__class__", "options")}
    return {**named, **scope.get("options", {})}


class Chunks:
    """Computes a layer in chunks of rows, and keeps the result in memory.

    Args:
        rows: the number of rows in a chunk.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def of_rows(self, count: int) -> list[int]:
        """The boundaries of the chunks, if there are ``count`` rows: the first row of each chunk, and the end of the
        last one.
        """
        return [*range(0, count, self.rows), count]

    def of_targets(self, adj: Adjacency) -> list[int]:
        """The boundaries of the chunks of ``adj``: the first target of each chunk, and the end of the last one."""
        return self.of_rows(adj.num_targets)

    def split(self, x: Tensor) -> Iterator[Tensor]:
        """The rows of ``x``, a chunk at a time."""
        yield from (rows_between(x, lo, hi) for lo, hi in pairwise(self.of_rows(len(x))))

    def collect(self, make: Callable[[int, int], Tensor], cuts: Sequence[int]) -> Tensor:
        """Call ``make(lo, hi)`` for each pair of successive boundaries in ``cuts``, and concatenate the resulting rows.

        Only the next call may use the result: a subclass that keeps results in files does not have earlier results
        after a resume.
        """
        out: Tensor | None = None
        for lo, hi in pairwise(cuts):
            rows = make(lo, hi)
            if len(cuts) == 2:
                return rows
            out = rows.new_empty(cuts[-1], *rows.shape[1:]) if out is None else out
            out[lo:hi] = rows
        return make(0, 0) if out is None else out

    def map_rows(self, function: Callable[..., Tensor], *of: Tensor) -> Tensor:
        """Compute ``function(*of)`` in chunks of rows; ``function`` must act on each row separately."""

        def make(lo: int, hi: int) -> Tensor:
            return function(*(rows_between(x, lo, hi) for x in of))

        return self.collect(make, self.of_rows(len(of[0])))

    def map_targets(self, function: Callable[[Adjacency], Tensor], adj: Adjacency) -> Tensor:
        """Compute ``function(adj)`` in chunks of targets; ``function`` must return one row per target."""
        return self.collect(lambda lo, hi: function(adj.rows(lo, hi)), self.of_targets(adj))


# -- devices ---------------------------------------------------------------------------------------------------------

_copies: WeakKeyDictionary[Adjacency, dict[torch.device, Adjacency]] = WeakKeyDictionary()
"""Copies of each adjacency on other devices. All layers on the same device share one copy and its caches."""


def usable_device(name: str | torch.device) -> torch.device:
    """The device ``name``; if this machine cannot use it, an error is raised."""
    try:
        device = torch.empty(0, device=name).device
        if device.type == "meta":
            raise RuntimeError("it holds no data")
        return device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise HandfulError(f"device '{name}' cannot be used here ({reason}): use cpu, or one that exists") from None


def arrange(model: nn.Module, devices: Sequence[torch.device], checkpoint_activations: bool = False) -> nn.Module:
    """Divide the model's layers into contiguous groups, one for each of ``devices``, and switch activation
    checkpointing on or off.
    """
    if not isinstance(model, Network):
        if len(devices) > 1 or checkpoint_activations:
            what = "several devices and activation checkpointing need a model of handful's own"
            raise HandfulError(f"{what}: the layers of a {type(model).__name__} cannot be seen")
        return model.to(devices[0])
    blocks = model.blocks()
    if len(devices) > len(blocks):
        raise HandfulError(f"{len(devices)} devices for {len(blocks)} layers: name at most as many devices as layers")
    for device, (lo, hi) in zip(devices, even_ranges(len(blocks), len(devices)), strict=True):
        for module in chain(*blocks[lo:hi]):
            module.to(device)
    model.checkpoint_activations = checkpoint_activations
    return model


def device_of(block: Sequence[nn.Module]) -> torch.device:
    """The device of the parameters of a layer."""
    return next(chain(*(module.parameters() for module in block))).device


def moved(value: Any, device: torch.device) -> Any:
    """Move a tensor or an adjacency to ``device``; any other value is returned unchanged."""
    if isinstance(value, Tensor):
        return value if value.is_meta else value.to(device)  # a meta tensor is no longer needed: see ``Chunks.collect``
    if isinstance(value, Adjacency) and value.device != device:
        copies = _copies.setdefault(value, {})
        if device not in copies:
            copies[device] = value.to(device)
        return copies[device]
    return value
