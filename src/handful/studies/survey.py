"""Every sampler on every graph at hand: one model, one budget; paired tests, and mean ranks with their differences.

All methods train the same GraphSAGE with the same settings for the same number of epochs, in about ``STEPS`` batches an
epoch (full-graph training in one). Nothing is tuned. A graph whose files are not found is left out, and named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from handful.datasets import load
from handful.errors import DatasetError
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two, mean_of, points
from handful.graph import Graph
from handful.samplers import Sampler, make_sampler
from handful.statistics import critical_difference, friedman, holm, mean_ci95, mean_ranks, paired_t, wilcoxon_signed
from handful.studies.budget import SMOKE, Scale, asked, train_jobs
from handful.studies.jobs import Outcome
from handful.studies.request import Request
from handful.studies.trained import failures
from handful.training.metrics import METRICS
from handful.vocabulary import METHODS, PAPER_SEEDS, hues, spaced, title, words

STEPS = 4
"""Batches per epoch, about: m of RNS, and what the sizes of the others are made for."""
SCALES = {
    "smoke": SMOKE,
    "laptop": Scale(hidden=64, layers=2, epochs=40),
    "paper": Scale(hidden=256, layers=3, epochs=300),
}
OURS = "rns-hubs"
"""The method that the others are tested against."""
ALPHA = 0.05


@dataclass(frozen=True)
class Case:
    """One graph of the survey; ``epochs`` is the share of the budget's that it gets."""

    label: str
    graph: str
    split: str | None = None
    epochs: float = 1.0


CASES = (
    Case("debian rh", "debian", "rh"),
    Case("debian rl", "debian", "rl"),
    Case("Cora", "pyg:Planetoid/Cora", "rh"),
    Case("CiteSeer", "pyg:Planetoid/CiteSeer", "rh"),
    Case("PubMed", "pyg:Planetoid/PubMed", "rh"),
    Case("tolokers", "pyg:HeterophilousGraphDataset/tolokers", "rh"),
    Case("minesweeper", "pyg:HeterophilousGraphDataset/minesweeper", "rh"),
    Case("Amazon Photo", "pyg:Amazon/Photo", "rh"),
    # 8,415 features make its epoch the longest by far, and it is the first to converge.
    Case("Coauthor Physics", "pyg:Coauthor/Physics", "rh", epochs=0.25),
    Case("synthetic, hubs", "synthetic?nodes=20000&degree=15&exponent=2.1"),
    Case("synthetic, no hubs", "synthetic?nodes=20000&degree=15&exponent=10"),
)
TINY = (
    Case("synthetic, hubs", "synthetic?nodes=200&degree=6&features=8&classes=3&exponent=2.1"),
    Case("synthetic, no hubs", "synthetic?nodes=200&degree=6&features=8&classes=3&exponent=10"),
)
"""What ``smoke`` takes."""


