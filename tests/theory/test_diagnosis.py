from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import handful as hf
from graphs import make_graph
from handful.random import derive_seed
from handful.samplers.full import FullGraph
from handful.samplers.neighbor import Neighbors
from handful.samplers.random_node import RandomNodes
from handful.theory.diagnosis import Diagnosis, diagnose, in_words, relation
from handful.theory.implicit import ImplicitTerms, implicit_terms, initial_model
from handful.theory.powerlaw import degrees, fit_power_law
from handful.vocabulary import TERMS


def test_terms_and_exponents_come_from_the_same_batches() -> None:
    graph = make_graph(300)
    make = partial(hf.SAGE, graph.num_features, graph.num_outputs, hidden=8, layers=2)
    samplers = [RandomNodes(3), Neighbors(batch_size=20)]
    reported: list[str] = []
    found = diagnose(graph, samplers, make, batches=5, repeats=2, seed=1, report=lambda s: reported.append(s.name))
    assert reported == ["rns", "rns", "neighbor", "neighbor"]
    alphas: list[float] = []
    again = []
    for repeat in range(2):
        own = derive_seed(1, repeat)
        model = initial_model(make, own)
        again.append(
            implicit_terms(
                model, graph, samplers[1], 5, own, lambda b, _: alphas.append(fit_power_law(degrees(b)).alpha)
            )
        )
    assert list(found[1].terms) == again
    full = fit_power_law(degrees(graph)).alpha
    assert found[1].alpha_errors == pytest.approx([abs(np.mean(alphas[i : i + 5]) - full) for i in (0, 5)])
    told = found[1].record()
    assert set(told) > {"name", "options", *TERMS}
    assert told["repeats"]["alpha_error"] == list(found[1].alpha_errors)
    assert told["R"]["mean"] == pytest.approx(np.mean([t.R for t in again]))
    assert found[1].variance_per_target == pytest.approx(np.mean([t.R * t.targets for t in again]))


def test_repeats_start_every_sampler_from_the_same_weights() -> None:
    graph = make_graph(90)
    make = partial(hf.SAGE, graph.num_features, graph.num_outputs, hidden=8, layers=2)
    state = torch.random.get_rng_state()
    one, other = diagnose(graph, [RandomNodes(2), RandomNodes(5)], make, batches=4, repeats=3, seed=7)
    assert one.values("full_loss") == other.values("full_loss")
    assert len(set(one.values("full_loss"))) == 3
    assert one.mean("nodes") == 45
    assert one.terms == diagnose(graph, [RandomNodes(2)], make, batches=4, repeats=3, seed=7)[0].terms
    assert torch.equal(state, torch.random.get_rng_state())


def test_words_name_the_steadiest_and_the_nearest() -> None:
    graph = make_graph(300)
    make = partial(hf.SAGE, graph.num_features, graph.num_outputs, hidden=8, layers=2)
    found = diagnose(graph, [Neighbors(batch_size=5), RandomNodes(2)], make, batches=10, repeats=2)
    words = in_words(found)
    nearest = min(found, key=lambda d: d.mean("bias"))
    for number in (found[1].mean("R"), nearest.mean("bias")):
        assert f"{number:.2g}" in words
    assert ("Neighbour" in words) == (nearest.name == "neighbor")
    assert abs(relation(found)) == pytest.approx(1)
    assert "whole graph" in in_words(diagnose(graph, [FullGraph()], make, 2, 1))


def test_the_relation_is_a_correlation_of_ranks() -> None:
    def found(errors: list[float], variances: list[float]) -> float:
        terms = [ImplicitTerms(1.0, 1.0, 0.0, 0.0, R, 1.0, 1.0, 1.0) for R in variances]
        return relation([Diagnosis(FullGraph(), (t,), (e,)) for t, e in zip(terms, errors, strict=True)])

    assert found([0.1, 0.2, 0.3], [1e-5, 1e-3, 1.0]) == pytest.approx(1)
    assert found([0.1, 0.2, 0.3], [3.0, 2.0, 1.0]) == pytest.approx(-1)
    assert found([1.0, 2.0, 3.0], [10.0, 20.0, 15.0]) == pytest.approx(0.5)
    assert np.isnan(found([0.1], [0.2]))
