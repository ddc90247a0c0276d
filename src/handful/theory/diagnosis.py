"""The effect of samplers on training: the terms of the implicit objective, and the change in the degree
distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from handful.batch import Batch
from handful.graph import Graph
from handful.random import derive_seed
from handful.samplers.base import Sampler
from handful.statistics import mean_ci95
from handful.theory.implicit import BATCHES, REPEATS, ImplicitTerms, implicit_terms, initial_model
from handful.theory.powerlaw import alpha_error, degrees, fit_power_law
from handful.vocabulary import TERMS, title


@dataclass(frozen=True)
class Diagnosis:
    """The measurements for one sampler, one per repeat.

    ``terms`` are the terms of the implicit objective. ``alpha_errors`` are the errors of the power-law exponent in the
    batches; they are empty if only the terms were measured, as by ``ImplicitWatch``.
    """

    sampler: Sampler
    terms: tuple[ImplicitTerms, ...]
    alpha_errors: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The name of the sampler's method."""
        return self.sampler.method

    def values(self, term: str) -> list[float]:
        """The values of ``term``, one per repeat."""
        return list(self.alpha_errors) if term == "alpha_error" else [getattr(t, term) for t in self.terms]

    def mean(self, term: str) -> float:
        """The mean of ``term`` over the repeats."""
        return float(np.mean(self.values(term)))

    @property
    def variance_per_target(self) -> float:
        """R times the number of targets per batch. If targets were independent, this product would be the R of batches
        with one target.

        For every sampler, R falls as batches grow. R times the number of targets can be compared between batches of
        different sizes.
        """
        return float(np.mean([t.R * t.targets for t in self.terms]))

    def record(self) -> dict[str, Any]:
        """All measurements as plain values: each mean with the half-width of its 95% confidence interval, and the
        values of all repeats.
        """
        measured = (*TERMS, "nodes", "targets", "full_loss", "mean_loss")
        return {
            "name": self.name,
            "options": self.sampler.options(),
            **{name: mean_ci95(self.values(name)) for name in measured},
            "variance_per_target": self.variance_per_target,
            "repeats": {term: self.values(term) for term in TERMS},
        }


def diagnose(
    graph: Graph,
    samplers: Sequence[Sampler],
    make_model: Callable[[], nn.Module],
    batches: int = BATCHES,
    repeats: int = REPEATS,
    seed: int = 42,
    report: Callable[[Sampler], None] | None = None,
) -> list[Diagnosis]:
    """Measure every sampler at the same initial weights: in each repeat, all samplers have the same weights.

    In each repeat, α_Sampl is the mean of the power-law exponents of the batches, and R is measured on the same
    batches.

    Args:
        graph: a graph with training nodes.
        samplers: the samplers to compare.
        make_model: a function that makes a model with random weights.
        batches: the number of batches per repeat.
        repeats: the number of initialisations.
        seed: the seed of the weights and of the batches.
        report: called with the sampler after each repeat.

    >>> import torch, handful as hf
    >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> graph = Graph.from_edge_index(ring, x=torch.eye(4), y=[0, 1, 0, 1], train_mask=range(4))
    >>> (found,) = diagnose(graph, [hf.RandomNodes(2)], lambda: hf.SAGE(4, 1, hidden=4, layers=1), batches=6, repeats=2)
    >>> found.name, found.mean("R") > 0
    ('rns', True)
    """
    alpha_full = fit_power_law(degrees(graph)).alpha

    def measure(sampler: Sampler, repeat: int) -> tuple[ImplicitTerms, float]:
        own = derive_seed(seed, repeat)
        model = initial_model(make_model, own).to(graph.device)
        alphas = []

        def see(batch: Batch, gradient: Tensor) -> None:
            if not batch.layers[0].normalized:  # mean-field neighbours do not count as neighbours
                alphas.append(fit_power_law(degrees(batch)).alpha)

        terms = implicit_terms(model, graph, sampler, batches, own, see)
        if report is not None:
            report(sampler)
        return terms, alpha_error(alphas, alpha_full)

    result = ((sampler, [measure(sampler, repeat) for repeat in range(repeats)]) for sampler in samplers)
    return [Diagnosis(sampler, *zip(*measured, strict=True)) for sampler, measured in result]


def relation(diagnoses: Sequence[Diagnosis]) -> float:
    """Spearman's rank correlation between |α_Sampl − α_Full| and R(w), over the samplers. The result is NaN if one of
    these two quantities has the same value for all samplers.

    >>> import handful as hf
    >>> terms = [ImplicitTerms(1.0, 1.0, 0.0, 0.0, R, 1.0, 1.0, 1.0) for R in (0.1, 0.2)]
    >>> round(relation([Diagnosis(hf.FullGraph(), (t,), (error,)) for t, error in zip(terms, (0.3, 0.5))]), 6)
    1.0
    """
    from scipy.stats import spearmanr

    errors, variances = ([d.mean(term) for d in diagnoses] for term in ("alpha_error", "R"))
    varied = len(set(errors)) > 1 and len(set(variances)) > 1
    return float(spearmanr(errors, variances).statistic) if varied else float("nan")


def in_words(diagnoses: Sequence[Diagnosis]) -> str:
    """A sentence that names the sampler with the least gradient variance, and the sampler with the least bias.

    >>> import handful as hf
    >>> terms = ImplicitTerms(1.0, 1.1, 0.1, 0.0, R=0.5, grad_norm_sq=2.0, nodes=1.0, targets=1.0)
    >>> in_words([Diagnosis(hf.RandomNodes(2), (terms,))])
    "RNS has the least gradient variance, R = 0.5, and the loss nearest to the full graph's, 0.1 off."
    """
    varying = [d for d in diagnoses if d.mean("R") > 0]
    if not varying:
        return "Every batch is the whole graph: the gradients do not vary."
    steadiest = min(varying, key=lambda d: d.mean("R"))
    nearest = min(varying, key=lambda d: d.mean("bias"))
    whose = "" if nearest is steadiest else f"{title(nearest.name)} "
    least = f"{title(steadiest.name)} has the least gradient variance, R = {steadiest.mean('R'):.2g}"
    return f"{least}, and {whose}the loss nearest to the full graph's, {nearest.mean('bias'):.2g} off."
