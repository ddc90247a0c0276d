"""GraphLand: full graph against RNS on seven data sets, with few labels (RL) and with many (RH)."""

from __future__ import annotations

from typing import Any

from handful.datasets import home
from handful.errors import DatasetError, HandfulError, unknown
from handful.report.tables import Cell, percent
from handful.studies import Finding, Request, presets
from handful.studies.budget import Scale, failures, job, printed, scaled, setting, small_model, small_recipe, train
from handful.studies.datasets import absent, here
from handful.studies.jobs import Job

SCALE = Scale(hidden=128, layers=3, epochs=40)
MODEL = "graphland-sage"
DATASETS = (
    "hm-categories",
    "pokec-regions",
    "web-topics",
    "tolokers-2",
    "city-reviews",
    "artnet-exp",
    "web-fraud",
)
SPLITS = ("rl", "rh")
METHODS = ("full", "rns")


def data_job(request: Request, name: str, split: str, method: str) -> Job:
    """One cell of the table, with GraphLand's own GraphSAGE."""
    if request.budget == "paper":
        recipe, options = presets.graphland(name, split, method), presets.architecture(name, MODEL)
    else:
        scale = scaled(request, SCALE)
        recipe, options = small_recipe(method, scale), small_model(MODEL, scale)
    return job(request, f"{name}-{split}-{method}", name, recipe, MODEL, options, split=split)


def run(request: Request) -> Finding:
    """All data sets that are on disk, or the one asked for."""
    names = (request.graph,) if request.graph else DATASETS
    for name in names:
        if name not in DATASETS:
            raise HandfulError(unknown("data set of GraphLand", name, DATASETS))
    known = [name for name in names if here(name, request.root)]
    if not known:
        raise DatasetError(f"none of {', '.join(names)} is in {home(request.root)}: `handful info NAME` fetches one")
    plan = [data_job(request, name, split, method) for name in known for split in SPLITS for method in METHODS]
    outcomes = train(request, plan)
    tests = {o.job.name: o.summary["test"] for o in outcomes if o.summary is not None}
    rows: list[list[Cell]] = []
    payload: list[dict[str, Any]] = []
    for name in names:
        if name not in known:
            rows.append([Cell(name), Cell("not on disk"), *[Cell("")] * 5])
            payload.append({"dataset": name, "missing": absent(name, request.root)})
            continue
        row = [Cell(name)]
        entry: dict[str, Any] = {"dataset": name}
        for split in SPLITS:
            full, rns = (tests.get(f"{name}-{split}-{method}") for method in METHODS)
            delta = rns["mean"] - full["mean"] if full and rns else None
            best = {"full": delta is not None and delta < 0, "rns": delta is not None and delta > 0}
            row += [
                Cell(percent(t), int(best[m])) if t else Cell("failed")
                for m, t in zip(METHODS, (full, rns), strict=True)
            ]
            row.append(Cell("" if delta is None else f"{100 * delta:+.2f}"))
            entry[split] = {
                "full": full,
                "rns": rns,
                "delta": delta,
                "paper": printed("tab:graphland_rns", name, split),
            }
        rows.append(row)
        payload.append(entry)
    deltas = [entry[split]["delta"] for entry in payload if "missing" not in entry for split in SPLITS]
    told = [delta for delta in deltas if delta is not None]
    failed = failures(outcomes)
    return Finding(
        payload={"datasets": payload, "failed": failed},
        title=f"GraphLand · accuracy, or average precision of two classes (%) · {setting(plan)}",
        head=["Data set", *(f"{split.upper()} {what}" for split in SPLITS for what in ("full", "RNS", "Δ"))],
        rows=rows,
        words=f"RNS matches or improves on full-graph training in {sum(d >= 0 for d in told)} of {len(told)} cases.",
        failed=tuple(failed),
    )
