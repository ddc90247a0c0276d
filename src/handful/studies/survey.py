"""Every sampler on every available graph, at equal epochs and at equal time, with paired tests and mean ranks.

All methods train the same GraphSAGE with the same settings, in about ``STEPS`` batches per epoch (full-graph training
has one batch). Methods train for ``LONGER`` times the epochs of the comparison, so that the same records give three
results: the metric after equal epochs; the metric after the time that neighbour sampling needs for these epochs; and
the metric of our methods after ``HALF`` of this time. If ``tune_each`` is given, there is another
result instead: the metric of each method with its best settings. The validation metric chooses the learning rate,
dropout, weight decay, number of batches and epoch. Graphs whose files are missing are left out, and the finding lists
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets import load
from handful.errors import DatasetError
from handful.experiment import Experiment, sampler_of
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, points, ranked, text_table
from handful.graph import Graph
from handful.statistics import critical_difference, friedman, holm, mean_ci95, mean_ranks, paired_t, wilcoxon_signed
from handful.studies.budget import SMOKE, Request, Scale, adapt, scaled
from handful.studies.grid import Entry, Grid
from handful.studies.presets import read_table
from handful.training.label_features import refusal
from handful.training.record import Run
from handful.vocabulary import METHODS, PAPER_SEEDS, hues, spaced, title, words

STEPS = 4
"""The number of batches per epoch, which is the m of RNS. The options of the other samplers give about
the same number.
"""
SCALES = {"laptop": Scale(hidden=64, layers=2, epochs=40), "paper": Scale(hidden=256, layers=3, epochs=300)}
OURS = ("rns-mean-field", "rns-labels")
"""The methods with which the statistical tests compare all other methods."""
RIVAL, HALF = "neighbor", 0.5
"""The method that our methods are compared with after this fraction of its time."""
LONGER, ONCE = 3, (RIVAL,)
"""Most methods train for ``LONGER`` times the epochs of the comparison. The methods ``ONCE``, whose time is the limit
of the others, train only for the epochs of the comparison.
"""
TUNED, PATIENCE, TRIED = 7.5, 10, (2, 4, 8, 16)
"""For the best settings, all methods train for up to ``TUNED`` times the epochs of the comparison. Training stops after
``PATIENCE`` of ``EVALUATED`` evaluations without a better metric. ``TRIED`` are the numbers of batches per epoch.
"""
EVALUATED = 60
ALPHA = 0.05


@dataclass(frozen=True)
class Case:
    """A graph of the survey. The number of epochs of the budget is multiplied by ``epochs``."""

    label: str
    graph: str
    split: str | None = None
    epochs: float = 1.0


CASES, TINY = ([Case(**one) for one in read_table("survey", size)] for size in ("graphs", "smoke"))
"""The graphs of the survey, and the graphs for the budget ``smoke``."""


def scale_of(request: Request) -> Scale:
    """The size of the model and the number of epochs of the comparison."""
    return scaled(request, SCALES.get(request.budget, SMOKE))


def options_for(graph: Graph, layers: int, steps: int = STEPS) -> dict[str, dict[str, Any]]:
    """For every method, sampler options that give about ``steps`` batches per epoch on ``graph``."""
    n, batch = graph.num_nodes, -(-len(graph.train_nodes) // steps)
    clusters = min(10 * steps, n)
    options: dict[str, dict[str, Any]] = {
        "neighbor": {"fanout": (10,) * layers, "batch_size": batch},
        "cluster": {"clusters": clusters, "per_batch": -(-clusters // steps)},
        "saint": {"roots": max(1, n // (2 * steps)), "length": 2},
        "ladies": {"budget": (max(1, min(8192, n // steps)),), "batch_size": batch},
        **{method: {"parts": steps} for method in METHODS if method.startswith("rns")},
    }
    return {method: options.get(method, {}) for method in METHODS}


def set_up(base: Experiment, method: str, options: dict[str, Any], tuned: bool = False) -> Experiment:
    """Set the method and the epochs of ``base``. ClusterGCN gets an exact first hop, as in its original code
    (``precalc``). If ``tuned``, the experiment is the start of a search for the best settings.
    """
    hop = "exact" if method == "cluster" else "sampled"
    epochs = round(base.settings.epochs * (TUNED if tuned else 1 if method in ONCE else LONGER))
    search = {"patience": PATIENCE, "evaluate_every": max(1, epochs // EVALUATED)} if tuned else {}
    return base.with_(epochs=epochs, first_hop=hop, **search).with_method(method, **options)


def run(request: Request) -> Finding:
    """Every sampler on every available graph, at equal epochs and at equal time, with paired tests and mean ranks.

    The survey uses all available graphs, or only ``request.graph``. For the budget ``laptop``, the default seeds are
    those of ``paper``.
    """
    if request.budget == "laptop" and not request.seeds_given:
        request = replace(request, seeds=PAPER_SEEDS)
    entries, missing = plan_jobs(request)
    return survey_finding(request, Grid.train(request, entries), missing)


def plan_jobs(request: Request) -> tuple[dict[str, Entry], dict[str, str]]:
    """The jobs of the survey, and an error message for each missing graph. Every graph is loaded once,
    to get its size.
    """
    cases = TINY if request.budget == "smoke" else CASES
    if request.graph is not None:
        cases = [Case(request.graph, request.graph, request.split)]
    scale, entries, missing = scale_of(request), {}, {}
    for case in cases:
        if request.root is not None and (path := Path(request.root, case.graph)).is_file():
            case = replace(case, graph=str(path))
        try:
            graph = load(case.graph, split=case.split, root=request.root, seed=request.seeds[0]).require_training()
        except DatasetError as error:
            missing[case.label] = str(error)
            continue
        how = {**asdict(scale), "epochs": max(1, round(case.epochs * scale.epochs)), "dropout": 0.5, "lr": 0.01}
        known = {"name": case.label, "graph": case.graph, "split": case.split, "nodes": graph.num_nodes}
        known |= {"edges": graph.num_edges, "metric": graph.metric, "epochs": how["epochs"]}
        stem = re.sub(r"[^A-Za-z0-9]+", "-", case.label).strip("-")
        base = adapt(request, Experiment(case.graph, split=case.split, **how))
        tried = [options_for(graph, scale.layers, steps) for steps in TRIED]
        for method, options in options_for(graph, scale.layers).items():
            job = set_up(base, method, options, bool(request.tune_each))
            samplers = [*dict.fromkeys(sampler_of(method, **each[method]) for each in tried)]
            if job.settings.label_features == "yes" and refusal(graph, job.sampler) is not None:
                continue
            facts = {**known, "method": method}
            entries[f"{stem}-{method}"] = Entry(job, case.label, method, facts=facts, samplers=samplers)
    if not entries:
        raise DatasetError("no graph of the survey is available: " + "; ".join(missing.values()))
    return entries, missing


def survey_finding(request: Request, grid: Grid, missing: dict[str, str]) -> Finding:
    """Make the finding of the survey."""
    graphs, methods, scale = grid.names("row"), grid.names("column"), scale_of(request)
    heading = f"{len(graphs)} graphs · {len(methods)} methods · {len(request.seeds)} seeds"
    epochs = {entry.row: entry.facts["epochs"] for entry in grid.entries.values()}
    taken = {graph: {m: grid.mean(graph, m, "epoch_seconds") or 0.0 for m in methods} for graph in graphs}
    rival = {graph: own.get(RIVAL) or max(own.values()) or inf for graph, own in taken.items()}
    limits = {graph: epochs[graph] * rival[graph] for graph in graphs}
    timed = cut_grid(grid, "train_seconds", limits, ONCE)
    questions = {"equal epochs": cut_grid(grid, "epoch", epochs), "equal seconds": timed}
    if request.tune_each:
        questions = {"best settings": grid}
    said, tables, charts, payload = [], [], [], {"left_out": missing, "seeds": list(request.seeds), "seconds": limits}
    for question, one in questions.items():
        ranks, against = rank(one), [row for ours in OURS for row in compare_method(one, ours)]
        said.append(f"At {question}: {conclude(ranks)}")
        tables.append(accuracy_table(f"{question} · {heading}", one, ranks))
        if against:
            tables.append(versus_table(question, against))
        if ranks is not None:
            charts.append(rank_chart(question, ranks))
        charts.append(difference_chart(question, one))
        payload[question] = {"ranks": ranks, "against": against}
    if RIVAL in methods and not request.tune_each:
        half = cut_grid(grid, "train_seconds", {graph: HALF * limit for graph, limit in limits.items()}, ONCE)
        payload["half"] = against = [row for ours in OURS for row in compare_method(half, ours, [RIVAL])]
        tables.append(versus_table(f"{HALF:g} of its seconds", against))
    tables.append(cost_table(grid))
    charts.append(trade_chart(*next(iter(questions.items()))))
    result = grid.finding("survey", " ".join(said), tables, charts, payload=payload, curves=False)
    how, most, batches = "learning rate 0.01, dropout 0.5", f"{scale.epochs}", f"about {STEPS} (full graph 1)"
    if request.tune_each:
        most, batches = f"up to {round(TUNED * scale.epochs)}", f"tuned ({words(TRIED)}; full graph 1)"
        how = f"learning rate, dropout and weight decay tuned on the first seed with {request.tune_each} trials"
    model = f"GraphSAGE {scale.layers}×{scale.hidden}, Adam, {how}"
    facts = {"model": model, "epochs": most, "batches per epoch": batches}
    if missing:
        facts["left out"] = "; ".join(f"{name}: {why}" for name, why in missing.items())
    return replace(result, title=heading, facts=facts)


# -- equal epochs and seconds -----------------------------------------------------------------------------------------


def cut_grid(grid: Grid, key: str, limits: Mapping[str, float], uncut: Sequence[str] = ()) -> Grid:
    """For each run, choose the best epoch only among the evaluations whose ``key`` is at most the limit of the graph.
    The methods ``uncut`` have no limit.
    """

    def cut_run(run: Run, limit: float) -> Run:
        lines = [line for line in run.history if line["val"] is not None]
        lines = [line for line in lines if line[key] <= limit] or lines[:1]
        best = max(lines, key=lambda line: line["val"] * (1 if run.higher_is_better else -1), default=None)
        return run if best is None else replace(run, val=best["val"], test=best["test"], best_epoch=best["epoch"])

    outcomes = {}
    for name, outcome in grid.outcomes.items():
        if outcome.summary is not None and grid.entries[name].column not in uncut:
            runs = [cut_run(run, limits[grid.entries[name].row]) for run in outcome.summary.runs]
            outcome = replace(outcome, summary=replace(outcome.summary, runs=runs))
        outcomes[name] = outcome
    return Grid(grid.entries, outcomes)


# -- statistics -------------------------------------------------------------------------------------------------------


def whole(grid: Grid) -> list[str]:
    """The graphs that all methods finished and whose metric is a percentage. Only the results on these graphs can be
    averaged.
    """
    jobs = {graph: [grid.outcome(graph, m) for m in grid.names("column")] for graph in grid.names("row")}
    return [graph for graph, own in jobs.items() if all(o.summary is not None and o.metric.percent for o in own)]


def rank(grid: Grid) -> dict[str, Any] | None:
    """Rank the methods. The result contains their mean ranks over the graphs in ``whole(grid)``, best first, and the
    tests of the ranks.

    The result is ``None`` if there are fewer than two graphs or fewer than three methods.
    """
    graphs, methods = whole(grid), grid.names("column")
    if len(graphs) < 2 or len(methods) < 3:
        return None
    scores = np.array([[grid.mean(graph, method) for method in methods] for graph in graphs], float)
    mean = dict(sorted(zip(methods, mean_ranks(scores).tolist(), strict=True), key=lambda item: item[1]))
    apart = critical_difference(len(methods), len(graphs), ALPHA)
    return {"graphs": graphs, "mean": mean, "friedman_p": friedman(scores), "critical_difference": apart}


def compare_method(grid: Grid, mine: str, others: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Compare the method ``mine`` with the methods ``others``, by default all, by two tests: over the means on all
    graphs, and on each graph over its seeds.
    """
    graphs, methods = whole(grid), grid.names("column")
    if len(graphs) < 2 or mine not in methods:
        return []
    rows: list[dict[str, Any]] = []
    for method in (one for one in methods if one != mine and (others is None or one in others)):
        ours, theirs = (np.array([grid.mean(graph, m) for graph in graphs], float) for m in (mine, method))
        seeds = [[grid.outcome(g, m).seeds("test") for m in (mine, method)] for g in graphs]
        p = holm([paired_t(*pair) for pair in seeds])
        signs = [int(np.sign(d)) if q < ALPHA else 0 for q, d in zip(p, ours - theirs, strict=True)]
        row = {"ours": mine, "method": method, "points": 100 * float((ours - theirs).mean())}
        row["p"] = wilcoxon_signed(ours.tolist(), theirs.tolist())
        row |= {"better": signs.count(1), "level": signs.count(0), "worse": signs.count(-1)}
        rows.append({**row, "seeds_p": dict(zip(graphs, p, strict=True))})
    return [{**row, "p_holm": q} for row, q in zip(rows, holm([row["p"] for row in rows]), strict=True)]


