"""GraphLand: full graph against RNS on seven data sets, with few labels (RL) and with many (RH)."""

from __future__ import annotations

from typing import Any

from handful.datasets import home, sources
from handful.errors import DatasetError, HandfulError, unknown
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, View
from handful.studies import presets
from handful.studies.architectures import METHODS, method_points
from handful.studies.beside import paper_number
from handful.studies.budget import Scale, asked, scaled, small, train_jobs
from handful.studies.datasets import absent, here
from handful.studies.request import Request
from handful.studies.trained import failures, setting, trained_finding
from handful.training.metrics import METRICS
from handful.vocabulary import title

SCALE = Scale(hidden=128, layers=3, epochs=40)
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


def cell(request: Request, name: str, split: str, method: str) -> Experiment:
    """One cell of the table, with GraphLand's own GraphSAGE."""
    if request.budget == "paper":
        return asked(request, presets.graphland(name, split, method))
    return asked(request, small(name, method, scaled(request, SCALE), "graphland-sage").with_(split=split))


def run(request: Request) -> Finding:
    """All data sets that are on disk, or the one asked for."""
    names = (request.graph,) if request.graph else DATASETS
    for name in names:
        if name not in DATASETS:
            raise HandfulError(unknown("data set of GraphLand", name, DATASETS))
    known = [name for name in names if here(name, request.root)]
    if not known:
        raise DatasetError(f"none of {', '.join(names)} is in {home(request.root)}: `handful info NAME` fetches one")
    jobs = {
        f"{name}-{split}-{method}": cell(request, name, split, method)
        for name in known
        for split in SPLITS
        for method in METHODS
    }
    outcomes = train_jobs(request, jobs)
    tests = {o.name: o.summary["test"] for o in outcomes if o.summary is not None}
    rows: list[list[Cell]] = []
    payload: list[dict[str, Any]] = []
    for name in names:
        if name not in known:
            rows.append([Cell(name), Cell("not on disk"), *[Cell("")] * 5])
            payload.append({"dataset": name, "missing": absent(name, request.root)})
            continue
        row = [Cell(name)]
        judge = METRICS[sources()[name].metric]
        entry: dict[str, Any] = {"dataset": name, "metric": judge.name}
        for split in SPLITS:
            full, rns = (tests.get(f"{name}-{split}-{method}") for method in METHODS)
            delta = rns["mean"] - full["mean"] if full and rns else None
            best = {"full": delta is not None and delta < 0, "rns": delta is not None and delta > 0}
            row += [
                Cell(judge.text(t), int(best[m])) if t else Cell("failed")
                for m, t in zip(METHODS, (full, rns), strict=True)
            ]
            row.append(Cell("" if delta is None else judge.signed(delta)))
            paper = paper_number("tab:graphland_rns", name, split)
            entry[split] = {"full": full, "rns": rns, "delta": delta, "paper": paper}
        rows.append(row)
        payload.append(entry)
    measured = [entry for entry in payload if "missing" not in entry]
    told = [entry[split]["delta"] for entry in measured for split in SPLITS if entry[split]["delta"] is not None]
    x, y = Axis("", of=known), Axis("accuracy or average precision (%)")
    views = [
        View(split.upper(), "dot", x, y, method_points(known, [entry[split] for entry in measured], scale=100))
        for split in SPLITS
    ]
    return trained_finding(
        "graphland",
        outcomes,
        title=f"GraphLand · accuracy, or average precision of two classes (%) · {setting(jobs)}",
        words=f"RNS matches or improves on full-graph training in {sum(d >= 0 for d in told)} of {len(told)} cases.",
        head=["Data set", *(f"{split.upper()} {what}" for split in SPLITS for what in ("full", "RNS", "Δ"))],
        rows=rows,
        payload={"datasets": payload, "failed": failures(outcomes)},
        charts=[Chart("graphland", "GraphLand: full graph and RNS", views)],
        labels={
            f"{name}-{split}-{method}": f"{name} {split.upper()}, {title(method)}"
            for name in known
            for split in SPLITS
            for method in METHODS
        },
    )
