"""Does RNS go with every backbone? GCN, GraphSAGE, GAT and SGFormer, full graph against RNS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, Series, View
from handful.studies import presets
from handful.studies.beside import paper_number, points_beside
from handful.studies.budget import Scale, asked, scaled, small, train_jobs
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS
from handful.vocabulary import hues, title

SCALE = Scale(hidden=64, layers=3, epochs=40)
MODELS = ("gcn", "sage", "gat", "sgformer")
METHODS = ("full", "rns")


def cell(request: Request, graph: str, model: str, method: str) -> Experiment | None:
    """One cell of the table; ``None`` where the paper ran out of memory."""
    if request.budget == "paper":
        tuned = presets.tuned(graph, model, method)
        return None if tuned is None else asked(request, tuned)
    return asked(request, small(graph, method, scaled(request, SCALE), model))


def run(request: Request) -> Finding:
    """Eight jobs; each backbone with the paper's own hyperparameters for either method, or all with the same."""
    graph = request.graph_or("ogbn-arxiv")
    cells = {f"{model}-{method}": cell(request, graph, model, method) for model in MODELS for method in METHODS}
    jobs = {name: job for name, job in cells.items() if job is not None}
    outcomes = train_jobs(request, jobs)
    tests = {o.name: o.summary["test"] for o in outcomes if o.summary is not None}
    failed = failures(outcomes)
    name, metric = graph_and_metric(outcomes)
    judge = METRICS[metric]
    rows, payload, gains = [], [], {}
    for model in MODELS:
        found = {method: tests.get(f"{model}-{method}") for method in METHODS}
        full, rns = found["full"], found["rns"]
        delta = None if full is None or rns is None else rns["mean"] - full["mean"]
        ahead = "" if delta is None else METHODS[int((delta > 0) == judge.higher_is_better)]
        if delta is not None:
            gains[title(model)] = delta
        texts = [
            Cell(judge.text(test), int(method == ahead))
            if test is not None
            else Cell("failed" if f"{model}-{method}" in jobs else "not in the paper (OOM)")
            for method, test in found.items()
        ]
        rows.append([Cell(title(model)), *texts, Cell("" if delta is None else judge.signed(delta))])
        payload.append(
            {
                "model": model,
                **found,
                "delta": delta,
                "paper": paper_number("tab:testacc_full_rns_pct_compact", graph, model),
                "errors": {m: failed[f"{model}-{m}"] for m in METHODS if f"{model}-{m}" in failed},
            }
        )
    better = [f"{model} {judge.signed(gain)}" for model, gain in gains.items()]
    y = Axis(judge.label("test"))
    view = View(
        "test", "dot", Axis("", of=[title(model) for model in MODELS]), y, method_points(MODELS, payload, judge.scale)
    )
    return trained_finding(
        "architectures",
        outcomes,
        title=f"{name} · {judge.label('test')} · {setting(jobs)}",
        words=f"{judge.differences} from full graph to RNS: {'; '.join(better) or 'none to tell'}.",
        head=["Model", "Full", "RNS", "Δ"],
        rows=rows,
        payload={"graph": name, "metric": metric, "models": payload},
        charts=[Chart("architectures", f"{name}: full graph and RNS by backbone", [view])],
        labels={f"{model}-{method}": f"{title(model)}, {title(method)}" for model in MODELS for method in METHODS},
    )


def method_points(names: Sequence[str], rows: Sequence[dict[str, Any]], scale: float) -> list[Series]:
    """Full graph and RNS in every row, beside the paper's."""
    x = [title(name) for name in names]
    return [
        series
        for method, color in zip(METHODS, hues(METHODS), strict=True)
        for series in points_beside(
            title(method),
            x,
            [row[method] for row in rows],
            [(row["paper"] or {}).get(method) for row in rows],
            color,
            scale,
        )
    ]
