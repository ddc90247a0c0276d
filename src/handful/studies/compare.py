"""The paper's main table on any graph: full-graph training against every sampler, one architecture, one budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from handful.datasets import sources
from handful.errors import SamplerError
from handful.experiment import Experiment
from handful.finding import Axis, Cell, Chart, Finding, View, best_two, mean_of, points
from handful.graph import Graph
from handful.samplers import Sampler, make_sampler
from handful.samplers.ladies import Ladies
from handful.studies.beside import paper_number
from handful.studies.executors import Executor, Local
from handful.studies.jobs import Outcome, Progress, run_jobs
from handful.studies.trained import graph_and_metric, setting, trained_finding
from handful.studies.verdict import few_seeds, verdict
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import METHODS, hues, title

SAMPLERS = tuple(METHODS)
OURS = ("rns", "rns-hubs")
STEPS = 8
"""Batches per epoch for samplers that go by targets."""


def chosen_samplers(
    names: Sequence[str], options: Mapping[str, Mapping[str, Any]], layers: int, graph: Graph | None = None
) -> list[Sampler]:
    """Samplers by the names of their methods, each with its options.

    ``rns-hubs`` is RNS with ``hubs="auto"``, or with the hubs among the options of ``rns``; whoever gives such gets
    its row too, beside that of plain RNS.

    LADIES draws as many layers as the model has. For ``graph``, samplers that go by targets get ``STEPS`` batches per
    epoch, about as many as the others have: with their usual thousand targets they would take ten times as many steps
    per epoch as RNS, and ten times its time. The paper trains neighbour sampling for a fiftieth of the epochs instead.
    """
    defaults: dict[str, dict[str, Any]] = {"ladies": {"budget": (Ladies().budget[0],) * layers}}
    if graph is not None:
        size = -(-len(graph.train_nodes) // STEPS)
        for name in ("neighbor", "ladies"):
            defaults.setdefault(name, {})["batch_size"] = size
    rns = dict(options.get("rns", {}))
    hubs = rns.pop("hubs", None)
    wanted = list(names)
    if hubs is not None and "rns-hubs" not in wanted:
        wanted.insert(wanted.index("rns") + 1, "rns-hubs")
    given = {
        **options,
        "rns": rns,
        "rns-hubs": {**rns, "hubs": "auto" if hubs is None else hubs, **options.get("rns-hubs", {})},
    }
    chosen = {name: {**defaults.get(name, {}), **given.get(name, {})} for name in wanted}
    return [make_sampler("rns" if name == "rns-hubs" else name, **chosen[name]) for name in wanted]


def trainable(experiment: Experiment, samplers: Sequence[Sampler]) -> tuple[list[Sampler], list[str]]:
    """Those of ``samplers`` that can train the model, and why each of the others cannot.

    Raises:
        SamplerError: none can.
    """
    able, why = [], []
    for sampler in samplers:
        try:
            able.append(experiment.with_(sampler=sampler).sampler)
        except SamplerError as error:
            why.append(error)
    if not able and why:
        raise why[0]
    return able, list(map(str, why))


def compare_samplers(
    experiment: Experiment,
    samplers: Sequence[Sampler],
    out: Path,
    executor: Executor = Local(),  # noqa: B008  (as ``run_jobs`` has it)
    progress: Progress | None = None,
) -> Finding:
    """Train ``experiment`` with every sampler, each in its own process below ``out``."""
    jobs = {sampler.method: experiment.with_(sampler=sampler) for sampler in samplers}
    return comparison("compare", jobs, run_jobs(jobs, out, executor, progress))


def comparison(name: str, jobs: Mapping[str, Experiment], outcomes: Sequence[Outcome]) -> Finding:
    """The table and charts of jobs that differ in their sampler."""
    payload = table_json(outcomes)
    head, rows = table_cells(payload)
    seeds = len(next(iter(jobs.values())).seeds)
    papers = [row["paper"] for row in payload["rows"]]
    if any(papers):
        metric = METRICS[payload["metric"]]
        head = [*head, metric.label("Paper")]
        rows = [[*cells, Cell(metric.text(p["test"]) if p else "")] for cells, p in zip(rows, papers, strict=True)]
    return trained_finding(
        name,
        outcomes,
        title=f"{payload['graph']} · {len(jobs)} way{'s' * (len(jobs) > 1)} to train · {setting(jobs)}",
        words=" ".join(filter(None, (verdict(payload, seeds), in_words(payload), few_seeds(seeds)))),
        head=head,
        rows=rows,
        payload=payload,
        charts=[cost_chart(payload)],
    )


def table_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The table as plain values; a sampler that failed has a row with its ``error`` and no numbers."""
    graph, metric = graph_and_metric(outcomes)
    named = sources().get(outcomes[0].experiment.graph)
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        row: dict[str, Any] = {"sampler": outcome.experiment.sampler.method}
        if outcome.summary is None:
            row["error"] = outcome.error or "it did not finish"
        else:
            row["options"] = outcome.summary["sampler"]
            row |= {
                key: outcome.summary[key] for key in ("test", "val", "seconds", "epoch_seconds", "peak_memory_bytes")
            }
            row["prepare_seconds"] = outcome.summary.get("prepare_seconds", {"mean": 0.0})
            row["dir"] = str(outcome.folder)
        # The paper's numbers are of the data set's own metric: beside another they would mislead.
        own = named is not None and named.metric == metric
        row["paper"] = paper_number("tab:main-results", outcome.experiment.graph, row["sampler"]) if own else None
        rows.append(row)
    return {"graph": graph, "metric": metric, "rows": rows}


def table_cells(result: dict[str, Any]) -> tuple[list[str], list[list[Cell]]]:
    """The table for people, best and second best marked as in the paper."""
    gpu = any(row.get("peak_memory_bytes", {}).get("gpu") for row in result["rows"])
    metric = METRICS[result["metric"]]
    head = ["Method", metric.label("Test"), "Seconds", "Seconds per epoch", "RAM (GiB)"]
    if gpu:
        head.append("GPU (GiB)")
    prepared = any(row.get("prepare_seconds", {"mean": 0})["mean"] for row in result["rows"])
    if prepared:
        head.append("Prepared (s)")
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
        if prepared:
            cells.append(Cell(f"{row.get('prepare_seconds', {'mean': 0})['mean']:.1f}"))
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
    """How far RNS, and RNS with hubs, are from full-graph training and from the best of the others; nothing without
    RNS and another."""
    tests = {row["sampler"]: mean for row in result["rows"] if (mean := mean_of(row.get("test"))) is not None}
    metric = METRICS[result["metric"]]
    others = {name: test for name, test in tests.items() if name not in ("full", *OURS)}
    said = []
    for ours in OURS:
        if ours not in tests:
            continue
        told = [f"{_apart(tests[ours], tests['full'], metric)} full-graph training"] if "full" in tests else []
        if ours == "rns-hubs" and "rns" in tests:
            told.append(f"{_apart(tests[ours], tests['rns'], metric)} RNS without them")
        if others:
            rival = (max if metric.higher_is_better else min)(others, key=lambda name: others[name])
            told.append(f"{_apart(tests[ours], others[rival], metric)} {title(rival)}, the best of the others")
        if told:
            *others_told, last = told
            said.append(f"{title(ours)} is {', '.join(others_told)}{' and ' if others_told else ''}{last}.")
    return " ".join(said)


def _apart(ours: float, theirs: float, metric: Metric) -> str:
    return f"{metric.apart(ours - theirs)} {'above' if ours >= theirs else 'below'}"
