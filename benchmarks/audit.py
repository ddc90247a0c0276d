"""What a training step on a GPU allocates, found without one: ``python -m benchmarks.audit``.

The step is run on tensors of torch's ``meta`` device, which have shapes and no numbers, with Triton's launches left
out: all that the host does on the way is done, and every tensor that it would allocate is seen. What would make the
host wait for the device (``item``, ``nonzero``, ``tolist``, …) needs numbers, so it fails here.

Sampling and trimming cannot do without numbers: where the CPU stands for the device, ``counted_waits`` counts how often
they would make the host wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary, finalize

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from handful import make_model
from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.kernels.dispatch import Backend, use
from handful.training.loop import batch_loss
from handful.vocabulary import MODELS

HIDDEN, LAYERS = 256, 5
PARTS = (1, 10)
"""What ``main`` prints: the networks, and into how many parts the graph is cut."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a batch: what memory depends on.

    >>> Shape(nodes=10, edges=40, features=8, classes=3, targets=2).of_parts(2)
    Shape(nodes=5, edges=10, features=8, classes=3, targets=1)
    """

    nodes: int
    edges: int
    features: int
    classes: int
    targets: int

    def of_parts(self, parts: int) -> Shape:
        """The mean part of Random Node Sampling: 1/m of the nodes, 1/m² of the edges."""
        nodes, edges, targets = self.nodes // parts, self.edges // parts**2, self.targets // parts
        return Shape(nodes, edges, self.features, self.classes, targets)


PRODUCTS = Shape(nodes=2_449_029, edges=123_718_280, features=100, classes=47, targets=196_615)
"""ogbn-products."""


@dataclass
class Audit:
    """What was allocated during a step, beyond what was there before it.

    Args:
        peak: the most bytes that were live at once.
        tensors: the largest number of elements of a tensor, by type.
    """

    peak: int = 0
    tensors: dict[torch.dtype, int] = field(default_factory=dict)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all storages that are made while it is on, until they are freed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.audit = Audit()
        self.live = 0
        self.known: WeakKeyDictionary[Any, None] = WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {t.untyped_storage() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage()) not in before:
                self._count(tensor, storage)
        return out

    def _count(self, tensor: Tensor, storage: Any) -> None:
        if storage in self.known:
            return
        self.known[storage] = None
        size = storage.nbytes()
        self.live += size
        finalize(storage, self._freed, size)
        audit = self.audit
        audit.peak = max(audit.peak, self.live)
        elements = size // tensor.element_size()
        audit.tensors[tensor.dtype] = max(audit.tensors.get(tensor.dtype, 0), elements)

    def _freed(self, size: int) -> None:
        self.live -= size


@contextmanager
def without_launches() -> Iterator[None]:
    """Inside, Triton's kernels are prepared and not run."""
    from triton.runtime import JITFunction

    with patch.object(JITFunction, "run", lambda *args, **options: None):
        yield


WAITING = frozenset({"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "equal", "is_nonzero"})
"""Operations for which the host waits on a GPU, since it must know a number or the size of the result."""


class _Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations for which the host would wait."""

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        masked = name.startswith("index") and any(
            isinstance(t, Tensor) and t.dtype == torch.bool for t in tree_leaves(args[1])
        )
        unsized = name == "repeat_interleave" and (kwargs or {}).get("output_size") is None
        if name in WAITING or masked or unsized:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def counted_waits() -> Iterator[Counter[str]]:
    """How often the host would wait for the device, by operation, if the tensors that are used inside were on a GPU.

    >>> with counted_waits() as waits:
    ...     _ = torch.arange(3)[torch.arange(3) > 0].tolist()
    >>> waits
    Counter({'index': 1, 'tolist': 1})
    """
    counts: Counter[str] = Counter()

    def noting(name: str) -> Any:
        original = getattr(Tensor, name)

        def noted(tensor: Tensor, *args: Any, **options: Any) -> Any:
            counts[name] += 1
            return original(tensor, *args, **options)

        return patch.object(Tensor, name, noted)

    with noting("tolist"), noting("cpu"), _Waits(counts):
        yield counts


def audit_step(model: nn.Module, shape: Shape, way: Backend = "triton", directed: bool = False) -> Audit:
    """What a forward and backward pass of ``model`` on a batch of this ``shape`` allocates.

    Args:
        model: of ``shape.features`` inputs and ``shape.classes`` outputs; it is moved to ``meta``.
        shape: of the batch.
        way: ``triton``, or ``torch`` for devices that have no Triton.
        directed: whether the backward pass needs the reversed edges; the edges then have weights and loops too.
    """
    batch = meta_batch(shape, directed)
    model = model.to("meta").train()
    watch = _Watch()
    with use(way), without_launches(), watch:
        batch_loss(model, batch).backward()  # type: ignore[no-untyped-call]
    return watch.audit


def meta_batch(shape: Shape, directed: bool = False) -> Batch:
    """A batch of this shape without numbers."""

    def made(*size: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.empty(*size, dtype=dtype, device="meta")

    edges = made(shape.edges, dtype=torch.int32)
    weight = made(shape.edges, dtype=torch.float32) if directed else None
    adjacency = Adjacency(made(shape.nodes + 1), edges, shape.nodes, weight, not directed, has_loops=directed)
    x = made(shape.nodes, shape.features, dtype=torch.float32)
    return Batch(made(shape.nodes), (adjacency,), made(shape.targets), x=x, y=made(shape.targets))


def main() -> None:
    print(f"GiB at the peak of a step, {LAYERS}×{HIDDEN}, ogbn-products' shape")
    print("| model | norm |", " | ".join("full graph" if m == 1 else f"a part of m = {m}" for m in PARTS), "|")
    print("| --- | --- |" + " ---: |" * len(PARTS))
    for name in ("sage", "gcn", "gat"):
        for norm in ("ln", "bn"):
            peaks = []
            for m in PARTS:
                shape = PRODUCTS.of_parts(m)
                model = make_model(name, shape.features, shape.classes, hidden=HIDDEN, layers=LAYERS, norm=norm)
                peaks.append(f"{audit_step(model, shape).peak / 2**30:.2f}")
            print(f"| {MODELS[name]} | {norm} |", " | ".join(peaks), "|")


if __name__ == "__main__":
    main()