# -- tables and charts ------------------------------------------------------------------------------------------------


def accuracy_table(heading: str, grid: Grid, ranks: dict[str, Any] | None) -> Table:
    """Make a table of the test metric of every method on every graph, and of the mean ranks. The best two values of a
    row are marked.
    """
    table = grid.cross_table(f"Test · {heading}", "Graph", best_in="row")
    labels = [f"{graph}, {grid.outcome(graph, 'rns').metric.label()}" for graph in grid.names("row")]
    rows = [[Cell(label), *row[1:]] for label, row in zip(labels, table.rows, strict=True)]
    if ranks is not None:
        mean = [ranks["mean"][method] for method in grid.names("column")]
        rows.append([Cell("mean rank"), *ranked([f"{rank:.2f}" for rank in mean], mean, highest=False)])
    return replace(table, rows=rows)


def versus_table(question: str, against: list[dict[str, Any]]) -> Table:
    """Make a table that compares our methods with other methods: the mean difference in percentage points, its p-value,
    and the numbers of graphs on which our method is significantly better, level or worse.
    """
    counts = ("better", "level", "worse")
    rows = [
        [f"{title(row['ours'])} against {title(row['method'])}", f"{row['points']:+.2f}", f"{row['p_holm']:.3f}"]
        + [str(row[key]) for key in counts]
        for row in against
    ]
    head = ["", "mean points", "p over graphs (Wilcoxon, Holm)", *counts]
    heading = f"Our methods against others at {question}; by graph: paired t over seeds, Holm, {ALPHA:g}"
    return text_table(heading, head, rows)


