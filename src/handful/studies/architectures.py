"""Does RNS go with every backbone? GCN, GraphSAGE, GAT and SGFormer, full graph against RNS."""

from __future__ import annotations

from handful.report.tables import Cell, percent
from handful.studies import Finding, Request, presets
from handful.studies.budget import (
    Scale,
    failures,
    graph_and_metric,
    graph_of,
    job,
    printed,
    scaled,
    setting,
    small_model,
    small_recipe,
    train,
)
from handful.studies.jobs import Job

SCALE = Scale(hidden=64, layers=3, epochs=40)
MODELS = {"gcn": "GCN", "sage": "GraphSAGE", "gat": "GAT", "sgformer": "SGFormer"}
METHODS = ("full", "rns")


def model_job(request: Request, graph: str, model: str, method: str) -> Job | None:
    """One cell of the table; ``None`` where the paper ran out of memory."""
    name = f"{model}-{method}"
    if request.budget == "paper":
        recipe = presets.tuned(graph, model, method)
        if recipe is None:
            return None
        return job(request, name, graph, recipe, model, presets.architecture(graph, model))
    scale = scaled(request, SCALE)
    return job(request, name, graph, small_recipe(method, scale), model, small_model(model, scale))


def run(request: Request) -> Finding:
    """Eight jobs; each backbone with the paper's own hyperparameters for either method, or all with the same."""
    graph = graph_of(request, "ogbn-arxiv")
    plan = {(model, method): model_job(request, graph, model, method) for model in MODELS for method in METHODS}
    jobs = [job for job in plan.values() if job is not None]
    outcomes = train(request, jobs)
    tests = {o.job.name: o.summary["test"] for o in outcomes if o.summary is not None}
    failed = failures(outcomes)
    rows, payload, gains = [], [], {}
    for model, title in MODELS.items():
        found = {method: tests.get(f"{model}-{method}") for method in METHODS}
        full, rns = found["full"], found["rns"]
        delta = None if full is None or rns is None else rns["mean"] - full["mean"]
        if delta is not None:
            gains[title] = delta
        cells = [
            Cell(percent(test), int(delta is not None and (delta > 0) == (method == "rns")))
            if test is not None
            else Cell("failed" if plan[model, method] is not None else "not in the paper (OOM)")
            for method, test in found.items()
        ]
        rows.append([Cell(title), *cells, Cell("" if delta is None else f"{100 * delta:+.2f}")])
        payload.append(
            {
                "model": model,
                **found,
                "delta": delta,
                "paper": printed("tab:testacc_full_rns_pct_compact", graph, model),
                "errors": {m: failed[f"{model}-{m}"] for m in METHODS if f"{model}-{m}" in failed},
            }
        )
    name, metric = graph_and_metric(outcomes)
    better = [f"{title} {100 * gain:+.2f}" for title, gain in gains.items()]
    return Finding(
        payload={"graph": name, "metric": metric, "models": payload},
        title=f"{name} · test {metric.replace('_', ' ')} (%) · {setting(jobs)}",
        head=["Model", "Full", "RNS", "Δ"],
        rows=rows,
        words=f"Points from full graph to RNS: {'; '.join(better) or 'none to tell'}.",
        failed=tuple(failed),
    )
