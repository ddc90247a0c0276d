"""Is it the sampler, or the size of its batches? Every sampler with the same number of targets in a batch."""

from __future__ import annotations

from itertools import islice
from statistics import mean

from handful.finding import Axis, Cell, Chart, Finding, View, best_two, points
from handful.graph import Graph
from handful.samplers import Sampler, make_sampler
from handful.studies.budget import Scale, asked, scaled, small, train_jobs
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import hues, title

SCALE = Scale(hidden=64, layers=3, epochs=40)
SAMPLERS = ("rns", "neighbor", "cluster", "saint")
STEPS = {"smoke": (2, 8), "laptop": (2, 4, 8, 16), "paper": (2, 4, 8, 16, 32)}
"""Batches of an epoch: each has one in so many of the training nodes as its targets."""
CLUSTERS = 256
"""Of ClusterGCN, so that a batch may join any share of them."""


def sized(name: str, graph: Graph, steps: int, seed: int = 0) -> Sampler:
    """The sampler with about one in ``steps`` of the training nodes as the targets of a batch.

    GraphSAINT's walks overlap, so that its roots are found by measuring.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=400&degree=4")
    >>> str(sized("rns", graph, 4)), str(sized("neighbor", graph, 4))
    ('rns(parts=4)', 'neighbor(fanout=(10, 10), batch_size=50)')
    """
    wanted = len(graph.train_nodes) / steps
    if name == "rns":
        return make_sampler(name, parts=steps)
    if name == "neighbor":
        return make_sampler(name, batch_size=max(1, -(-len(graph.train_nodes) // steps)))
    if name == "cluster":
        clusters = min(CLUSTERS, graph.num_nodes)
        return make_sampler(name, clusters=clusters, per_batch=max(1, round(clusters / steps)))
    low, high = 1, graph.num_nodes
    while low < high:  # the targets grow with the roots
        roots = (low + high) // 2
        low, high = (
            (roots + 1, high) if _targets(make_sampler(name, roots=roots), graph, seed) < wanted else (low, roots)
        )
    return make_sampler(name, roots=low)


def _targets(sampler: Sampler, graph: Graph, seed: int, batches: int = 3) -> float:
    return mean(len(sample.targets) for sample in islice(sampler.sample(graph, seed, 0), batches))


def run(request: Request) -> Finding:
    """One model, one budget of epochs, so that all samplers of a column take about as many steps too."""
    name = request.graph or "debian"
    base = asked(request, small(name, "full", SCALE if request.budget == "paper" else scaled(request, SCALE)))
    data = base.load(request.seeds[0])
    steps = [count for count in STEPS[request.budget] if count <= len(data.train_nodes)]
    jobs = {f"{s}-{count}": base.with_(sampler=sized(s, data, count)) for count in steps for s in SAMPLERS}
    targets = {job: _targets(jobs[job].sampler, data, 1) for job in jobs}
    outcomes = {o.name: o for o in train_jobs(request, jobs)}
    tests = {job: o.summary["test"] for job, o in outcomes.items() if o.summary is not None}
    graph, metric = graph_and_metric(list(outcomes.values()))
    judge = METRICS[metric]
    ranks: dict[str, int] = {}
    for count in steps:
        column = [f"{s}-{count}" for s in SAMPLERS if f"{s}-{count}" in tests]
        ranks |= dict(
            zip(column, best_two([tests[job]["mean"] for job in column], judge.higher_is_better), strict=True)
        )
    rows = [
        [
            Cell(title(s)),
            *(
                Cell(judge.text(tests[job]), ranks[job]) if (job := f"{s}-{count}") in tests else Cell("failed")
                for count in steps
            ),
        ]
        for s in SAMPLERS
    ]
    series = [
        points(
            title(s),
            [targets[f"{s}-{count}"] for count in steps],
            [tests.get(f"{s}-{count}") for count in steps],
            hue,
            judge.scale,
        )
        for s, hue in zip(SAMPLERS, hues(list(SAMPLERS)), strict=True)
    ]
    x = Axis("targets of a batch", log=True, ticks=[round(len(data.train_nodes) / count) for count in steps])
    view = View("test", "line", x, Axis(judge.label("test")), series)
    failed = failures(list(outcomes.values()))
    return trained_finding(
        "batch-size",
        list(outcomes.values()),
        title=f"{graph} · equal targets in a batch · {setting(jobs)}",
        words=in_words({job: test["mean"] for job, test in tests.items()}, steps, judge),
        head=["Sampler", *(f"{len(data.train_nodes) / count:,.0f} targets" for count in steps)],
        rows=rows,
        payload={
            "graph": graph,
            "metric": metric,
            "cells": [
                {
                    "sampler": str(jobs[job].sampler),
                    "steps": int(job.rpartition("-")[2]),
                    "targets": targets[job],
                    "test": tests.get(job),
                    "error": failed.get(job),
                }
                for job in jobs
            ],
        },
        charts=[Chart("batch-size", f"{graph}: the sampler, or the size of its batches?", [view])],
        labels={f"{s}-{count}": f"{title(s)}, 1/{count}" for s in SAMPLERS for count in steps},
    )


def in_words(means: dict[str, float], steps: list[int], metric: Metric) -> str:
    """How much of the spread is the sampler's at one size, and how much the size's for one sampler."""
    columns = [[v for s in SAMPLERS if (v := means.get(f"{s}-{count}")) is not None] for count in steps]
    rows = [[v for count in steps if (v := means.get(f"{s}-{count}")) is not None] for s in SAMPLERS]
    between, within = (
        mean((max(values) - min(values)) for values in groups if len(values) > 1)
        if any(len(values) > 1 for values in groups)
        else float("nan")
        for groups in (columns, rows)
    )
    return (
        f"Samplers of one size are {metric.apart(between)} apart from best to worst, on average over the sizes; "
        f"sizes of one sampler {metric.apart(within)}."
    )