def cost_table(grid: Grid) -> Table:
    """Make a table of the time per epoch of every method, relative to plain RNS."""
    methods, rows = grid.names("column"), []
    for graph in grid.names("row"):
        plain = grid.mean(graph, "rns", "epoch_seconds")
        seconds = [grid.mean(graph, method, "epoch_seconds") for method in methods]
        rows.append([Cell(graph), *(Cell("" if s is None or not plain else f"{s / plain:.2f}") for s in seconds)])
    return Table("Seconds of an epoch, RNS = 1", ["Graph", *map(title, methods)], rows)


def rank_chart(question: str, ranks: dict[str, Any]) -> Chart:
    """Chart the mean ranks, each with an error bar whose length is the critical difference. Methods differ
    significantly if their bars do not overlap.
    """
    half, series = ranks["critical_difference"] / 2, []
    for (method, mean), hue in zip(ranks["mean"].items(), hues(list(ranks["mean"])), strict=True):
        series.append(Series(title(method), [title(method)], [mean], [mean - half], [mean + half], hue))
    x, y = Axis("", of=[one.name for one in series]), Axis("mean rank (1 is best), bar = critical difference")
    heading = f"Mean ranks at {question} over {len(ranks['graphs'])} graphs: bars that do not overlap differ"
    return Chart(f"ranks-{question.replace(' ', '-')}", heading, [View("ranks", "dot", x, y, series)])


