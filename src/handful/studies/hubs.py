"""How many hubs should every part of RNS hold? Accuracy, R(w), bias, time and memory against their share."""

from __future__ import annotations

from functools import partial
from typing import Any

from handful.finding import Axis, Chart, Finding, View
from handful.nn import make_model
from handful.samplers import make_sampler
from handful.samplers.hubs import Hubs, inclusion
from handful.statistics import mean_ci95
from handful.studies.budget import Request, Scale, benchmark
from handful.studies.grid import EPOCH_SECONDS, RAM, TEST, Entry, Grid, Measure
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
    for (name, (row, column, known)), found in zip(places.items(), measured, strict=True):
        terms = {term: mean_ci95(found.values(term)) for term in ("R", "bias")}
        entries[name] = Entry(jobs[name], row, column, label=row, facts={"name": name, "label": row, **known, **terms})
    grid = Grid.train(request, entries)
    x, metric = Axis("hubs in every part", of=grid.names("row")), grid.metric
    views = [
        View("test", "dot", x, Axis(metric.label("test")), grid.series("column")),
        View("R", "dot", x, Axis("R(w)", zero=True), grid.series("column", "R")),
        View("bias", "dot", x, Axis("bias |L_full − L̄|", zero=True), grid.series("column", "bias")),
        View("seconds", "bar", x, Axis("seconds per epoch"), grid.series("column", "epoch_seconds")),
        View("memory", "bar", x, Axis("peak RAM (GiB)"), grid.series("column", "peak_ram_bytes", 2**-30)),
    ]
    heading = f"{grid.graph} · RNS with hubs, m = {parts} · {grid.setting}"
    table = grid.listed(heading, "Hubs", [TEST, R, BIAS, EDGES, EPOCH_SECONDS, RAM])
    chart = Chart("hubs", f"{grid.graph}: RNS with hubs", views)
    return grid.finding("hubs", conclude(grid), [table], [chart], records="rows", payload={"parts": parts})


def conclude(grid: Grid) -> str:
    """What the best choice of hubs gains over none, and what it costs."""
    tests = {o.name: o.summary.test for o in grid.done if o.summary is not None and o.name.startswith("hubs-")}
    plain = tests.pop("hubs-none", None)
    if plain is None or not tests:
        return "Without RNS both with and without hubs there is nothing to compare."
    best = (max if grid.metric.higher_is_better else min)(tests, key=lambda name: tests[name])
    ratios = []
    for measure in ("R", "epoch_seconds"):
        with_hubs, without = (grid.value(job, measure)["mean"] for job in (best, "hubs-none"))
        ratios.append(with_hubs / without if without else float("nan"))
    return (
        f"Against no hubs, {grid.entries[best].name}: {grid.metric.signed(tests[best] - plain)} {grid.metric.unit}, "
        f"{ratios[0]:.2g} times R, {ratios[1]:.2f} times the seconds of an epoch."
    )


def label(hubs: Hubs | None, share: float) -> str:
    """A choice of hubs as people read it."""
    text = f"{100 * share:.2g}%"
    if hubs is None:
        return "none"
    if isinstance(hubs, float):
        return f"largest {text}"
    return f"drawn {text}" if str(hubs).startswith("drawn") else f"{hubs} ({text})"
