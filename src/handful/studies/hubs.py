"""How many hubs should every part of RNS hold? Accuracy, R(w), bias, time and memory against their share."""

from __future__ import annotations

from functools import partial
from typing import Any

from handful.finding import Axis, Finding
from handful.nn import make_model
from handful.samplers import make_sampler
from handful.samplers.hubs import Hubs, inclusion
from handful.statistics import mean_ci95
from handful.studies.budget import Request, Scale, benchmark
from handful.studies.grid import EPOCH_SECONDS, RAM, TEST, Entry, Grid, Measure
from handful.studies.sizes import option_finding
from handful.theory.diagnosis import diagnose
from handful.theory.hubs import expected_edges
from handful.vocabulary import title

SCALE = Scale(hidden=128, layers=3, epochs=40)
LARGE: tuple[Hubs | None, ...] = (None, 6, 0.01, 0.05, "drawn=0.05", "drawn=0.1", "drawn=0.25", "auto")
VALUES: dict[str, tuple[Hubs | None, ...]] = {"smoke": (None, 0.05, "auto"), "laptop": LARGE, "paper": LARGE}
BESIDE = ("full", "saint")
"""Methods to hold it against."""
BATCHES = {"smoke": (4, 1), "laptop": (24, 4), "paper": (50, 100)}
"""Of each sampler in a repeat, and repeats, for R and bias at random initialisations."""
R = Measure("R", "R(w)", "{:.3g}".format)
BIAS = Measure("bias", "Bias", "{:.3g}".format)
EDGES = Measure("edges", "Edges of a part", "{:,.0f}".format)


def run(request: Request) -> Finding:
    """How many hubs should every part of RNS hold? Accuracy, R(w), bias, time and memory against their share.

    RNS with ever more hubs, all else equal; full-graph training and GraphSAINT beside it.
    """
    graph = request.graph_or("ogbn-arxiv")
    base = benchmark(request, graph, "rns", SCALE)
    options, data = base.sampler.options(), base.load(request.seeds[0])
    parts = options["parts"]
    places: dict[str, tuple[str, str, dict[str, Any]]] = {}
    jobs = {}
    for value in VALUES[request.budget]:
        name = f"hubs-{'none' if value is None else value}"
        jobs[name] = base.with_(sampler=make_sampler("rns", **{**options, "hubs": value}))
        chance = inclusion(data, value, parts)
        share, edges = float(chance.mean()), expected_edges(data, parts, chance) / parts
        places[name] = label(value, share), "rns-hubs", {"hubs": float(chance.sum()), "share": share, "edges": edges}
    for name in BESIDE:
        jobs[name] = benchmark(request, graph, name, SCALE)
        places[name] = title(name), name, dict.fromkeys(("hubs", "share", "edges"))
    network = partial(make_model, base.model, data.num_features, data.num_outputs, **base.options)
    samplers = [job.sampler for job in jobs.values()]
    measured = diagnose(data, samplers, network, *BATCHES[request.budget], request.seeds[0])
    entries = {}
    for (name, (row, column, known)), result in zip(places.items(), measured, strict=True):
        terms = {term: mean_ci95(result.values(term)) for term in ("R", "bias")}
        entries[name] = Entry(jobs[name], row, column, label=row, facts={"name": name, "label": row, **known, **terms})
    grid = Grid.train(request, entries)
    x, measures = Axis("hubs in every part", of=grid.names("row")), [TEST, R, BIAS, EDGES, EPOCH_SECONDS, RAM]
    return option_finding("hubs", "Hubs", grid, x, measures, records="rows", payload={"parts": parts})


def label(hubs: Hubs | None, share: float) -> str:
    """A choice of hubs as people read it."""
    text = f"{100 * share:.2g}%"
    if hubs is None:
        return "none"
    if isinstance(hubs, float):
        return f"largest {text}"
    return f"drawn {text}" if str(hubs).startswith("drawn") else f"{hubs} ({text})"
