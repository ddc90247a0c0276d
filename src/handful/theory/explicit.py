"""An experiment that is not in the paper: does an explicit penalty c·R(w) have the same effect as one update per part?

If each part makes a step of size α, the steps implicitly add α/4·R(w) to L̄ (Eq. "mini-batch-gnn-loss"). A single step
per epoch, on the mean of the batches' losses, does not add this term. If the effect of one step per part comes from R,
a single step per epoch on L̄ + α/4·R should have the same effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from handful.batch import Batch
from handful.errors import HandfulError
from handful.training.callbacks import Callback
from handful.training.loop import Loop, batch_loss
from handful.training.loss import NodeLosses, node_losses
from handful.training.module import seed_step


def variance_gradient(
    model: nn.Module,
    batches: Sequence[tuple[Batch, int]],
    mean: Sequence[Tensor],
    losses: NodeLosses = node_losses,
    class_weight: Tensor | None = None,
) -> tuple[float, list[Tensor]]:
    """Compute R(w) and ∇R(w) exactly from ∇L̄(w), by differentiating each batch's gradient.

    ∇R = (2/m)·Σ_k H_k·(∇L̂_k − ∇L̄), where H_k is the Hessian of L̂_k. The derivative of ∇L̄ cancels, since the
    deviations sum to zero. Only one batch's second-order graph is in memory at a time.

    Args:
        model: the model with the weights w.
        batches: the m batches, each with the seed of its step, so that dropout is the same as in the step.
        mean: ∇L̄(w), with one tensor per trainable parameter.
        losses, class_weight: the loss function and the class weights that are used in training.

    >>> import handful as hf
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> graph = hf.Graph.from_edge_index(ring, x=torch.eye(4), y=[0, 1, 0, 1], train_mask=range(4))
    >>> batch, model = next(hf.FullGraph().epoch(graph, 0, 0)), hf.SAGE(4, 1, hidden=8, layers=2, norm="ln", dropout=0)
    >>> mean = torch.autograd.grad(batch_loss(model, batch), list(model.parameters()))
    >>> variance_gradient(model, [(batch, 0)], mean)[0] < 1e-9  # one batch does not vary
    True
    """
    model = deepcopy(model)  # a forward pass would change the running statistics
    weights = [p for p in model.parameters() if p.requires_grad]
    total = [torch.zeros_like(w) for w in weights]
    spread = 0.0
    for batch, seed in batches:
        seed_step(model, seed)
        loss = batch_loss(model, batch, losses=losses, class_weight=class_weight)
        slopes = torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True)
        deviations = [slope.detach() - at for slope, at in zip(slopes, mean, strict=True)]
        spread += sum(float(off.square().sum()) for off in deviations)
        products = torch.autograd.grad(slopes, weights, deviations, materialize_grads=True)
        total = [sum_ + product * (2 / len(batches)) for sum_, product in zip(total, products, strict=True)]
    return spread / len(batches), total


class VariancePenalty(Callback):
    """Adds ``strength``·R(w) to the training loss. Training must make one step per epoch (``update="epoch"``).

    To replace one step of size α per part, set ``strength`` to α/4. ``history`` lists the value of R before each step.
    The penalty costs a second forward pass and a double backward pass for every batch.

    >>> import handful as hf
    >>> ring = hf.Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> penalty = VariancePenalty(strength=0.01)
    >>> model = hf.SAGE(3, 3, hidden=4, layers=1)
    >>> _ = hf.fit(model, ring, hf.RandomNodes(1), epochs=2, update="epoch", callbacks=[penalty])
    >>> len(penalty.history)
    2
    """

    def __init__(self, strength: float) -> None:
        self.strength = strength
        self.history: list[float] = []
        self._batches: list[tuple[Batch, int]] = []

    def on_start(self, loop: Loop) -> None:
        """Add the penalty's gradient before every step of the optimiser."""
        if loop.settings.update != "epoch":
            raise HandfulError("a variance penalty needs the mean gradient of an epoch: train with update='epoch'")
        loop.optimizer.register_step_pre_hook(lambda *_: self._add(loop))

    def on_gradient(self, loop: Loop, batch: Batch, loss: float, seed: int) -> None:
        self._batches.append((batch, seed))

    def _add(self, loop: Loop) -> None:
        weights = [p for p in loop.model.parameters() if p.requires_grad]
        mean = [torch.zeros_like(w) if w.grad is None else w.grad.clone() for w in weights]
        spread, slopes = variance_gradient(loop.model, self._batches, mean, loop.losses, loop.class_weight)
        for weight, at, slope in zip(weights, mean, slopes, strict=True):
            weight.grad = at + self.strength * slope
        self.history.append(spread)
        self._batches.clear()
