"""Hooks into the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handful.batch import Batch

if TYPE_CHECKING:
    from handful.training.fit import Loop


class Callback:
    """Override what you need. ``loop`` has the model, graph, sampler, optimiser, settings and counters."""

    def on_start(self, loop: Loop) -> None:
        """Before the first epoch; after a resume, before the first epoch that is still to do."""

    def on_gradient(self, loop: Loop, batch: Batch, loss: float) -> None:
        """After the backward pass on a batch: the gradients are in ``parameter.grad``."""

    def on_step(self, loop: Loop) -> None:
        """After the optimiser moved the weights."""

    def on_epoch(self, loop: Loop) -> None:
        """After the last step of an epoch."""

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        """After an evaluation; ``line`` is what ``metrics.jsonl`` gets."""

    def on_end(self, loop: Loop) -> None:
        """After the last epoch, before the best weights are loaded."""
