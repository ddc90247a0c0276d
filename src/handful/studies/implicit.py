"""What each sampler makes SGD minimise, at random initialisation: bias, loss variance, R(w) and gradient norm."""

from __future__ import annotations

from functools import partial
from typing import Any

from handful.finding import Cell, Finding, Table, best_two
from handful.nn import make_model
from handful.samplers import Sampler
from handful.studies import presets
from handful.studies.budget import Scale, benchmark
from handful.studies.diagnose import plane_chart, term_chart
from handful.studies.request import Request
from handful.theory.diagnosis import Diagnosis, diagnose, in_words
from handful.vocabulary import spaced, title, words

SCALE = Scale(hidden=64, layers=3, epochs=1)
SAMPLERS = ("rns", "neighbor", "cluster", "saint")
TERMS = {"bias": "bias of L̄", "loss_variance": "Var(L̂_k)", "R": "R(w)", "grad_norm_sq": "‖∇L̄‖²"}
AMOUNT = {"smoke": {"batches": 4, "seeds": 2}, "laptop": {"batches": 50, "seeds": 10}}
"""Batches, and initialisations with fresh samples; the paper has 50 and 100."""


def measured(request: Request) -> tuple[dict[str, Any], list[Diagnosis]]:
    """What was measured and how, as a record has it, and what was found of each sampler of the sampling benchmark."""
    graph, seed = request.graph_or("ogbn-arxiv"), request.seeds[0]
    amount = AMOUNT.get(request.budget) or presets.protocol("fig:implicit_reg_all_metrics")
    experiments = [benchmark(request, graph, name, SCALE) for name in SAMPLERS]
    first, samplers = experiments[0], [experiment.sampler for experiment in experiments]
    data = first.load(seed).to(request.device)
    total, done = amount["seeds"] * len(samplers), 0

    def report(sampler: Sampler) -> None:
        nonlocal done
        done += 1
        request.report(done, total, title(sampler.name))

    request.report(0, total, title(SAMPLERS[0]))
    network = partial(make_model, first.model, data.num_features, data.num_outputs, **first.options)
    found = diagnose(data, samplers, network, amount["batches"], amount["seeds"], seed, report)
    settings = {
        "graph": data.name,
        "model": first.model,
        **first.options,
        "batches": amount["batches"],
        "initialisations": amount["seeds"],
        **{sampler.name: ", ".join(f"{k} = {words(v)}" for k, v in sampler.options().items()) for sampler in samplers},
    }
    return {"graph": data.name, **amount, "settings": settings}, found


def heading(what: dict[str, Any]) -> str:
    """The title of a finding."""
    return f"{what['graph']} · {what['batches']} batches × {what['seeds']} initialisations"


def facts(what: dict[str, Any]) -> dict[str, str]:
    """How it was measured, for the page."""
    return {spaced(name): words(value) for name, value in what["settings"].items()}


def run(request: Request) -> Finding:
    """GraphSAGE as in the sampling benchmark, without dropout."""
    what, found = measured(request)
    ranks = {term: best_two([d.mean(term) for d in found], highest=False) for term in TERMS if term != "grad_norm_sq"}
    rows = [
        [Cell(title(d.name)), *(Cell(f"{d.mean(term):.3g}", ranks[term][i] if term in ranks else 0) for term in TERMS)]
        for i, d in enumerate(found)
    ]
    return Finding(
        "implicit",
        heading(what),
        in_words(found),
        [Table(heading(what), ["Sampler", *TERMS.values()], rows)],
        [term_chart("implicit", found, what["graph"]), plane_chart(found, what["graph"])],
        {**what, "samplers": [d.record() for d in found]},
        facts(what),
    )
