"""The metric against m, the number of parts; and which m to take, as the paper advises: raise it until nothing is won.

The rule of ``recommend``: begin with 2, look at 1 as well, then double. An m is *better* than the best so far if its
validation metric is, seed by seed (the seeds have the same initial weights and splits), by more than noise: the lower
end of the one-sided 95% interval of the mean paired difference, t_{0.05, n−1}·s/√n below it, is above 0. What is not
better is not taken. Two values in a row that are not better end the search. Where memory is limited, an m whose
peak is above the limit, or whose run broke off, is not taken, and does not count towards the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from handful.errors import HandfulError
from handful.report.curves import COLORS
from handful.report.tables import Cell, best_two, percent
from handful.statistics import mean_ci95
from handful.studies import Finding, Request
from handful.studies.budget import Scale, benchmark, failures, graph_and_metric, graph_of, job, setting, train
from handful.studies.jobs import Job, Progress, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = Scale(hidden=128, layers=3, epochs=60)
VALUES = {"smoke": (1, 2), "laptop": (1, 2, 4, 8, 16), "paper": (1, *range(2, 11))}
MOST = 64
PATIENCE = 2


@dataclass(frozen=True)
class Point:
    """RNS with ``m`` parts: the validation metric of every seed, mean seconds of a run, and the peak of memory."""

    m: int
    val: tuple[float, ...]
    seconds: float
    memory: int
    error: str | None = None
    """Why the run broke off, if it did; then there is nothing else."""

    def to_json(self) -> dict[str, Any]:
        """The point of the curve; metrics are fractions."""
        if self.error is not None:
            return {"m": self.m, "val": None, "seconds": None, "peak_memory_bytes": None, "error": self.error}
        return {"m": self.m, "val": mean_ci95(self.val), "seconds": self.seconds, "peak_memory_bytes": self.memory}


def better(new: Sequence[float], old: Sequence[float]) -> bool:
    """Whether ``new`` beats ``old``, seed by seed, by more than noise: mean(d) − t_{0.95, n−1}·s(d)/√n > 0.

    >>> better([0.72, 0.74, 0.73], [0.70, 0.71, 0.71]), better([0.72, 0.70, 0.73], [0.70, 0.71, 0.71])
    (True, False)
    """
    d = np.asarray(new, float) - np.asarray(old, float)
    return bool(d.mean() - stdtrit(len(d) - 1, 0.95) * d.std(ddof=1) / np.sqrt(len(d)) > 0)


def recommend(
    measure: Callable[[int], Point], most: int = MOST, memory: int | None = None
) -> tuple[int | None, list[Point]]:
    """The m to take by the rule above, ``None`` if none fits into ``memory`` bytes, and what was measured, by m."""

    def fits(point: Point) -> bool:
        return point.error is None and (memory is None or point.memory <= memory)

    seen: dict[int, Point] = {}
    best: Point | None = None
    m, stale = 2, 0
    while m <= max(2, most) and stale < PATIENCE:
        point = seen[m] = measure(m)
        if fits(point):
            if best is None or better(point.val, best.val):
                best, stale = point, 0
            else:
                stale += 1
        if m == 2 and fits(point):
            # One part is the whole graph, which takes the most memory: only where two left room.
            whole = seen[1] = measure(1)
            if fits(whole) and better(whole.val, point.val):
                best = whole
        m *= 2
    return (None if best is None else best.m), [seen[m] for m in sorted(seen)]


def measured(template: Job, out: Path, workers: int = 1, progress: Progress | None = None) -> Callable[[int], Point]:
    """A ``measure`` for ``recommend``: ``template`` with m parts, over its seeds, kept in ``out``."""
    if len(template.seeds) < 2:
        raise HandfulError("choosing m takes at least two seeds, to tell progress from noise: give --seeds 42,123,456")

    def measure(m: int) -> Point:
        options = template.sampler_options | {"parts": m}
        (outcome,) = run_jobs([replace(template, name=f"m-{m}", sampler_options=options)], out, workers, progress)
        if outcome.summary is None:
            return Point(m, (), float("nan"), 0, outcome.error or "it did not finish")
        return point_of(m, outcome.summary)

    return measure


def point_of(m: int, summary: dict[str, Any]) -> Point:
    """What a job came to, as a point of the curve."""
    memory = summary["peak_memory_bytes"]
    return Point(
        m, tuple(run["val"] for run in summary["runs"]), summary["seconds"]["mean"], memory["gpu"] or memory["ram"]
    )


def run(request: Request) -> Finding:
    """Every m with the same hyperparameters, those of the paper's best m under its budget (it tuned each anew)."""
    graph = graph_of(request, "ogbn-arxiv")
    recipe, model, options = benchmark(request, graph, "rns", SCALE)
    values = VALUES[request.budget]
    jobs = [job(request, f"m-{m}", graph, replace(recipe, options={"parts": m}), model, options) for m in values]
    outcomes = dict(zip(values, train(request, jobs), strict=True))
    done = {m: o.summary for m, o in outcomes.items() if o.summary is not None}
    ranks = dict(zip(done, best_two([s["test"]["mean"] for s in done.values()], highest=True), strict=True))
    (name, metric), failed = graph_and_metric(list(outcomes.values())), failures(list(outcomes.values()))
    curve = [{**point_of(m, s).to_json(), "test": s["test"]} for m, s in done.items()]
    rows = [
        [
            Cell(str(point["m"])),
            Cell(percent(point["test"]), ranks[point["m"]]),
            Cell(percent(point["val"])),
            Cell(f"{point['seconds']:.1f}"),
            Cell(f"{point['peak_memory_bytes'] / 2**30:.2f}"),
        ]
        for point in curve
    ]
    rows += [[Cell(f"m = {m}"), Cell("failed"), *[Cell("")] * 3] for m in values if m not in done]
    return Finding(
        payload={"graph": name, "metric": metric, "curve": curve, "failed": failed},
        title=f"{name} · RNS · {setting(jobs)}",
        head=["m", f"Test {metric.replace('_', ' ')} (%)", "Validation (%)", "Seconds", "Peak memory (GiB)"],
        rows=rows,
        words=f"The test metric is best with m = {next((m for m in done if ranks[m] == 1), 'none')}.",
        pictures={"parts.svg": parts_figure(curve, metric, name)} if curve else {},
        failed=tuple(failed),
    )


def parts_figure(curve: Sequence[dict[str, Any]], metric: str, graph: str) -> Figure:
    """The test metric against m, its 95% CI over seeds as a band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    m = [point["m"] for point in curve]
    mean = 100 * np.array([point["test"]["mean"] for point in curve])
    half = 100 * np.array([point["test"]["ci95"] or 0.0 for point in curve])
    axes.plot(m, mean, marker="o", markersize=4, color=COLORS[0])
    axes.fill_between(m, mean - half, mean + half, color=COLORS[0], alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(m, [str(value) for value in m])
    axes.set_xlabel("m, the number of parts")
    axes.set_ylabel(f"test {metric.replace('_', ' ')} (%)")
    axes.set_title(f"{graph}: how many parts?", loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
