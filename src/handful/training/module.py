"""One way to call any model: handful's backbones on a ``Batch``, PyG's modules on ``(x, edge_index)``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handful.batch import Batch


def takes_batch(model: nn.Module) -> bool:
    """Whether ``model`` is called with a ``Batch``: handful's own, or any that sets ``takes_batch = True``."""
    return bool(getattr(model, "takes_batch", False))


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The model's output for the batch, a row for every target of its last layer at least, targets first."""
    if takes_batch(model):
        return model(batch)  # type: ignore[no-any-return]
    return model(batch.x.to(torch.float32), batch.layers[0].square().edge_index)  # type: ignore[no-any-return]


def seed_step(model: nn.Module, seed: int) -> None:
    """Make all that a step draws (dropout) a function of ``seed``."""
    torch.manual_seed(seed)
    if hasattr(model, "step_seed"):
        setattr(model, "step_seed", seed)  # noqa: B010  (mypy takes module attributes for tensors)


def in_units(model: nn.Module, outputs: Tensor) -> Tensor:
    """The outputs of a model in the unit of the labels: one that was trained on numbers knows their mean and spread."""
    units = getattr(model, "units", None)
    return outputs if units is None else outputs * units[1] + units[0]
