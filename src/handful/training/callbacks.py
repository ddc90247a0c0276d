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
    """Override the hooks that you need. ``loop`` has the model, graph, sampler, optimiser, settings and counters.

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
        """Before the first epoch of this process, also after a resume."""

    def on_progress(self, loop: Loop, what: str, share: float) -> None:
        """During long epochs with a memory budget: ``what`` is the current work, ``share`` is its finished fraction."""

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """After the backward pass on a batch: gradients are in ``parameter.grad``; ``seed`` is the seed of the
        dropout."""

    def on_step(self, loop: Loop) -> None:
        """After a step of the optimiser."""

    def on_epoch(self, loop: Loop) -> None:
        """After the last step of an epoch; ``loop.epoch`` already counts this epoch."""

    def on_evaluation(self, loop: Loop, line: dict[str, Any]) -> None:
        """After an evaluation; ``line`` goes to ``metrics.jsonl``."""

    def on_end(self, loop: Loop) -> None:
        """After the last epoch, before the best weights are loaded."""


class Checksums(Callback):
    """One checksum per seed, in ``found``, of all batches that made a step. The checksum does not depend on the number
    of ranks, shards and threads.

    After a resume, the checksum covers only the new epochs. All ranks need this callback.

    >>> import handful as hf
    >>> graph, checksums = hf.load("synthetic?nodes=100&degree=4"), Checksums()
    >>> model = hf.SAGE(graph.num_features, graph.num_outputs, hidden=8, layers=2)
    >>> run = hf.fit(model, graph, hf.RandomNodes(2), epochs=1, seed=3, callbacks=[checksums])
    >>> list(checksums.found)
    [3]
    """

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self.epoch = 0

    def on_start(self, loop: Loop) -> None:
        """Begin."""
        self.epoch, self.found[loop.seed] = 0, ""

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        """Add the checksum of a batch; its seed is unique in the epoch."""
        self.epoch += zlib.crc32(f"{seed} {batch_checksum(batch)}".encode())

    def on_epoch(self, loop: Loop) -> None:
        """Add the sums of all ranks. The sums are below 2⁵³, so the addition is exact in any order."""
        (total,) = ranks.add_up(self.epoch)
        self.epoch = 0
        self.found[loop.seed] = f"{zlib.crc32(f'{self.found[loop.seed]} {int(total)}'.encode()):08x}"


class Progress(Callback):
    """A progress bar over the epochs with the loss and the best metric, for ``fit(progress=True)``."""

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
        """End the line of the bar."""
        self.bar.end()
