"""The terms of L̄ + α/4·‖∇L̄‖² + α/4·R, the implicit objective of SGD with a sampler (paper, Eq.
"mini-batch-gnn-loss").

    L̄ = (1/m)·Σ_k L̂_k,    R = (1/m)·Σ_k ‖∇L̂_k − ∇L̄‖²,    bias = |L_full − L̄|,    Var = (1/m)·Σ_k (L̂_k − L̄)²

All terms are computed at fixed weights, over the first ``batches`` batches with training nodes. Dropout is off (the
paper does not specify this); everything else is as in a training step. In particular, BatchNorm uses the statistics of
the batch; for L_full, these are the statistics of the whole graph. So L̂_k is the loss of a training step, and the bias
is 0 if there is only one part (m = 1). The model is not changed: the terms are measured on a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count

import torch
from torch import Tensor, nn

from handful.batch import Batch
from handful.errors import SamplerError
from handful.graph import Graph
from handful.random import derive_seed
from handful.samplers.ahead import ahead
from handful.samplers.base import Sampler
from handful.samplers.full import FullGraph
from handful.training.callbacks import Callback
from handful.training.loop import Loop, batch_loss
from handful.training.loss import losses_of

BATCHES, REPEATS = 50, 100
"""The number of batches and the number of repeats in the paper."""
ADAM_EPS = 1e-8
"""The default ε of torch's Adam."""


@dataclass(frozen=True)
class ImplicitTerms:
    """The terms of the implicit objective at fixed weights, and the mean size of the batches.

    ``adam_norm`` and ``adam_R`` are ‖∇L̄‖² and R in the metric of Adam: Σ_i P_i·ḡ_i² and Σ_i P_i·Var_i, with P = 1/(√s +
    ε) and s_i = ḡ_i² + Var_i. For one batch and ε = 0, ``adam_norm`` is the ℓ₁-norm of the gradient.
    """

    full_loss: float
    mean_loss: float
    bias: float
    loss_variance: float
    R: float
    grad_norm_sq: float
    nodes: float
    targets: float
    adam_norm: float = float("nan")
    adam_R: float = float("nan")


@dataclass
class Welford:
    """The mean and the variance of a sequence of vectors. The vectors are added one at a time, so only a few vectors
    are in memory at once.

    ``variances`` is (1/n)·Σ(g_k − ḡ)² for each component, and ``variance`` is the sum over the components. All sums are
    in float64, since R may be a millionth of ‖ḡ‖².

    >>> running = Welford()
    >>> for value in ([1.0, 0.0], [3.0, 0.0]):
    ...     running.add(torch.tensor(value))
    >>> running.mean.tolist(), running.variance
    ([2.0, 0.0], 1.0)
    """

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))
    spread: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))

    def add(self, vector: Tensor) -> None:
        """Add one vector."""
        self.count += 1
        off = vector.to(torch.float64) - self.mean
        self.mean = self.mean + off / self.count
        self.spread = self.spread + off.square() * ((self.count - 1) / self.count)

    @property
    def variances(self) -> Tensor:
        """(1/n)·Σ(g_k − ḡ)² for each component."""
        return self.spread / self.count

    @property
    def variance(self) -> float:
        """(1/n)·Σ‖g_k − ḡ‖²; NaN before the first vector."""
        return float(self.variances.sum())


