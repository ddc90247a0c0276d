"""Second derivatives: with ``create_graph=True`` a kernel's backward pass is computed by its twin in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def twin_gradients(twin: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> list[Tensor | None]:
    """The gradients of ``twin(*inputs)``, themselves differentiable; ``None`` for inputs that need none."""
    found = iter(torch.autograd.grad(twin(*inputs), [t for t in inputs if t.requires_grad], grad, create_graph=True))
    return [next(found) if t.requires_grad else None for t in inputs]
