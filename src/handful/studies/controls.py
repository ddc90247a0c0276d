"""Is it the batches, or only more steps? The regimes at equal epochs, at equal updates and at equal flow time."""

from __future__ import annotations

from typing import Any

from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, View, best_two, points
from handful.samplers import RandomNodes
from handful.studies.budget import train_jobs
from handful.studies.regimes import OPTIMIZERS, PAPER_GRAPH, cell
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import OPTIMIZERS as TITLES
from handful.vocabulary import REGIMES, hues

CONTROLS = {"epochs": "equal epochs", "updates": "equal updates", "flow": "equal flow time"}
"""RNS takes m steps an epoch and the other regimes one. They get m times the epochs, or m times the learning rate."""
ROWS = (*((regime, control) for regime in ("full", "rns-no-batch") for control in CONTROLS), ("rns", "epochs"))


def controlled(rns: Experiment, other: Experiment, control: str) -> Experiment:
    """``other``, which takes one step an epoch, on a par with ``rns``, which takes m.

    Equal updates: m times the epochs. Equal flow time, Σ lr over all steps: m times the learning rate.
    """
    assert isinstance(rns.sampler, RandomNodes)
    m, how = rns.sampler.parts, other.settings
    if control == "updates":
        return other.with_(epochs=m * how.epochs, evaluate_every=m * how.evaluate_every)
    return other.with_(lr=m * how.lr) if control == "flow" else other


def run(request: Request) -> Finding:
    """Seven rows by three optimisers; RNS itself is the same in all three comparisons."""
    graph = request.graph_or(PAPER_GRAPH)
    places = {f"{regime}-{control}-{o}": (regime, control, o) for regime, control in ROWS for o in OPTIMIZERS}
    jobs = {
        name: controlled(cell(request, graph, "rns", o), cell(request, graph, regime, o), control)
        for name, (regime, control, o) in places.items()
    }
    outcomes = train_jobs(request, jobs)
    tests: dict[tuple[str, str, str], dict[str, float]] = {
        places[o.name]: o.summary["test"] for o in outcomes if o.summary is not None
    }
    name, metric = graph_and_metric(outcomes)
    judge, failed = METRICS[metric], failures(outcomes)
    ranks: dict[tuple[str, str, str], int] = {}
    for optimizer in OPTIMIZERS:
        column = [place for place in tests if place[2] == optimizer]
        values = [tests[place]["mean"] for place in column]
        ranks |= dict(zip(column, best_two(values, judge.higher_is_better), strict=True))
    labels = {row: f"{REGIMES[row[0]]}, {CONTROLS[row[1]]}" if row[0] != "rns" else REGIMES["rns"] for row in ROWS}
    columns = [TITLES[optimizer] for optimizer in OPTIMIZERS]
    series = [
        points(labels[row], columns, [tests.get((*row, o)) for o in OPTIMIZERS], hue, judge.scale)
        for row, hue in zip(ROWS, hues([labels[row] if row[0] != "rns" else "rns" for row in ROWS]), strict=True)
    ]
    view = View("test", "dot", Axis("", of=columns), Axis(judge.label("test")), series)
    return trained_finding(
        "controls",
        outcomes,
        title=f"{name} · {judge.label('test')} · {setting(jobs)}",
        words=in_words({place: test["mean"] for place, test in tests.items()}, judge),
        head=["Regime", *columns],
        rows=[
            [
                Cell(labels[row]),
                *(
                    Cell(judge.text(tests[*row, o]), ranks[*row, o]) if (*row, o) in tests else Cell("failed")
                    for o in OPTIMIZERS
                ),
            ]
            for row in ROWS
        ],
        payload={
            "graph": name,
            "metric": metric,
            "cells": [
                {
                    "regime": regime,
                    "control": control,
                    "optimizer": optimizer,
                    "epochs": jobs[job].settings.epochs,
                    "lr": jobs[job].settings.lr,
                    "test": tests.get((regime, control, optimizer)),
                    "error": failed.get(job),
                }
                for job, (regime, control, optimizer) in places.items()
            ],
        },
        charts=[Chart("controls", f"{name}: equal epochs, equal updates, equal flow time", [view])],
        labels={job: f"{labels[place[:2]]}, {TITLES[place[2]]}" for job, place in places.items()},
    )


def in_words(means: dict[tuple[str, str, str], float], metric: Metric) -> str:
    """How far RNS is from full-graph training under each control, by optimiser."""
    told = []
    for optimizer in OPTIMIZERS:
        rns = means.get(("rns", "epochs", optimizer))
        apart: dict[str, Any] = {c: means.get(("full", c, optimizer)) for c in CONTROLS}
        if rns is not None and all(value is not None for value in apart.values()):
            gaps = (metric.signed(rns - value) for value in apart.values())
            told.append(f"{TITLES[optimizer]} {', '.join(gaps)}")
    if not told:
        return "No optimiser has RNS and the full graph under all three controls."
    return (
        f"{metric.differences} of RNS over the full graph at {', '.join(CONTROLS.values())}: " + "; ".join(told) + "."
    )
