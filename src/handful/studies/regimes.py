"""Full graph, RNS with one update per epoch, and RNS, by SGD, SGD with momentum and Adam: are both effects needed?"""

from __future__ import annotations

from typing import Any

from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, View, best_two
from handful.samplers import FullGraph, RandomNodes
from handful.studies import presets
from handful.studies.beside import paper_number, points_beside
from handful.studies.budget import PARTS, Scale, asked, scaled, train_jobs
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import OPTIMIZERS as TITLES
from handful.vocabulary import REGIMES, hues

PAPER_GRAPH = "ogbn-products"
SCALE = Scale(hidden=64, layers=2, epochs=100)
OPTIMIZERS = ("sgd", "sgdm", "adam")


def cell(request: Request, graph: str, regime: str, optimizer: str) -> Experiment:
    """One cell of the table, with the paper's settings of the optimiser under every budget."""
    preset = presets.implicit(regime, optimizer)
    if request.budget == "paper":
        if graph != PAPER_GRAPH:
            raise HandfulError(f"the paper has the regimes for {PAPER_GRAPH} alone: use budget 'laptop' for '{graph}'")
        return asked(request, preset)
    scale = scaled(request, SCALE)
    sampler = FullGraph() if regime == "full" else RandomNodes(PARTS)
    small = Experiment(graph, sampler=sampler, hidden=scale.hidden, layers=scale.layers, dropout=0.5)
    return asked(request, small.with_(settings=preset.settings, epochs=scale.epochs))


def run(request: Request) -> Finding:
    """Nine jobs, equal in all but regime and optimiser."""
    graph = request.graph_or(PAPER_GRAPH)
    places = {f"{regime}-{optimizer}": (regime, optimizer) for regime in REGIMES for optimizer in OPTIMIZERS}
    jobs = {name: cell(request, graph, *place) for name, place in places.items()}
    outcomes = train_jobs(request, jobs)
    cells: dict[tuple[str, str], dict[str, Any]] = {
        places[o.name]: o.summary["test"] for o in outcomes if o.summary is not None
    }
    name, metric = graph_and_metric(outcomes)
    judge = METRICS[metric]
    ranks: dict[tuple[str, str], int] = {}
    for optimizer in OPTIMIZERS:
        column = [place for place in cells if place[1] == optimizer]
        ranks |= dict(zip(column, best_two([cells[p]["mean"] for p in column], judge.higher_is_better), strict=True))
    failed = failures(outcomes)
    payload = [
        {
            "regime": regime,
            "optimizer": optimizer,
            "test": cells.get((regime, optimizer)),
            "paper": paper_number("tab:implicit_reg_results", regime, optimizer) if graph == PAPER_GRAPH else None,
            "error": failed.get(f"{regime}-{optimizer}"),
        }
        for regime, optimizer in places.values()
    ]
    columns = [TITLES[optimizer] for optimizer in OPTIMIZERS]
    series = []
    for (regime, title), color in zip(REGIMES.items(), hues(list(REGIMES)), strict=True):
        own = [row for row in payload if row["regime"] == regime]
        series += points_beside(
            title, columns, [row["test"] for row in own], [row["paper"] for row in own], color, judge.scale
        )
    view = View("test", "dot", Axis("", of=columns), Axis(judge.label("test")), series)
    return trained_finding(
        "regimes",
        outcomes,
        title=f"{name} · {judge.label('test')} · {setting(jobs)}",
        words=in_words({place: test["mean"] for place, test in cells.items()}, judge),
        head=["Training regime", *columns],
        rows=[
            [Cell(title), *(_cell(cells.get((regime, o)), judge, ranks.get((regime, o), 0)) for o in OPTIMIZERS)]
            for regime, title in REGIMES.items()
        ],
        payload={
            "graph": name,
            "metric": metric,
            "epochs": next(iter(jobs.values())).settings.epochs,
            "cells": payload,
        },
        charts=[Chart("regimes", f"{name}: three regimes, three optimisers", [view])],
        labels={job: f"{REGIMES[regime]}, {TITLES[optimizer]}" for job, (regime, optimizer) in places.items()},
    )


def in_words(means: dict[tuple[str, str], float], metric: Metric) -> str:
    """What each of the two effects does, by optimiser: the sampled loss alone, and the updates between batches."""
    told = []
    for optimizer in OPTIMIZERS:
        if all((regime, optimizer) in means for regime in REGIMES):
            full, once, rns = (means[regime, optimizer] for regime in REGIMES)
            told.append(f"{TITLES[optimizer]} {metric.signed(once - full)} and {metric.signed(rns - once)}")
    if not told:
        return "No optimiser has all three regimes."
    return (
        f"{metric.differences} from the sampled loss alone, and from an update for every batch: "
        + "; ".join(told)
        + "."
    )


def _cell(test: dict[str, float] | None, metric: Metric, rank: int) -> Cell:
    return Cell("failed") if test is None else Cell(metric.text(test), rank)
