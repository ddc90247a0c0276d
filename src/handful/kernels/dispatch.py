"""The choice of a kernel's implementation by device.

| device | kernels | file |
|---|---|---|
| ``cpu`` | numba | ``NAME_numba.py`` |
| ``cuda`` (also the name on ROCm), if Triton is installed | Triton | ``NAME_triton.py`` |
| any other: ``mps``, ``xpu``, … | plain torch | ``NAME.py`` itself |

``NAME.py`` contains the public functions, their derivatives, and an implementation in plain torch, which is also used
for second derivatives. The two kernel files have the same functions. Tests compare all three implementations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

Backend = Literal["numba", "triton", "torch"]
Saved = tuple[Tensor | None, ...]
"""The tensors that the forward pass of an operation saves for its backward pass."""
_forced: Backend | None = None


def backend(device: torch.device) -> Backend:
    """The implementation for ``device``."""
    if _forced is not None:
        return _forced
    if device.type == "cpu":
        return "numba"
    return "triton" if device.type == "cuda" and has_triton() else "torch"


def loops(name: str, device: torch.device) -> Any:
    """The module with the kernels of ``name`` for tensors on ``device``; ``None`` for plain torch."""
    return _loops(name, backend(device))


@cache
def _loops(name: str, which: Backend) -> Any:
    if which == "torch":
        return None
    module = import_module(f"handful.kernels.{name}_{which}")
    return OnTheirDevice(module) if which == "triton" else module


class OnTheirDevice:
    """A wrapper of a module of Triton kernels. Each function makes the device of its first tensor the current device,
    since Triton launches kernels on the current device.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def run(*args: Any, **options: Any) -> Any:
            first = next(arg for arg in args if isinstance(arg, Tensor))
            with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
                return function(*args, **options)

        return run


@cache
def has_triton() -> bool:
    """Whether Triton is installed. GPU builds of torch include Triton."""
    return find_spec("triton") is not None


@contextmanager
def use(which: Backend) -> Iterator[None]:
    """A context, for tests, in which all kernels use the implementation ``which`` on any device.

    Triton runs on the CPU only in its interpreter: ``TRITON_INTERPRET=1`` must be set before its kernels are imported.
    """
    global _forced
    before, _forced = _forced, which
    try:
        yield
    finally:
        _forced = before


class Fused(ABC):
    """An operation that has its own kernels, and an equivalent in plain torch (``twin``) for second derivatives.

    Arguments that are not tensors are attributes of the operation. An input may be ``None``.
    """

    kernel: ClassVar[str | None] = None
    """The name of the kernel files, if there are any. On a device without kernels, ``twin`` is used."""
    differentiated: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        cls.differentiated = type(cls.__name__, (_Apply,), {})  # a profiler shows this name

    @abstractmethod
    def twin(self, *inputs: Any) -> Tensor:
        """The operation in plain torch."""

    @abstractmethod
    def forward(self, *inputs: Any) -> tuple[Tensor, Saved]:
        """The output, and the tensors that the backward pass needs. The saved tensors begin with the inputs, or with
        values for which ``twin`` has the same gradients.
        """

    @abstractmethod
    def backward(self, grad: Tensor, saved: tuple[Any, ...], needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs, from the tensors that ``forward`` has saved. Gradients that are not ``needed``
        may be ``None``."""

    def __call__(self, x: Tensor, *others: Tensor | None) -> Tensor:
        """The output, which is twice differentiable in the inputs."""
        if self.kernel is not None and loops(self.kernel, x.device) is None:
            return self.twin(x, *others)
        return self.differentiated.apply(self, x, *others)  # type: ignore[no-any-return]


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Fused, *inputs: Tensor | None) -> Tensor:
        ctx.op = op
        out, saved = op.forward(*inputs)
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        op, saved, needed = ctx.op, ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # create_graph=True
            return None, *twin_gradients(op.twin, saved[: len(needed)], grads[0])
        return None, *op.backward(grads[0].contiguous(), saved, needed)


def twin_gradients(twin: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor) -> list[Tensor | None]:
    """The differentiable gradients of ``twin(*inputs)``; ``None`` for inputs that need no gradient."""
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    result = iter(torch.autograd.grad(twin(*inputs), wanted, grad, create_graph=True))
    return [next(result) if t is not None and t.requires_grad else None for t in inputs]