def without_dropout(model: nn.Module) -> nn.Module:
    """A copy of the model in training mode, with all dropout rates set to 0.

    A copy is needed because training mode changes the running statistics of a model.

    >>> drop = nn.Dropout(0.5).eval()
    >>> still = without_dropout(drop)
    >>> (still.training, still.p), (drop.training, drop.p)
    ((True, 0.0), (False, 0.5))
    """
    still = deepcopy(model).train()
    for module in still.modules():
        for name in ("p", "dropout", "input_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return still


def first_batches(graph: Graph, sampler: Sampler, batches: int, seed: int) -> Iterator[Batch]:
    """The first ``batches`` batches that have training nodes, from as many epochs as needed. Batches without training
    nodes are left out.

    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> [batch.num_nodes for batch in first_batches(ring, FullGraph(), 2, seed=0)]
    [3, 3]
    """
    left = batches
    for epoch in count():
        result = left
        for batch in ahead(sampler.epoch(graph, seed, epoch)):
            if len(batch.targets):
                yield batch
                left -= 1
                if left == 0:
                    return
        if left == result:
            raise SamplerError(f"an epoch of {sampler} has no training node in any batch: make its batches larger")


def flat_gradient(loss: Tensor, model: nn.Module) -> Tensor:
    """Compute ∇L as one vector. The entries of weights that the loss does not depend on are 0. ``parameter.grad`` is
    not changed.

    >>> model = nn.Linear(2, 1)
    >>> flat_gradient(model(torch.tensor([3.0, 4.0])).sum(), model)
    tensor([3., 4., 1.])
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, weights, materialize_grads=True)])


def full_loss(model: nn.Module, graph: Graph, sampler: Sampler = FullGraph()) -> float:  # noqa: B008  (frozen)
    """L_full(w) (paper, Eq. 1): the mean loss over all training nodes on the full graph.

    ``sampler`` is the sampler that is used in training. The sampler determines the edges and weights on the full graph;
    LADIES, for example, adds self-loops.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> full_loss(hf.SAGE(3, 3, hidden=4, layers=1), ring) > 0
    True
    """
    whole = replace(next(FullGraph().epoch(graph, 0, 0)), layers=(sampler.operator(graph),))
    with torch.no_grad():
        return float(batch_loss(without_dropout(model), whole, losses=losses_of(graph)))


def implicit_terms(
    model: nn.Module,
    graph: Graph,
    sampler: Sampler,
    batches: int = BATCHES,
    seed: int = 42,
    on_batch: Callable[[Batch, Tensor], None] = lambda batch, gradient: None,
) -> ImplicitTerms:
    """Compute all terms of the implicit objective at the current weights of ``model``, in one pass over the batches.

    Args:
        model: the model; it is not changed.
        graph: a graph with training nodes.
        sampler: the sampler to measure.
        batches: m, the number of batches to draw.
        seed: the seed of the batches.
        on_batch: called with each batch and its gradient.

    >>> import handful as hf
    >>> ring = [[0, 1, 2, 3], [1, 2, 3, 0]]
    >>> graph = Graph.from_edge_index(torch.tensor(ring), x=torch.eye(4), y=[0, 1, 0, 1], train_mask=range(4))
    >>> terms = implicit_terms(hf.SAGE(4, 1, hidden=8, layers=2), graph, FullGraph(), batches=3)
    >>> terms.bias < 1e-6, terms.R < 1e-9  # every batch is the graph
    (True, True)
    """
    losses, gradients, of_nodes = Welford(), Welford(), losses_of(graph)
    nodes = targets = 0
    reference = full_loss(model, graph, sampler)
    still = without_dropout(model)
    for batch in first_batches(graph, sampler, batches, seed):
        loss = batch_loss(still, batch, losses=of_nodes)
        gradient = flat_gradient(loss, still)
        gradients.add(gradient)
        losses.add(loss.detach().reshape(1))
        nodes, targets = nodes + batch.num_nodes, targets + len(batch.targets)
        on_batch(batch, gradient)
    mean, squares = float(losses.mean), gradients.mean.square()
    metric = adam_metric(squares + gradients.variances)
    return ImplicitTerms(
        full_loss=reference,
        mean_loss=mean,
        bias=abs(reference - mean),
        loss_variance=losses.variance,
        R=gradients.variance,
        grad_norm_sq=float(squares.sum()),
        nodes=nodes / batches,
        targets=targets / batches,
        adam_norm=float((metric * squares).sum()),
        adam_R=float((metric * gradients.variances).sum()),
    )


def initial_model(make_model: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Make a model with random weights that depend only on ``seed``. The state of torch's random generator is not
    changed.

    >>> one, other = (initial_model(lambda: nn.Linear(2, 1), seed=7) for _ in range(2))
    >>> torch.equal(one.weight, other.weight)
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_model()


def variance_factor(m: int, momentum: float) -> float:
    """ρ = 2/(m(m−1))·Σ_{j=1}^{m−1} (m−j)·(1−β^j): the factor of R if SGD has heavy-ball momentum β and m steps per
    epoch.

    Over all later steps, a gradient g moves the weights by α·g in total, where α = lr/(1−β); in the first j steps, it
    moves them by (1 − β^j)·α·g. R comes from pairs of batches in the same epoch, and m − j of these pairs are j steps
    apart (``theory.memory``). If there is no momentum, ρ is 1.

    >>> [round(variance_factor(m, 0.9), 2) for m in (2, 4, 10)]
    [0.1, 0.16, 0.3]
    """
    if m == 1:
        return 1.0  # R is 0
    return 2 / (m * (m - 1)) * sum((m - j) * (1 - momentum**j) for j in range(1, m))


def regulariser_coefficients(lr: float, momentum: float = 0.0, m: int | None = None) -> tuple[float, float]:
    """The coefficients of ‖∇L̄‖² and R in the modified loss: α/4·(1+β)/(1−β) and α/4·ρ. ``variance_factor`` is ρ.

    ``lr`` is the learning rate of one step, not of an epoch. α is the effective step, lr/(1−β): if the gradient g is
    constant, the weights move by lr/(1−β)·g per step. The factor (1+β)/(1−β) comes from Ghosh et al. (2023). The paper
    also applies this factor to R, which is not correct. ``m``, the number of steps per epoch, is needed only if there
    is momentum.

    >>> regulariser_coefficients(0.1), [round(c, 6) for c in regulariser_coefficients(0.1, momentum=0.9, m=2)]
    ((0.025, 0.025), [4.75, 0.025])
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must lie in [0, 1), got {momentum}")
    if momentum and m is None:
        raise ValueError("with momentum the weight of R depends on m, the steps of an epoch: give m")
    quarter = lr / (1 - momentum) / 4
    return quarter * (1 + momentum) / (1 - momentum), quarter * variance_factor(m or 1, momentum)


def modified_loss(terms: ImplicitTerms, *, lr: float, momentum: float = 0.0, m: int | None = None) -> float:
    """The loss that SGD with these settings minimises: L̃ = L̄ + a·‖∇L̄‖² + b·R, where a and b are the
    ``regulariser_coefficients``.

    >>> terms = ImplicitTerms(1.0, 2.0, 1.0, 0.0, R=4.0, grad_norm_sq=8.0, nodes=1.0, targets=1.0)
    >>> modified_loss(terms, lr=1.0)
    5.0
    """
    mean, spread = regulariser_coefficients(lr, momentum, m)
    return terms.mean_loss + mean * terms.grad_norm_sq + spread * terms.R


def epoch_steps(graph: Graph, sampler: Sampler, seed: int) -> int:
    """The number of steps in the first epoch, which is the number of its batches that have training nodes.

    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> epoch_steps(ring, FullGraph(), seed=0)
    1
    """
    return sum(bool(len(sample.targets)) for sample in sampler.sample(graph, seed, 0))


def adam_metric(second: Tensor, eps: float = ADAM_EPS) -> Tensor:
    """Adam's preconditioner P = 1/(√v + ε), where v is the second moment of the gradients.

    >>> adam_metric(torch.tensor([4.0]), eps=0.5)
    tensor([0.4000])
    """
    return 1 / (second.sqrt() + eps)


class ImplicitWatch(Callback):
    """Measures the terms before the first epoch, and then once every ``every`` epochs.

    ``history`` is a list of pairs (epoch, terms). The callback does not affect the training: the result of a run is bit
    for bit the same as without the callback.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> watch = ImplicitWatch(every=2, batches=3)
    >>> _ = hf.fit(hf.SAGE(3, 3, hidden=4, layers=1), ring, hf.RandomNodes(1), epochs=4, callbacks=[watch])
    >>> [epoch for epoch, _ in watch.history]
    [0, 2, 4]
    """

    def __init__(self, every: int = 1, batches: int = BATCHES, seed: int = 42) -> None:
        self.every, self.batches, self.seed = every, batches, seed
        self.history: list[tuple[int, ImplicitTerms]] = []

    def on_start(self, loop: Loop) -> None:
        self.measure(loop)

    def on_epoch(self, loop: Loop) -> None:
        if loop.epoch % self.every == 0:
            self.measure(loop)

    def measure(self, loop: Loop) -> None:
        """Measure the current terms, and append them to ``history``."""
        seed = derive_seed(self.seed, loop.epoch)
        self.history.append((loop.epoch, implicit_terms(loop.model, loop.graph, loop.sampler, self.batches, seed)))
