"""Combine the batches of one step on all ranks: the mean of the gradients, and the running statistics of BatchNorm.

BatchNorm normalises every batch by the statistics s of the batch. Its *running* statistics r are updated in the order
of the batches, r ← (1 − μ)·r + μ·s, as in one process. With several ranks, each rank sets r = 0 before a batch, so that
r = μ·s after the batch. At the end of a step, every rank adds the contributions of all ranks. So gradients and
statistics do not depend on the number of ranks, up to rounding.
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
    """The sums of gradients and statistics over the batches of a step. Each epoch makes one ``Group``; ``close``
    restores the statistics of BatchNorm.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.count = 0
        self.alone = ranks.size() == 1
        if not self.alone:
            self.statistics = Statistics(model)

    def add(self, place: int) -> None:
        """Record the batch with index ``place`` in the step, after its backward pass."""
        self.count += 1
        if not self.alone:
            self.statistics.take(place)

    def mean(self, places: int) -> int:
        """Replace gradients by their mean over the batches of the step. Returns the number of batches.

        Args:
            places: the number of batches in the step, including skipped batches.
        """
        count, self.count = self.count, 0
        if not self.alone:
            count = self._sum_over_ranks(count, places)
        if count > 1:
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad /= count
        return count

    def close(self) -> None:
        """End the epoch."""
        if not self.alone:
            self.statistics.close()

    def _sum_over_ranks(self, count: int, places: int) -> int:
        has = torch.tensor([count, *(p.grad is not None for p in self.parameters)], dtype=torch.float64)
        learnt = self.statistics.collect(places)
        sums = ranks.total(torch.cat([has, learnt.view(-1)]))
        count, *reached = sums[: len(has)].int().tolist()
        if count == 0:
            return 0
        self.statistics.learn(sums[len(has) :].view_as(learnt))
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
    """The running statistics of a model's BatchNorms while several ranks train it."""

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
        self.found: dict[int, Tensor] = {}
        self.kept = self._take_out()

    def _take_out(self) -> Tensor:
        """Reset the statistics to 0, and return float64 ``(1 + width,)``: a 1, which counts the batch, and the
        statistics.
        """
        values = (b.detach().to("cpu", torch.float64).view(-1) for b in self.buffers)
        result = torch.cat([torch.ones(1, dtype=torch.float64), *values])
        for buffer in self.buffers:
            buffer.zero_()
        return result

    def take(self, place: int) -> None:
        """Keep the contribution of the batch with index ``place``."""
        self.found[place] = self._take_out()

    def collect(self, places: int) -> Tensor:
        """``(places, 1 + width)``: a 1 and the contribution of each batch of this rank; zeros for other ranks."""
        learnt = torch.zeros(places, len(self.kept), dtype=torch.float64)
        for place, result in self.found.items():
            learnt[place] = result
        self.found = {}
        return learnt

    def learn(self, learnt: Tensor) -> None:
        """Add the contributions of all ranks."""
        for row in learnt[learnt[:, 0] > 0]:
            self.kept = (1 - self.momentum) * self.kept + row

    def close(self) -> None:
        """Write the statistics to the model.

        Raises:
            HandfulError: other buffers of the model have changed, and ranks cannot share them.
        """
        batches, *kept = torch.split(self.kept, [1, *(b.numel() for b in self.buffers)])
        for buffer, values in zip(self.buffers, kept, strict=True):
            buffer.copy_(values.view_as(buffer))
        for count, then in self.tracked:
            count.fill_(then + int(batches) - 1)
        for name, (buffer, before) in self.others.items():
            if not torch.equal(buffer, before):
                raise HandfulError(
                    f"the model changes its buffer {name} in training, which ranks cannot share: use one"
                )
