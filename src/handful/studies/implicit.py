"""What each sampler makes SGD minimise, at random initialisation: bias, loss variance, R(w) and gradient norm."""

from __future__ import annotations

from typing import Any

from handful.datasets import load
from handful.nn import make_model
from handful.report.tables import Cell, best_two
from handful.samplers import make_sampler
from handful.samplers.base import Sampler
from handful.studies import Finding, Request, presets
from handful.studies.budget import Scale, benchmark, graph_of
from handful.theory.diagnosis import Diagnosis, diagnose, in_words
from handful.theory.pictures import term_bars

SCALE = Scale(hidden=64, layers=3, epochs=0)
SAMPLERS = ("rns", "neighbor", "cluster", "saint")
TERMS = {"bias": "bias of L̄", "loss_variance": "Var(L̂_k)", "R": "R(w)", "grad_norm_sq": "‖∇L̄‖²"}
AMOUNT = {"smoke": {"batches": 4, "seeds": 2}, "laptop": {"batches": 50, "seeds": 10}}
"""Batches, and initialisations with fresh samples; the paper has 50 and 100."""


def measured(request: Request) -> tuple[dict[str, Any], list[Diagnosis]]:
    """What was measured and how, as a record has it, and what was found of each sampler; all as in the sampling
    benchmark."""
    graph, seed = graph_of(request, "ogbn-arxiv"), request.seeds[0]
    amount = AMOUNT.get(request.budget) or presets.protocol("fig:implicit_reg_all_metrics")
    _, model, options = benchmark(request, graph, "rns", SCALE)
    samplers = []
    for name in SAMPLERS:
        recipe = benchmark(request, graph, name, SCALE)[0]
        samplers.append(make_sampler(name, **recipe.options))
    data = load(graph, split=request.split, root=request.root, seed=seed).require_training().to(request.device)
    total, done = amount["seeds"] * len(samplers), 0

    def report(sampler: Sampler) -> None:
        nonlocal done
        done += 1
        request.report(done, total, sampler.name)

    request.report(0, total, SAMPLERS[0])
    found = diagnose(
        data,
        samplers,
        lambda: make_model(model, data.num_features, data.num_outputs, **options),
        amount["batches"],
        amount["seeds"],
        seed,
        report,
    )
    settings = {
        "graph": data.name,
        "model": model,
        **options,
        "batches": amount["batches"],
        "initialisations": amount["seeds"],
        **{sampler.name: ", ".join(f"{k} = {v}" for k, v in sampler.options().items()) for sampler in samplers},
    }
    return {"graph": data.name, **amount, "settings": settings}, found


def heading(what: dict[str, Any]) -> str:
    """The title of a finding."""
    return f"{what['graph']} · {what['batches']} batches × {what['seeds']} initialisations"


def run(request: Request) -> Finding:
    """GraphSAGE as in the sampling benchmark, without dropout."""
    what, found = measured(request)
    ranks = {term: best_two([d.mean(term) for d in found], highest=False) for term in TERMS if term != "grad_norm_sq"}
    return Finding(
        payload={**what, "samplers": [d.record() for d in found]},
        title=heading(what),
        head=["sampler", *TERMS.values()],
        rows=[
            [Cell(d.name), *(Cell(f"{d.mean(term):.3g}", ranks[term][i] if term in ranks else 0) for term in TERMS)]
            for i, d in enumerate(found)
        ],
        words=in_words(found),
        pictures={"implicit.svg": term_bars(found, what["graph"])},
    )
