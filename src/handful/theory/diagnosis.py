"""Is this sampler distorting my model, and how? The terms of the implicit objective, and what becomes of degrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from handful.batch import Batch
from handful.graph import Graph
from handful.samplers.base import Sampler
from handful.statistics import mean_ci95
from handful.theory.hubs import HubShare, largest_hubs
from handful.theory.implicit import BATCHES, REPEATS, ImplicitTerms, repeated_terms
from handful.theory.powerlaw import alpha_error, degrees, fit_power_law, rank_correlation
from handful.vocabulary import title

TERMS = ("bias", "loss_variance", "R", "grad_norm_sq", "alpha_error")
"""What is measured of a sampler, each as mean and 95% CI over repeats."""


@dataclass(frozen=True)
class Diagnosis:
    """What one sampler does, for every repeat.

    The terms of its implicit objective, the error of the power-law exponent of its batches, and the share of R that
    comes from which of the largest hubs a batch holds.
    """

    sampler: Sampler
    terms: tuple[ImplicitTerms, ...]
    alpha_errors: tuple[float, ...]
    hub_shares: tuple[float, ...]

    @property
    def name(self) -> str:
        """The method that the sampler is."""
        return self.sampler.method

    def values(self, term: str) -> list[float]:
        """One value per repeat."""
        return list(self.alpha_errors) if term == "alpha_error" else [getattr(t, term) for t in self.terms]

    def mean(self, term: str) -> float:
        """The mean over repeats."""
        return float(np.mean(self.values(term)))

    @property
    def variance_per_target(self) -> float:
        """R times the number of targets: R of batches of one target, if the targets were independent.

        R falls as batches grow, for every sampler. This number can be compared between batches of different sizes.
        """
        return float(np.mean([t.R * t.targets for t in self.terms]))

    @property
    def hub_share(self) -> float:
        """The share of R that comes from the largest hubs; NaN where no repeat could tell."""
        known = [share for share in self.hub_shares if np.isfinite(share)]
        return float(np.mean(known)) if known else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Mean and 95% CI of every term."""
        return {"name": self.name, **{term: mean_ci95(self.values(term)) for term in TERMS}}

    def record(self) -> dict[str, Any]:
        """Everything that was measured, with the value of every repeat."""
        return {
            **self.to_json(),
            "options": self.sampler.options(),
            "nodes": mean_ci95(self.values("nodes")),
            "targets": mean_ci95(self.values("targets")),
            "full_loss": mean_ci95(self.values("full_loss")),
            "mean_loss": mean_ci95(self.values("mean_loss")),
            "variance_per_target": self.variance_per_target,
            "hub_share": self.hub_share,
            "repeats": {term: self.values(term) for term in TERMS},
        }


class _Seen:
    """What is collected from the batches of one repeat."""

    def __init__(self, hubs: np.ndarray) -> None:
        self._hubs = hubs
        self.clear()

    def clear(self) -> None:
        self.alphas: list[float] = []
        self.hubs = HubShare(self._hubs)

    def __call__(self, batch: Batch, gradient: Tensor) -> None:
        self.alphas.append(fit_power_law(degrees(batch)).alpha)
        self.hubs.add(batch.nodes, gradient)