def samplers_for(graph: Graph, layers: int) -> dict[str, Sampler]:
    """Every method with about ``STEPS`` batches an epoch on ``graph``: targets, walks and clusters scaled to it."""
    n, batch = graph.num_nodes, -(-len(graph.train_nodes) // STEPS)
    clusters = min(10 * STEPS, n)
    options: dict[str, dict[str, Any]] = {
        "neighbor": {"fanout": (10,) * layers, "batch_size": batch},
        "cluster": {"clusters": clusters, "per_batch": -(-clusters // STEPS)},
        "saint": {"roots": max(1, n // (2 * STEPS)), "length": 2},
        "ladies": {"budget": (max(1, min(8192, n // STEPS)),), "batch_size": batch},
        "rns": {"parts": STEPS},
        OURS: {"parts": STEPS, "hubs": "auto"},
    }
    return {method: make_sampler("rns" if method == OURS else method, **options.get(method, {})) for method in METHODS}


@dataclass(frozen=True)
class Plan:
    """What the survey trains: its jobs, the graph and method of each, what is known of the graphs, what is missing."""

    jobs: dict[str, Experiment]
    places: dict[str, tuple[str, str]]
    graphs: dict[str, dict[str, Any]]
    missing: dict[str, str]


def run(request: Request) -> Finding:
    """All graphs that are found, or the one asked for, with five seeds unless others are named."""
    if request.budget == "laptop" and not request.seeds_given:
        request = replace(request, seeds=PAPER_SEEDS)
    plan = planned(request)
    return survey_finding(request, plan, train_jobs(request, plan.jobs))


def planned(request: Request) -> Plan:
    """The jobs of the survey; every graph is loaded once to see whether it is there, and how large."""
    cases: tuple[Case, ...] = TINY if request.budget == "smoke" else CASES
    if request.graph is not None:
        cases = (Case(request.graph, request.graph, request.split),)
    scale, plan = SCALES[request.budget], Plan({}, {}, {}, {})
    for case in cases:
        try:
            graph = load(case.graph, split=case.split, root=request.root, seed=request.seeds[0]).require_training()
        except DatasetError as error:
            plan.missing[case.label] = str(error)
            continue
        epochs = max(1, round(case.epochs * scale.epochs))
        known = {"metric": graph.metric, "nodes": graph.num_nodes, "edges": graph.num_edges, "epochs": epochs}
        plan.graphs[case.label] = {"graph": case.graph, "split": case.split, **known}
        how: dict[str, Any] = {"hidden": scale.hidden, "layers": scale.layers, "dropout": 0.5, "lr": 0.01}
        how["epochs"] = epochs
        for method, sampler in samplers_for(graph, scale.layers).items():
            name = f"{re.sub(r'[^A-Za-z0-9]+', '-', case.label).strip('-')}-{method}"
            plan.places[name] = case.label, method
            plan.jobs[name] = asked(request, Experiment(case.graph, split=case.split, sampler=sampler, **how))
    if not plan.jobs:
        raise DatasetError("none of the graphs of the survey is found: " + "; ".join(plan.missing.values()))
    return plan


def survey_finding(request: Request, plan: Plan, outcomes: Sequence[Outcome]) -> Finding:
    """The tables and pictures of the jobs of ``plan``."""
    failed, graphs, places, missing = failures(outcomes), plan.graphs, plan.places, plan.missing
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for outcome in outcomes:
        if outcome.summary is None:
            cells[places[outcome.name]] = {"error": failed[outcome.name]}
            continue
        found = {key: outcome.summary[key] for key in ("test", "epoch_seconds", "peak_memory_bytes")}
        found["seeds"] = [run["test"] for run in outcome.summary["runs"]]
        cells[places[outcome.name]] = {**found, "sampler": outcome.summary["sampler"]}
    methods = [method for method in METHODS if any(m == method for _, m in cells)]
    result = {
        "graphs": [
            {"name": name, **facts, "methods": {m: cells[name, m] for m in methods}} for name, facts in graphs.items()
        ],
        "left_out": dict(missing),
        "seeds": list(request.seeds),
        **comparison_over(graphs, methods, cells),
    }
    scale = SCALES[request.budget]
    heading = f"{len(graphs)} graphs · {len(methods)} methods · {len(request.seeds)} seeds"
    model = f"GraphSAGE {scale.layers}×{scale.hidden}, Adam, learning rate 0.01, dropout 0.5"
    facts = {"model": model, "epochs": str(scale.epochs), "batches per epoch": f"about {STEPS} (full graph 1)"}
    if missing:
        facts["left out"] = "; ".join(f"{name}: {why}" for name, why in missing.items())
    return Finding(
        "survey",
        heading,
        in_words(result),
        [accuracy_table(heading, result, methods), *versus_tables(result), cost_table(result, methods)],
        [*rank_chart(result), difference_chart(result, methods)],
        result,
        facts,
        failed=tuple(failed),
    )


# -- statistics -------------------------------------------------------------------------------------------------------


def comparison_over(
    graphs: Mapping[str, dict[str, Any]], methods: Sequence[str], cells: Mapping[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """Mean ranks over the graphs that every method finished, and every other method against ``OURS``.

    Means and signed ranks over graphs need one unit: a graph that is judged by no share has no part in them.
    """
    shares = [name for name, facts in graphs.items() if METRICS[facts["metric"]].percent]
    whole = [name for name in shares if all("error" not in cells[name, m] for m in methods)]
    scores = np.array([[cells[n, m]["test"]["mean"] for m in methods] for n in whole])
    if len(whole) < 2 or len(methods) < 2:
        return {"ranks": None, "against": []}
    ranks = {
        "graphs": whole,
        "mean": dict(zip(methods, mean_ranks(scores).tolist(), strict=True)),
        "friedman_p": friedman(scores),
        "critical_difference": critical_difference(len(methods), len(whole), ALPHA),
    }
    against: list[dict[str, Any]] = []
    if OURS in methods:
        ours = methods.index(OURS)
        for i, method in enumerate(methods):
            if i != ours:
                off = scores[:, ours] - scores[:, i]
                p = holm([paired_t(cells[n, OURS]["seeds"], cells[n, method]["seeds"]) for n in whole])
                told = [0 if not q < ALPHA else int(np.sign(d)) for q, d in zip(p, off, strict=True)]
                row = {"method": method, "points": 100 * float(off.mean())}
                row["p"] = wilcoxon_signed(scores[:, ours].tolist(), scores[:, i].tolist())
                row |= {"better": told.count(1), "level": told.count(0), "worse": told.count(-1)}
                against.append({**row, "seeds_p": dict(zip(whole, p, strict=True))})
        for row, q in zip(against, holm([row["p"] for row in against]), strict=True):
            row["p_holm"] = q
    return {"ranks": ranks, "against": against}


# -- tables and charts ------------------------------------------------------------------------------------------------


def accuracy_table(heading: str, result: dict[str, Any], methods: Sequence[str]) -> Table:
    """The test metric of every method on every graph, best and second best marked, and the mean ranks below."""
    rows = []
    for graph in result["graphs"]:
        found = [graph["methods"][m] for m in methods]
        judge = METRICS[graph["metric"]]
        ranks = best_two([mean_of(cell.get("test")) for cell in found], judge.higher_is_better)
        texts = ["failed" if "error" in cell else judge.text(cell["test"]) for cell in found]
        rows.append(
            [
                Cell(f"{graph['name']}, {judge.label()}"),
                *(Cell(text, rank) for text, rank in zip(texts, ranks, strict=True)),
            ]
        )
    if result["ranks"]:
        mean = [result["ranks"]["mean"][m] for m in methods]
        marks = best_two(mean, highest=False)
        rows.append([Cell("mean rank"), *(Cell(f"{r:.2f}", k) for r, k in zip(mean, marks, strict=True))])
    return Table(f"Test · {heading}", ["Graph", *map(title, methods)], rows)


def versus_tables(result: dict[str, Any]) -> list[Table]:
    """Every other method against ours: points over the graphs, and on how many graphs the seeds tell them apart."""
    rows = [
        [
            Cell(title(row["method"])),
            Cell(f"{row['points']:+.2f}"),
            Cell(f"{row['p_holm']:.3f}"),
            Cell(str(row["better"])),
            Cell(str(row["level"])),
            Cell(str(row["worse"])),
        ]
        for row in result["against"]
    ]
    head = [f"{title(OURS)} against", "mean points", "p over graphs (Wilcoxon, Holm)", "better", "level", "worse"]
    told = f"{title(OURS)} against each; by graph: paired t over seeds, Holm, {ALPHA:g}"
    return [Table(told, head, rows)] if rows else []


def cost_table(result: dict[str, Any], methods: Sequence[str]) -> Table:
    """Seconds of an epoch over those of plain RNS."""
    rows = []
    for graph in result["graphs"]:
        seconds = [mean_of(graph["methods"][m].get("epoch_seconds")) for m in methods]
        plain = mean_of(graph["methods"]["rns"].get("epoch_seconds"))
        texts = ["" if s is None or not plain else f"{s / plain:.2f}" for s in seconds]
        rows.append([Cell(graph["name"]), *map(Cell, texts)])
    return Table("Seconds of an epoch, RNS = 1", ["Graph", *map(title, methods)], rows)


def rank_chart(result: dict[str, Any]) -> list[Chart]:
    """Mean ranks, each with a bar of the critical difference: two methods are told apart where bars do not overlap."""
    if not result["ranks"]:
        return []
    ranks = dict(sorted(result["ranks"]["mean"].items(), key=lambda item: item[1]))
    half = result["ranks"]["critical_difference"] / 2
    names = [title(m) for m in ranks]
    series = [
        Series(name, [name], [rank], [rank - half], [rank + half], hue)
        for name, rank, hue in zip(names, ranks.values(), hues(list(ranks)), strict=True)
    ]
    y = Axis("mean rank (1 is best), bar = critical difference")
    heading = f"Mean ranks over {len(result['ranks']['graphs'])} graphs: bars that do not overlap differ"
    return [Chart("ranks", heading, [View("ranks", "dot", Axis("", of=names), y, series)])]


def difference_chart(result: dict[str, Any], methods: Sequence[str]) -> Chart:
    """How far above plain RNS on every graph, seed by seed: mean and 95% CI of the differences."""
    graphs = [g for g in result["graphs"] if "error" not in g["methods"]["rns"]]
    names, judges = [g["name"] for g in graphs], [METRICS[g["metric"]] for g in graphs]
    others = [m for m in methods if m != "rns"]
    series = []
    for method, hue in zip(others, hues(others), strict=True):
        off = [
            None
            if "error" in of[method]
            else mean_ci95((judge.scale * np.subtract(of[method]["seeds"], of["rns"]["seeds"])).tolist())
            for of, judge in zip((g["methods"] for g in graphs), judges, strict=True)
        ]
        series.append(points(title(method), names, off, hue))
    units = sorted({"points" if judge.percent else spaced(judge.name) for judge in judges})
    view = View("points", "dot", Axis("", of=names), Axis(f"{' or '.join(units)} above RNS"), series)
    return Chart("survey", "Every method against plain RNS", [view])


def in_words(result: dict[str, Any]) -> str:
    """Who ranks first, who cannot be told from it, and how our method does against each of the others."""
    if not result["ranks"]:
        return "Ranks need two graphs that every method finished, judged by shares."
    ranks = dict(sorted(result["ranks"]["mean"].items(), key=lambda item: item[1]))
    (first, best), *rest = ranks.items()
    gap = result["ranks"]["critical_difference"]
    level = [title(m) for m, rank in rest if rank - best < gap]
    worse = [title(m) for m, rank in rest if rank - best >= gap]
    said = f"{title(first)} has the best mean rank, {best:.2f}"
    said += f"; by the critical difference of {gap:.2f} it is not told apart from {words(level)}" if level else ""
    said += f"; it is from {words(worse)}" if worse else ""
    losses = [f"{row['worse']} to {title(row['method'])}" for row in result["against"] if row["worse"] > row["better"]]
    lost = f" {title(OURS)} loses more graphs than it wins against some: {words(losses)}." if losses else ""
    return f"{said}. Friedman's p is {result['ranks']['friedman_p']:.2g}.{lost}"
