"""Hooks into the training loop."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from handful import ranks
from handful.batch import Batch, batch_checksum
from handful.notebook import Bar

if TYPE_CHECKING:
    from handful.training.loop import Loop


class Callback:
    """The base class of callbacks: override the hooks that you need. ``loop`` gives access to the model, graph,
    sampler, optimiser, settings and counters.

    Any hook may call ``loop.stop()``: the run then ends after its current epoch.

    >>> class Short(Callback):
    ...     def on_epoch(self, loop):
    ...         if loop.epoch == 2:
    ...             loop.stop()
    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=100&degree=4")
    >>> model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2)
    >>> hf.fit(model, graph, hf.RandomNodes(2), epochs=50, callbacks=[Short()]).epochs
    2
    """

    def on_start(self, loop: Loop) -> None:
        """Called before the first epoch of this process, also after a resume."""

    def on_progress(self, loop: Loop, what: str, share: float) -> None:
        """Called during epochs and evaluations with a memory budget: ``what`` is the current phase, and ``share`` is
        the fraction of it that is done.
        """

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """Called after the backward pass on a batch. Gradients are in ``parameter.grad``, and ``seed`` is the seed of
        the dropout.
        """

    def on_step(self, loop: Loop) -> None:
        """Called after each step of the optimiser."""

    def on_epoch(self, loop: Loop) -> None:
        """Called after the last step of an epoch; ``loop.epoch`` already counts this epoch."""

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        """Called after an evaluation; ``line`` is written to ``metrics.jsonl``."""

    def on_end(self, loop: Loop) -> None:
        """Called after the last epoch, before the best weights are loaded."""


class Checksums(Callback):
    """Computes a checksum of all batches that made a step. ``found`` contains one checksum per seed. The checksum does
    not depend on the number of ranks, shards and threads.

    After a resume, the checksum covers only the new epochs. If there are several ranks, all of them need this callback.

    >>> import handful as hf
    >>> graph, checksums = hf.load("synthetic?nodes=100&degree=4"), Checksums()
    >>> model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2)
    >>> run = hf.fit(model, graph, hf.RandomNodes(2), epochs=1, seed=3, callbacks=[checksums])
    >>> list(checksums.found)
    [3]
    """

    def __init__(self) -> None:
        self.found: dict[int, str] = {}

    def on_start(self, loop: Loop) -> None:
        """Begin."""
        self.epoch, self.found[loop.seed] = 0, ""

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """Add the checksum of a batch. The checksum includes ``seed``, which is unique within the epoch."""
        self.epoch += zlib.crc32(f"{seed} {batch_checksum(batch)}".encode())

    def on_epoch(self, loop: Loop) -> None:
        """Sum the checksums of the epoch over all ranks. The sums are below 2⁵³, so the addition is exact in any
        order.
        """
        (total,) = ranks.add_up(self.epoch)
        self.epoch = 0
        self.found[loop.seed] = f"{zlib.crc32(f'{self.found[loop.seed]} {int(total)}'.encode()):08x}"


class Progress(Callback):
    """The progress bar of ``fit(progress=True)``: it shows the epoch, the loss and the best metric."""

    def on_start(self, loop: Loop) -> None:
        """Begin."""
        self.bar = Bar(loop.settings.epochs, "epochs")
        self.said = f"seed {loop.seed}"
        self.bar.show(loop.epoch, self.said)

    def on_epoch(self, loop: Loop) -> None:
        """Count the epoch."""
        self.bar.show(loop.epoch, self.said)

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        """Show the loss and the best metric."""
        best = f"{loop.metric.label('best val')} {loop.metric.text(loop.best_val)} at {loop.best_epoch}"
        self.said = f"loss {loop.loss:.3f} · {best}"
        self.bar.show(loop.epoch, self.said)

    def on_end(self, loop: Loop) -> None:
        """Finish the progress bar."""
        self.bar.end()
