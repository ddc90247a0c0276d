"""What do an exact first hop and a mean-field neighbour buy? Accuracy, R(w), bias and time against λ and m."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from handful.finding import Axis, Finding
from handful.nn import make_model
from handful.statistics import mean_ci95
from handful.studies.budget import Request, Scale, benchmark
from handful.studies.grid import EPOCH_SECONDS, RAM, TEST, Entry, Grid, Measure
from handful.studies.sizes import option_finding
from handful.theory.diagnosis import diagnose
from handful.training.first_hop import Prepared
from handful.vocabulary import PARTS

SCALE = Scale(hidden=64, layers=2, epochs=40)
VALUES: dict[str, tuple[float | None, ...]] = {"smoke": (None, 0.0, 1.0), "laptop": (None, 0.0, 1.0, 3.0, 10.0)}
"""λ; ``None`` for plain RNS, 0 for an exact first hop without stand-ins."""
EVERY_M = {"smoke": (4,), "laptop": (2, 4, 8, 16, 64)}
BATCHES = {"smoke": (4, 1), "laptop": (24, 4)}
"""Of each way in a repeat, and repeats, for R and bias at random initialisations."""
R = Measure("R", "R(w)", "{:.3g}".format)
BIAS = Measure("bias", "Bias", "{:.3g}".format)


def run(request: Request) -> Finding:
    """What do an exact first hop and a mean-field neighbour buy? Accuracy, R(w), bias and time against λ and m.

    RNS with every m and λ, all else equal. With stand-ins, how large may m grow before accuracy falls?
    """
    graph, size = request.graph or "debian", "smoke" if request.budget == "smoke" else "laptop"
    base = benchmark(request, graph, "rns", SCALE)
    data = base.load(request.seeds[0])
    network = partial(make_model, base.model, data.num_features, data.num_outputs, **base.options)
    ways = [*product(EVERY_M[size], VALUES[size])]
    jobs = [base.with_method("rns", parts=m).with_(**settings_of(value)) for m, value in ways]
    samplers = [Prepared.of(job.sampler, data, network(), job.settings) for job in jobs]
    entries = {}
    for (m, value), job, result in zip(
        ways, jobs, diagnose(data, samplers, network, *BATCHES[size], request.seeds[0]), strict=True
    ):
        facts = {"m": m, "lambda": value, **{term: mean_ci95(result.values(term)) for term in ("R", "bias")}}
        name, way = f"m-{m}-{'sampled' if value is None else f'lambda-{value:g}'}", label(value)
        entries[name] = Entry(job, f"{m}, {way}", way, x=m, label=f"m = {m}, {way}", facts=facts)
    x = Axis(PARTS, log=True, ticks=[*EVERY_M[size]])
    measures = [TEST, R, BIAS, EPOCH_SECONDS, RAM]
    return option_finding("mean-field", "m", Grid.train(request, entries), x, measures, records="rows")


def settings_of(value: float | None) -> dict[str, Any]:
    """The settings of a choice of λ."""
    return {"first_hop": "exact"} if value == 0 else {"mean_field": value or 0.0}


def label(value: float | None) -> str:
    """A choice of λ as people read it."""
    return "RNS" if value is None else "exact first hop" if value == 0 else f"λ = {value:g}"
