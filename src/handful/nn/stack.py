"""A network whose layers are stacked on ``Batch.layers``, one an adjacency."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from handful.adjacency import Adjacency
from handful.batch import Batch
from handful.nn.network import Chunks, Network, map_rows, map_targets
from handful.nn.parallel import device_of, moved, run_layer


class Stack(Network):
    """embed → layer 0 → layer 1 → … → head."""

    @property
    def depth(self) -> int:
        return len(self.blocks())

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """The features as the first layer takes them."""

    @abstractmethod
    def layer(self, i: int, adj: Adjacency, h: Tensor) -> Tensor:
        """Layer ``i``, from a row for every source of ``adj`` to a row for every target."""

    @abstractmethod
    def head(self, h: Tensor) -> Tensor:
        """The logits from the last layer's output."""

    def forward(self, batch: Batch) -> Tensor:
        stack = batch.stack(self.depth)
        h = run_layer(self, 0, self.embed, batch.x[: stack[0].num_sources])
        lean = self.first_two(stack, h) if self.lean and torch.is_grad_enabled() else None
        h, done = (h, 0) if lean is None else (lean, 2)
        for i, adj in enumerate(stack[done:], done):
            h = run_layer(self, i, self.layer, i, adj, h)
        return run_layer(self, -1, self.head, h).to(batch.x.device)

    def infer(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        return map_rows(self.head, self._through(self.depth, x, adj, chunks), chunks).to(x.device)

    def embeddings(self, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        return self._through(self.depth - self.last_gives_logits, x, adj, chunks).to(x.device)

    def first_two(self, stack: Sequence[Adjacency], h: Tensor) -> Tensor | None:
        """What comes out of layer 1, without ever holding all rows that come out of layer 0, which has by far the most;
        ``None`` where that cannot be done. Gradients agree with those of ``layer`` to rounding."""
        return None

    @property
    def last_gives_logits(self) -> bool:
        """Whether it is the last layer, and not the head, that gives the logits."""
        return False

    @property
    def embeds(self) -> bool:
        """Whether ``embed`` does more in evaluation mode than to give the features the type of the parameters."""
        return True

    def _through(self, layers: int, x: Tensor, adj: Adjacency, chunks: Chunks) -> Tensor:
        """What comes out of the first ``layers`` layers, by chunks."""
        h = x
        if adj.in_memory or self.embeds:  # products of blocks give rows that type themselves
            h = map_rows(partial(run_layer, self, 0, self.embed), x, chunks)
        for i, block in enumerate(self.blocks()[:layers]):
            adj, h = (moved(value, device_of(block)) for value in (adj, h))
            h = self.infer_layer(i, adj, h, chunks)
        return h

    def infer_layer(self, i: int, adj: Adjacency, h: Tensor, chunks: Chunks) -> Tensor:
        """``layer``, by chunks of targets. Override where a chunk would repeat what can be done once for all."""
        return map_targets(partial(self.layer, i, h=h), adj, chunks)
