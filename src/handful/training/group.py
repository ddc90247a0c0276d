"""Combine the batches of one step over all ranks: the gradients are averaged, and the running statistics of BatchNorm
are merged.

BatchNorm normalises every batch with the batch's own statistics s. The *running* statistics r of BatchNorm are updated
in the order of the batches, r ← (1 − μ)·r + μ·s, as in one process. If there are several ranks, each rank sets r = 0
before a batch, so that r = μ·s after it. At the end of a step, every rank applies the contributions of all ranks in the
order of the batches. So gradients and statistics do not depend on the number of ranks, up to rounding.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from handful import ranks
from handful.errors import HandfulError


class Group:
    """Accumulates the gradients and the BatchNorm statistics over the batches of a step. There is one ``Group`` per
    epoch; at the end, ``close`` writes the running statistics back to the model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.count = 0
        self.statistics = None if ranks.size() == 1 else Statistics(model)

    def add(self, place: int) -> None:
        """Record a batch after its backward pass; ``place`` is its index within the step."""
        self.count += 1
        if self.statistics is not None:
            self.statistics.found[place] = self.statistics.take()

    def mean(self, places: int) -> int:
        """Replace the gradients by their mean over the batches of the step, and return the number of batches that were
        not skipped.

        Args:
            places: the number of batches in the step, including skipped batches.
        """
        count, self.count = self.count, 0
        if self.statistics is not None:
            count = self._sum_over_ranks(self.statistics, count, places)
        if count > 1:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad /= count
        return count

    def close(self) -> None:
        """End the epoch: write the running statistics back to the model."""
        if self.statistics is not None:
            self.statistics.close()

    def _sum_over_ranks(self, statistics: Statistics, count: int, places: int) -> int:
        has = torch.tensor([count, *(p.grad is not None for p in self.parameters)], dtype=torch.float64)
        learnt = statistics.collect(places)
        sums = ranks.total(torch.cat([has, learnt.view(-1)]))
        count, *reached = sums[: len(has)].int().tolist()
        if count == 0:
            return 0
        statistics.learn(sums[len(has) :].view_as(learnt))
        by_kind: dict[Any, list[nn.Parameter]] = defaultdict(list)
        for parameter, times in zip(self.parameters, reached, strict=True):
            if times:  # a parameter without a gradient stays without one: a zero gradient would let it decay
                by_kind[parameter.device, parameter.dtype].append(parameter)
        for alike in by_kind.values():
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in alike])
            pieces = torch.split(ranks.total(flat), [p.numel() for p in alike])
            for parameter, summed in zip(alike, pieces, strict=True):
                parameter.grad = summed.view_as(parameter)
        return count


class Statistics:
    """The running statistics of a model's BatchNorm layers, if several ranks train the model."""

    def __init__(self, model: nn.Module) -> None:
        self.norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        if any(norm.momentum is None for norm in self.norms):
            raise HandfulError("a BatchNorm without momentum cannot be trained by several ranks: give it a momentum")
        tracked = [n.num_batches_tracked for n in self.norms if n.num_batches_tracked is not None]
        self.tracked = [(count, int(count)) for count in tracked]
        self.buffers = [b for norm in self.norms for b in (norm.running_mean, norm.running_var) if b is not None]
        own = {id(b) for b in (*self.buffers, *tracked)}
        self.others = {n: (b, b.clone()) for n, b in model.named_buffers() if id(b) not in own}
        momenta = [[float(norm.momentum or 0.0)] * 2 * norm.num_features for norm in self.norms]
        self.momentum = torch.tensor([0.0, *chain(*momenta)], dtype=torch.float64)
        self.found: dict[int, Tensor] = {}  # the contribution of each batch of this rank, by its index in the step
        self.kept = self.take()

    def take(self) -> Tensor:
        """Set the running statistics to 0, and return their previous values, float64 ``(1 + width,)``. The first entry
        is 1; it counts the batch.
        """
        values = (b.detach().to("cpu", torch.float64).view(-1) for b in self.buffers)
        result = torch.cat([torch.ones(1, dtype=torch.float64), *values])
        for buffer in self.buffers:
            buffer.zero_()
        return result

    def collect(self, places: int) -> Tensor:
        """The contributions of all batches of this rank, ``(places, 1 + width)``. Each row is a 1 followed by the
        contribution; rows of other ranks' batches are 0.
        """
        nothing = torch.zeros_like(self.kept)
        return torch.stack([self.found.pop(place, nothing) for place in range(places)])

    def learn(self, learnt: Tensor) -> None:
        """Update the running statistics with the contributions of all ranks, in the order of the batches."""
        for row in learnt[learnt[:, 0] > 0]:
            self.kept = (1 - self.momentum) * self.kept + row

    def close(self) -> None:
        """Write the running statistics back to the model.

        Raises:
            HandfulError: another buffer of the model has changed in training, which is not supported for several ranks.
        """
        batches, *kept = torch.split(self.kept, [1, *(b.numel() for b in self.buffers)])
        for buffer, values in zip(self.buffers, kept, strict=True):
            buffer.copy_(values.view_as(buffer))
        for count, then in self.tracked:
            count.fill_(then + int(batches) - 1)
        if odd := [name for name, (buffer, before) in self.others.items() if not torch.equal(buffer, before)]:
            raise HandfulError(f"the model changes its buffer {odd[0]} in training, which ranks cannot share: use one")