def diagnose(
    graph: Graph,
    samplers: Sequence[Sampler],
    make_model: Callable[[], nn.Module],
    batches: int = BATCHES,
    repeats: int = REPEATS,
    seed: int = 42,
    report: Callable[[Sampler], None] | None = None,
) -> list[Diagnosis]:
    """Measure every sampler at the same initialisations.

    α_Sampl is the mean of the exponents of a repeat's batches, taken from the same batches as R.

    Args:
        graph: with training nodes.
        samplers: what to compare.
        make_model: makes a model with random weights.
        batches: how many batches to draw in each repeat.
        repeats: how many initialisations.
        seed: of the weights and of the batches.
        report: called with the sampler after each repeat.

    >>> import torch, handful as hf
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> graph = Graph.from_edge_index(ring, x=torch.eye(4), y=[0, 1, 0, 1], train_mask=range(4))
    >>> (found,) = diagnose(graph, [hf.RandomNodes(2)], lambda: hf.SAGE(4, 1, hidden=4, layers=1), batches=6, repeats=2)
    >>> found.name, found.mean("R") > 0
    ('rns', True)
    """
    alpha_full = fit_power_law(degrees(graph)).alpha
    hubs = largest_hubs(graph)
    out = []
    for sampler in samplers:
        terms, errors, shares = [], [], []
        seen = _Seen(hubs)
        for found in repeated_terms(make_model, graph, sampler, batches, repeats, seed, seen):
            terms.append(found)
            errors.append(alpha_error(seen.alphas, alpha_full))
            shares.append(seen.hubs.share)
            seen.clear()
            if report is not None:
                report(sampler)
        out.append(Diagnosis(sampler, tuple(terms), tuple(errors), tuple(shares)))
    return out


def relation(found: Sequence[Diagnosis]) -> float:
    """Spearman's ρ over samplers between |α_Sampl − α_Full| and R(w).

    >>> import handful as hf
    >>> terms = [ImplicitTerms(1.0, 1.0, 0.0, 0.0, R, 1.0, 1, 1.0, 1.0) for R in (0.1, 0.2)]
    >>> round(relation([Diagnosis(hf.FullGraph(), (t,), (error,), ()) for t, error in zip(terms, (0.3, 0.5))]), 6)
    1.0
    """
    return rank_correlation([d.mean("alpha_error") for d in found], [d.mean("R") for d in found])


def in_words(found: Sequence[Diagnosis]) -> str:
    """Which sampler is closest to the full graph, and what that means.

    >>> import handful as hf
    >>> terms = ImplicitTerms(1.0, 1.1, 0.1, 0.0, R=0.5, grad_norm_sq=2.0, batches=1, nodes=1.0, targets=1.0)
    >>> print(in_words([Diagnosis(hf.RandomNodes(2), (terms,), (0.3,), ())]).split(". ")[0])
    The loss of RNS differs from the full graph's by 0.1
    """
    by_R = sorted((d for d in found if d.mean("R") > 0), key=lambda d: d.mean("R"))
    if not by_R:
        return (
            "Every batch is the whole graph: the gradients do not vary, and only their norm is regularised implicitly."
        )
    best, rest = by_R[0], by_R[1:]
    closest = min(by_R, key=lambda d: d.mean("bias"))
    name, near = title(best.name), title(closest.name)
    if not rest:
        return (
            f"The loss of {name} differs from the full graph's by {best.mean('bias'):.2g}. Its batch gradients "
            f"vary by R = {best.mean('R'):.2g} around a mean of squared norm {best.mean('grad_norm_sq'):.2g}."
        )
    factors = _times([d.mean("R") / best.mean("R") for d in rest])
    scaled = _times([d.variance_per_target / best.variance_per_target for d in rest])
    words = (
        f"{name} has the least gradient variance: R of the others is {factors} as large ({scaled} once R is "
        "multiplied by the number of targets, which makes up for batches of unequal size)."
    )
    hubs = [f"{title(d.name)} {100 * d.hub_share:.0f}%" for d in by_R if d.hub_share > 0.3]
    if hubs:
        words += f" Much of R comes from which of the largest hubs a batch holds: {', '.join(hubs)}."
    if closest is best:
        return words + (
            f" The loss of {name} is also the closest to the full graph's, with a difference of "
            f"{best.mean('bias'):.2g}: steps on its batches are most like steps on the whole graph."
        )
    return words + (
        f" The loss of {near} is the closest to the full graph's, with a difference of "
        f"{closest.mean('bias'):.2g} against {best.mean('bias'):.2g}: {name} has the steadier gradients, and "
        f"{near} the nearer loss."
    )


def _times(factors: Sequence[float]) -> str:
    lo, hi = min(factors), max(factors)
    return f"{lo:.2g}×" if f"{lo:.2g}" == f"{hi:.2g}" else f"{lo:.2g} to {hi:.2g}×"
