"""Full graph, RNS with one update an epoch, and RNS, by SGD, SGD with momentum and Adam: are both effects needed?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handful.errors import HandfulError
from handful.report.tables import Cell, best_two, percent
from handful.studies import Finding, Request, presets
from handful.studies.budget import (
    PARTS,
    Scale,
    benchmark,
    failures,
    graph_and_metric,
    graph_of,
    job,
    printed,
    scaled,
    setting,
    train,
)
from handful.studies.jobs import Job

PAPER_GRAPH = "ogbn-products"
SCALE = Scale(hidden=64, layers=2, epochs=100)
REGIMES = {"full": "Full graph", "rns-no-batch": "RNS (no batch)", "rns": "RNS"}
OPTIMIZERS = {"sgd": "SGD", "sgdm": "SGD+M", "adam": "Adam"}


def regime_job(request: Request, graph: str, regime: str, optimizer: str) -> Job:
    """One cell of the table, with the paper's settings of the optimiser under every budget."""
    recipe = presets.implicit(regime, optimizer)
    if request.budget != "paper":
        parts = {} if regime == "full" else {"parts": PARTS}
        recipe = replace(recipe, epochs=scaled(request, SCALE).epochs, options=parts)
    elif graph != PAPER_GRAPH:
        raise HandfulError(f"the paper has these regimes for {PAPER_GRAPH} alone: use --budget laptop for '{graph}'")
    _, model, options = benchmark(request, graph, recipe.sampler, SCALE)
    return job(request, f"{regime}-{optimizer}", graph, recipe, model, options)


def run(request: Request) -> Finding:
    """Nine jobs, equal in all but regime and optimiser."""
    graph = graph_of(request, PAPER_GRAPH)
    places = [(regime, optimizer) for regime in REGIMES for optimizer in OPTIMIZERS]
    jobs = [regime_job(request, graph, *place) for place in places]
    outcomes = train(request, jobs)
    done = {place: o.summary for place, o in zip(places, outcomes, strict=True) if o.summary is not None}
    cells: dict[tuple[str, str], dict[str, Any]] = {place: summary["test"] for place, summary in done.items()}
    ranks: dict[tuple[str, str], int] = {}
    for optimizer in OPTIMIZERS:
        column = [place for place in cells if place[1] == optimizer]
        ranks |= dict(zip(column, best_two([cells[p]["mean"] for p in column], highest=True), strict=True))
    failed = failures(outcomes)
    name, metric = graph_and_metric(outcomes)
    return Finding(
        payload={
            "graph": name,
            "metric": metric,
            "epochs": jobs[0].settings["epochs"],
            "cells": [
                {
                    "regime": regime,
                    "optimizer": optimizer,
                    "test": cells.get((regime, optimizer)),
                    "paper": printed("tab:implicit_reg_results", regime, optimizer) if graph == PAPER_GRAPH else None,
                    "error": failed.get(f"{regime}-{optimizer}"),
                }
                for regime, optimizer in places
            ],
        },
        title=f"{name} · test {metric.replace('_', ' ')} (%) · {setting(jobs)}",
        head=["Training regime", *OPTIMIZERS.values()],
        rows=[
            [Cell(title), *(_cell(cells.get((regime, o)), ranks.get((regime, o), 0)) for o in OPTIMIZERS)]
            for regime, title in REGIMES.items()
        ],
        words=in_words({place: test["mean"] for place, test in cells.items()}),
        failed=tuple(failed),
    )


def in_words(means: dict[tuple[str, str], float]) -> str:
    """What each of the two effects does, by optimiser: the sampled loss alone, and the updates between batches."""
    words = []
    for optimizer, title in OPTIMIZERS.items():
        if all((regime, optimizer) in means for regime in REGIMES):
            full, once, rns = (100 * means[regime, optimizer] for regime in REGIMES)
            words.append(f"{title} {once - full:+.2f} and {rns - once:+.2f}")
    if not words:
        return "No optimiser has all three regimes."
    return "Points from the sampled loss alone, and from an update for every batch: " + "; ".join(words) + "."


def _cell(test: dict[str, float] | None, rank: int) -> Cell:
    return Cell("failed") if test is None else Cell(percent(test), rank)
