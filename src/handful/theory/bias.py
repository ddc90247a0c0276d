"""The bias of a sampled loss (paper, "Bias of RNS"): the bound that uses the edge-removal sensitivity, and the two
terms of the bias.

    L̂^B − L_full = (L̃^B − L_full) + (L̂^B − L̃^B),    L̃^B = mean over B's targets of the full graph's losses

Term (I), node subsampling, has expectation 0 for Random Node Sampling, since its targets are exchangeable. For samplers
whose batches depend on the graph's structure, the expectation may differ from 0. Term (II), edge removal, is bounded by
C_ℓ·σ(w).

As elsewhere in the theory, dropout is off and BatchNorm uses the statistics of its input.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor, nn

from handful.graph import Graph
from handful.samplers.base import Sampler
from handful.samplers.full import FullGraph
from handful.samplers.random_node import RandomNodes
from handful.statistics import mean_ci95
from handful.theory.implicit import first_batches, without_dropout
from handful.theory.thinning import hypergeometric
from handful.training.loss import losses_of, node_losses
from handful.training.module import logits_of


def lipschitz_constant(outputs: int) -> float:
    """C_ℓ: the Lipschitz constant, in the Euclidean norm, of a node's loss as a function of its logits.

    For cross-entropy with C ≥ 2 logits, ∇ℓ = p − e_y, where p is the softmax, and ‖p − e_y‖² = (1 − p_y)² + Σ_{c≠y}
    p_c² ≤ 2·(1 − p_y)² ≤ 2. The norm approaches √2 as the probability of one wrong class approaches 1. So C_ℓ = √2 for
    any C. For the binary loss of one logit, ∇ℓ = sigmoid(z) − y, so C_ℓ = 1.

    >>> lipschitz_constant(1), lipschitz_constant(40) == sqrt(2)
    (1.0, True)
    """
    return 1.0 if outputs == 1 else sqrt(2.0)


def no_target_probability(nodes: int, targets: int, block: int) -> float:
    """Pr(ℰᶜ) = C(N − N_t, n) / C(N, n): the probability that a block of n nodes has none of the N_t training nodes.

    >>> round(no_target_probability(4, 2, 2), 6)  # 1/6
    0.166667
    """
    return float(hypergeometric(nodes + 1, block + 1, targets)[0])  # a block of one more node, out of N other nodes


def node_subsampling_variance(losses: Tensor, targets: int) -> float:
    """The variance of term (I), given t targets: (1/t − 1/N_t)·S², with S² = Σ_v (ℓ_v − L_full)²/(N_t − 1).

    The t targets of a block are a uniform sample of the N_t training nodes without replacement, so L̃^B has expectation
    L_full and this variance.

    Args:
        losses: ``(N_t,)``, the loss of every training node on the full graph.
        targets: t, the number of targets.

    >>> node_subsampling_variance(torch.tensor([1.0, 2.0, 3.0]), targets=3)
    0.0
    """
    return float(losses.double().var()) * (1 / targets - 1 / len(losses))


@dataclass(frozen=True)
class BiasBound:
    """The two sides of |E[L̂_RNS | ℰ] − L_full| ≤ C_ℓ·σ(w) for one m. ``bias_ci95`` is the half-width of the 95%
    confidence interval of ``bias``.
    """

    m: int
    bias: float
    bias_ci95: float
    sigma_max: float
    sigma_average: float
    lipschitz: float

    @property
    def bound(self) -> float:
        """C_ℓ·σ(w), where σ(w) is the maximum of σ_v over the nodes."""
        return self.lipschitz * self.sigma_max

    @property
    def average_bound(self) -> float:
        """C_ℓ times the average of σ_v over the nodes: a smaller bound, which follows from the same proof."""
        return self.lipschitz * self.sigma_average


@dataclass(frozen=True)
class BiasSplit:
    """E[L̂] − L_full and its two terms. Each is ``{"mean", "ci95"}``: the mean over batches, and the half-width of its
    95% confidence interval.
    """

    total: dict[str, float]
    node_subsampling: dict[str, float]
    edge_removal: dict[str, float]


@torch.no_grad()
def full_logits(model: nn.Module, graph: Graph) -> Tensor:
    """f(w, X, E): the logits ``(N, outputs)`` of every node on the full graph.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> full_logits(hf.SAGE(3, 3, hidden=4, layers=2), ring).shape
    torch.Size([3, 3])
    """
    return logits_of(without_dropout(model), next(FullGraph().epoch(graph, 0, 0)))


@torch.no_grad()
def bias_split(model: nn.Module, graph: Graph, sampler: Sampler, batches: int = 50, seed: int = 42) -> BiasSplit:
    """Measure the terms (I) and (II) of a sampler's bias at the weights of ``model``. The results are signed means over
    batches.

    Args:
        model: the model; it is not changed.
        graph: a graph with training nodes.
        sampler: the sampler to measure.
        batches: the number of batches to draw.
        seed: the seed of the batches.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> found = bias_split(hf.SAGE(3, 3, hidden=4, layers=1), ring, FullGraph(), batches=2)
    >>> abs(found.total["mean"]) < 1e-6  # a batch is the whole graph
    True
    """
    still, logits, losses = without_dropout(model), full_logits(model, graph), losses_of(graph)
    assert graph.y is not None
    train = graph.train_nodes
    whole = float(losses(logits[train], graph.y[train]).double().mean())
    first, second = [], []
    for batch in first_batches(graph, sampler, batches, seed):
        sampled = losses(logits_of(still, batch)[batch.targets], batch.y).double()
        on_full = losses(logits[batch.nodes[batch.targets]], batch.y).double()
        weight = batch.target_weight
        share = torch.full_like(on_full, 1 / len(on_full)) if weight is None else weight.double()
        first.append(float((share * on_full).sum()) - whole)
        second.append(float((share * (sampled - on_full)).sum()))
    return BiasSplit(mean_ci95(np.add(first, second)), mean_ci95(first), mean_ci95(second))


@torch.no_grad()
def edge_removal_sensitivity(
    model: nn.Module, graph: Graph, sampler: Sampler, epochs: int, seed: int = 42
) -> tuple[Tensor, list[float]]:
    """Estimate σ_v of every training node from ``epochs`` random partitions. Also return L̄ of every epoch.

    σ_v is the mean over partitions of ‖f(w, X_B, E_B)[v] − f(w, X, E)[v]‖, where B is the block of v. A block with t of
    the N_train training nodes has weight N_train/(m·t), where m is the number of blocks with training nodes. The
    paper's σ(w) takes the worst t instead of this average over t. The paper's proof needs only the average, and the
    average makes the bound tighter. The average is also easy to estimate, since every partition visits each training
    node once.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> sigma, losses = edge_removal_sensitivity(hf.SAGE(3, 3, hidden=4, layers=1), ring, RandomNodes(3), epochs=2)
    >>> sigma.shape, bool((sigma > 0).all()), len(losses)
    (torch.Size([3]), True, 2)
    """
    still, logits = without_dropout(model), full_logits(model, graph)
    train = graph.train_nodes
    sigma = torch.zeros(graph.num_nodes, dtype=torch.float64, device=graph.device)
    losses = []
    for epoch in range(epochs):
        visits, steps = [], []
        for batch in sampler.epoch(graph, seed, epoch):
            if len(batch.targets):
                sampled = logits_of(still, batch)[batch.targets]
                at = batch.nodes[batch.targets]
                visits.append((at, (sampled - logits[at]).double().norm(dim=1)))
                steps.append(float(node_losses(sampled, batch.y).double().mean()))
        for at, off in visits:
            sigma.index_add_(0, at, off * (len(train) / (len(visits) * len(at))))
        losses.append(sum(steps) / len(steps))
    return sigma[train] / epochs, losses


def bias_bound(model: nn.Module, graph: Graph, m: int, epochs: int = 20, seed: int = 42) -> BiasBound:
    """Measure the two sides of the bound for m parts, with ``epochs`` random partitions.

    The estimate of σ(w) is biased upwards, since it is a maximum of estimated means. More epochs reduce this bias.

    >>> import handful as hf
    >>> ring = Graph.from_edge_index([[0, 1, 2], [1, 2, 0]], x=torch.eye(3), y=[0, 1, 2], train_mask=range(3))
    >>> found = bias_bound(hf.SAGE(3, 3, hidden=4, layers=1), ring, m=3, epochs=2)
    >>> found.bias <= found.bound
    True
    """
    logits, train = full_logits(model, graph), graph.train_nodes
    assert graph.y is not None
    whole = float(node_losses(logits[train], graph.y[train]).double().mean())
    sigma, losses = edge_removal_sensitivity(model, graph, RandomNodes(m), epochs, seed)
    left = mean_ci95(np.subtract(losses, whole))
    constant = lipschitz_constant(logits.shape[1])
    return BiasBound(m, abs(left["mean"]), left["ci95"], float(sigma.max()), float(sigma.mean()), constant)
