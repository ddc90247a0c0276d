"""The paper's main table on any graph: full-graph training against every sampler, one architecture, one budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handful.files import write_json, write_text
from handful.graph import Graph
from handful.report.curves import draw_curves
from handful.report.page import write_report
from handful.report.records import write_finding
from handful.report.tables import TITLES, Cell, best_two, markdown, percent
from handful.samplers import Sampler
from handful.studies.budget import printed
from handful.studies.jobs import Job, Outcome, Progress, run_jobs

SAMPLERS = ("full", "neighbor", "cluster", "saint", "ladies", "rns")
STEPS = 8
"""Batches an epoch for samplers that go by targets."""


def even_batches(graph: Graph, samplers: Sequence[str]) -> list[str]:
    """Options that give those samplers ``STEPS`` batches an epoch, about as many as the others have.

    With their usual thousand targets they would take ten times as many steps an epoch as RNS, and ten times its time:
    the paper trains neighbour sampling for a fiftieth of the epochs instead.
    """
    size = -(-len(graph.train_nodes) // STEPS)
    return [f"{name}.batch_size={size}" for name in ("neighbor", "ladies") if name in samplers]


def compare_jobs(samplers: Sequence[Sampler], **common: Any) -> list[Job]:
    """A job for every sampler, equal in all but the sampler."""
    return [Job(name=s.name, sampler=s.name, sampler_options=s.options(), **common) for s in samplers]


def compare(
    jobs: Sequence[Job], out: Path, workers: int = 1, progress: Progress | None = None
) -> tuple[dict[str, Any], list[Outcome]]:
    """Run the jobs and write ``compare.json``, ``table.md``, ``curves.svg`` and ``report.html`` into ``out``."""
    outcomes = run_jobs(jobs, out, workers, progress)
    result = table_json(outcomes)
    for row in result["rows"]:
        if (paper := printed("tab:main-results", jobs[0].graph, row["sampler"])) is not None:
            row["paper"] = paper
    cells = table_cells(result)
    write_json(out / "compare.json", result)
    write_text(out / "table.md", markdown(*cells))
    curves = {TITLES.get(o.job.sampler, o.job.sampler): o.histories() for o in outcomes if o.summary is not None}
    if curves:
        draw_curves(curves, result["metric"], f"{result['graph']}: validation against time", out / "curves.svg")
    title = f"{result['graph']} · {len(jobs)} ways to train one architecture under one budget"
    write_finding(out, "compare", title, "", *cells, asked={"device": jobs[0].device})
    write_report(out)
    return result, outcomes


def table_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The table as plain values; a sampler that failed has a row with its ``error`` and no numbers."""
    done = [o.summary for o in outcomes if o.summary is not None]
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        row: dict[str, Any] = {"sampler": outcome.job.sampler}
        if outcome.summary is None:
            row["error"] = outcome.error or "it did not finish"
        else:
            row["options"] = outcome.summary["sampler"]
            row |= {
                key: outcome.summary[key] for key in ("test", "val", "seconds", "epoch_seconds", "peak_memory_bytes")
            }
            row["dir"] = str(outcome.folder)
        rows.append(row)
    first = done[0] if done else {"graph": outcomes[0].job.graph, "metric": "accuracy"}
    return {"graph": first["graph"], "metric": first["metric"], "rows": rows}


def table_cells(result: dict[str, Any]) -> tuple[list[str], list[list[Cell]]]:
    """The table for people, best and second best marked as in the paper."""
    gpu = any(row.get("peak_memory_bytes", {}).get("gpu") for row in result["rows"])
    head = ["Method", f"Test {result['metric'].replace('_', ' ')} (%)", "Seconds", "Seconds an epoch", "RAM (GiB)"]
    if gpu:
        head.append("GPU (GiB)")
    good = [row for row in result["rows"] if "error" not in row]
    tests = best_two([row["test"]["mean"] for row in good], highest=True)
    times = best_two([row["seconds"]["mean"] for row in good], highest=False)
    rows: list[list[Cell]] = []
    for row in result["rows"]:
        title = Cell(TITLES.get(row["sampler"], row["sampler"]))
        if "error" in row:
            rows.append([title, Cell(f"failed: {row['error']}"), *[Cell("")] * (len(head) - 2)])
            continue
        at = good.index(row)
        memory = row["peak_memory_bytes"]
        cells = [title, Cell(percent(row["test"]), tests[at]), Cell(f"{row['seconds']['mean']:.1f}", times[at])]
        cells += [Cell(f"{row['epoch_seconds']['mean']:.2f}"), Cell(f"{memory['ram'] / 2**30:.2f}")]
        if gpu:
            cells.append(Cell(f"{(memory['gpu'] or 0) / 2**30:.2f}"))
        rows.append(cells)
    return head, rows
