"""The paper's main table on any graph: full-graph training against every sampler, one architecture, one budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, View, best_two, mean_of, percent, points
from handful.graph import Graph
from handful.samplers import Sampler, make_sampler
from handful.samplers.ladies import Ladies
from handful.studies.beside import paper_number
from handful.studies.jobs import Outcome, Progress, run_jobs
from handful.studies.trained import graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import METHODS, hues, spaced, title

SAMPLERS = tuple(METHODS)
STEPS = 8
"""Batches per epoch for samplers that go by targets."""


def chosen_samplers(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], layers: int, graph: Graph | None = None
) -> list[Sampler]:
    """Samplers by name, each with its options.

    LADIES draws as many layers as the model has. For ``graph``, samplers that go by targets get ``STEPS`` batches per
    epoch, about as many as the others have: with their usual thousand targets they would take ten times as many steps
    per epoch as RNS, and ten times its time. The paper trains neighbour sampling for a fiftieth of the epochs instead.
    """
    defaults: dict[str, dict[str, Any]] = {"ladies": {"budget": (Ladies().budget[0],) * layers}}
    if graph is not None:
        size = -(-len(graph.train_nodes) // STEPS)
        for name in ("neighbor", "ladies"):
            defaults.setdefault(name, {})["batch_size"] = size
    return [make_sampler(name, **{**defaults.get(name, {}), **options.get(name, {})}) for name in names]


def compare_samplers(
    experiment: Experiment, samplers: Sequence[Sampler], out: Path, workers: int = 1, progress: Progress | None = None
) -> Finding:
    """Train ``experiment`` with every sampler, each in its own process below ``out``."""
    jobs = {sampler.name: experiment.with_(sampler=sampler) for sampler in samplers}
    return comparison("compare", jobs, run_jobs(jobs, out, workers, progress))


def comparison(name: str, jobs: Mapping[str, Experiment], outcomes: Sequence[Outcome]) -> Finding:
    """The table and charts of jobs that differ in their sampler."""
    payload = table_json(outcomes)
    head, rows = table_cells(payload)
    papers = [row["paper"] for row in payload["rows"]]
    if any(papers):
        head = [*head, "Paper (%)"]
        rows = [[*cells, Cell(percent(p["test"]) if p else "")] for cells, p in zip(rows, papers, strict=True)]
    return trained_finding(
        name,
        outcomes,
        title=f"{payload['graph']} · {len(jobs)} way{'s' * (len(jobs) > 1)} to train · {setting(jobs)}",
        words=in_words(payload),
        head=head,
        rows=rows,
        payload=payload,
        charts=[cost_chart(payload)],
    )


def table_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The table as plain values; a sampler that failed has a row with its ``error`` and no numbers."""
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        row: dict[str, Any] = {"sampler": outcome.experiment.sampler.name}
        if outcome.summary is None:
            row["error"] = outcome.error or "it did not finish"
        else:
            row["options"] = outcome.summary["sampler"]
            row |= {
                key: outcome.summary[key] for key in ("test", "val", "seconds", "epoch_seconds", "peak_memory_bytes")
            }
            row["dir"] = str(outcome.folder)
        row["paper"] = paper_number("tab:main-results", outcome.experiment.graph, row["sampler"])
        rows.append(row)
    graph, metric = graph_and_metric(outcomes)
    return {"graph": graph, "metric": metric, "rows": rows}


def table_cells(result: dict[str, Any]) -> tuple[list[str], list[list[Cell]]]:
    """The table for people, best and second best marked as in the paper."""
    gpu = any(row.get("peak_memory_bytes", {}).get("gpu") for row in result["rows"])
    metric = METRICS[result["metric"]]
    head = ["Method", metric.label("Test"), "Seconds", "Seconds per epoch", "RAM (GiB)"]
    if gpu:
        head.append("GPU (GiB)")
    good = [row for row in result["rows"] if "error" not in row]
    tests = best_two([row["test"]["mean"] for row in good], metric.higher_is_better)
    times = best_two([row["seconds"]["mean"] for row in good], highest=False)
    rows: list[list[Cell]] = []
    for row in result["rows"]:
        method = Cell(title(row["sampler"]))
        if "error" in row:
            rows.append([method, Cell(f"failed: {row['error']}"), *[Cell("")] * (len(head) - 2)])
            continue
        at = good.index(row)
        memory = row["peak_memory_bytes"]
        cells = [
            method,
            Cell(metric.text(row["test"]), tests[at]),
            Cell(f"{row['seconds']['mean']:.1f}", times[at]),
        ]
        cells += [Cell(f"{row['epoch_seconds']['mean']:.2f}"), Cell(f"{memory['ram'] / 2**30:.2f}")]
        if gpu:
            cells.append(Cell(f"{(memory['gpu'] or 0) / 2**30:.2f}"))
        rows.append(cells)
    return head, rows


def cost_chart(result: dict[str, Any]) -> Chart:
    """The test metric of every sampler against its time, and against its memory."""
    rows = [row for row in result["rows"] if "error" not in row]
    memory = "gpu" if any(row["peak_memory_bytes"]["gpu"] for row in rows) else "ram"
    costs: dict[str, tuple[Axis, Callable[[dict[str, Any]], float]]] = {
        "time": (Axis("seconds of training", log=True), lambda row: row["seconds"]["mean"]),
        "memory": (
            Axis(f"peak {memory.upper()} (GiB)"),
            lambda row: (row["peak_memory_bytes"][memory] or 0) / 2**30,
        ),
    }
    colors = hues([row["sampler"] for row in rows])
    metric = METRICS[result["metric"]]
    y = Axis(metric.label("test"))
    views = []
    for name, (x, cost) in costs.items():
        series = [
            points(title(row["sampler"]), [cost(row)], [row["test"]], hue, scale=metric.scale)
            for row, hue in zip(rows, colors, strict=True)
        ]
        views.append(View(name, "dot", x, y, series))
    return Chart("costs", f"{result['graph']}: what accuracy costs", views)


def in_words(result: dict[str, Any]) -> str:
    """How far RNS is from full-graph training and from the best of the others."""
    tests = {row["sampler"]: mean for row in result["rows"] if (mean := mean_of(row.get("test"))) is not None}
    if "rns" not in tests or len(tests) < 2:
        return "Without RNS and another method there is nothing to compare."
    metric = METRICS[result["metric"]]
    others = {name: test for name, test in tests.items() if name not in ("full", "rns")}
    told = [f"{_apart(tests['rns'], tests['full'], metric)} full-graph training"] if "full" in tests else []
    if others:
        rival = (max if metric.higher_is_better else min)(others, key=lambda name: others[name])
        told.append(f"{_apart(tests['rns'], others[rival], metric)} {title(rival)}, the best of the others")
    return f"RNS is {' and '.join(told)}."


def _apart(ours: float, theirs: float, metric: Metric) -> str:
    apart = metric.text(abs(ours - theirs)) + (" points" if metric.percent else f" of {spaced(metric.name)}")
    return f"{apart} {'above' if ours >= theirs else 'below'}"