def trade_chart(question: str, grid: Grid) -> Chart:
    """Chart the gain over plain RNS, in percentage points, against the time per epoch and the memory relative to plain
    RNS. All values are means over graphs.
    """
    graphs = [graph for graph in whole(grid) if grid.mean(graph, "rns", "epoch_seconds")]
    views = []
    for name, key, label in (("seconds", "epoch_seconds", "seconds of an epoch"), ("memory", "memory", "peak memory")):
        series = []
        for method, hue in zip(grid.names("column"), hues(grid.names("column")), strict=True):
            each = [[grid.mean(graph, m, key) or nan for m in (method, "rns")] for graph in graphs]
            gain = [100 * ((grid.mean(g, method) or nan) - (grid.mean(g, "rns") or nan)) for g in graphs]
            cost = float(np.exp(np.mean(np.log(np.divide(*np.transpose(each)))))) if each else nan
            series.append(Series(title(method), [cost], [float(np.mean(gain)) if gain else nan], color=hue))
        x, y = Axis(f"{label}, RNS = 1 (geometric mean)", log=True), Axis("points above RNS (mean)")
        views.append(View(name, "dot", x, y, series))
    return Chart("trade", f"What accuracy costs, {len(graphs)} graphs, {question}", views, together=True)


def difference_chart(question: str, grid: Grid) -> Chart:
    """Chart the paired differences from plain RNS on every graph, with mean and 95% CI over the seeds."""
    plain = {graph: grid.outcome(graph, "rns") for graph in grid.names("row")}
    plain = {graph: outcome for graph, outcome in plain.items() if outcome.summary is not None}
    others = [method for method in grid.names("column") if method != "rns"]
    series = []
    for method, hue in zip(others, hues(others), strict=True):
        gaps: list[dict[str, float] | None] = []
        for graph, rns in plain.items():
            seeds = grid.outcome(graph, method).seeds("test")
            gaps.append(mean_ci95(rns.metric.scale * np.subtract(seeds, rns.seeds("test"))) if seeds else None)
        series.append(points(title(method), list(plain), gaps, hue))
    units = sorted({"points" if rns.metric.percent else spaced(rns.metric.name) for rns in plain.values()})
    view = View("points", "dot", Axis("", of=list(plain)), Axis(f"{' or '.join(units)} above RNS"), series)
    name = "survey" if question == "equal epochs" else f"survey-{question.split()[-1]}"
    return Chart(name, f"Every method against plain RNS at {question}", [view])


def conclude(ranks: dict[str, Any] | None) -> str:
    """Name the method with the best mean rank, and the methods whose mean ranks are worse by at least the critical
    difference.
    """
    if ranks is None:
        return "Ranks need two graphs that all methods finished, with metrics that are shares."
    (first, best), *rest = ranks["mean"].items()
    apart = ", ".join(title(method) for method, mean in rest if mean - best >= ranks["critical_difference"])
    return f"{title(first)} has the best mean rank, {best:.2f}, and is clearly better than {apart or 'no other'}."
