"""The speedup of RNS over full-graph training: cheaper epochs, fewer epochs, and less time to reach a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np

from handful.finding import Axis, Chart, Finding, Series, View, text_table
from handful.studies.budget import Request, Scale, benchmark
from handful.studies.grid import EPOCH_SECONDS, VALIDATION, Entry, Grid, paper_number
from handful.studies.jobs import Outcome
from handful.studies.presets import TARGETS
from handful.training.metrics import Metric
from handful.vocabulary import SPEEDUPS, shown, spaced

METHODS = ("full", "rns")
SCALE = Scale(hidden=128, layers=3, epochs=60)
TIMES = "{:.2f}×"
STEP = 0.01
"""The difference between two targets, for metrics that are fractions, as in the paper. For other metrics, the
difference is relative to the size of the metric.
"""

Lines = Sequence[dict[str, Any]]
"""The evaluations of a run, in order, each with ``epoch``, ``seconds`` and ``val``."""


def epoch_time(lines: Lines) -> float:
    """The time per epoch, τ = median_j (runtime_{j+1} − runtime_j) / (epoch_{j+1} − epoch_j). The result is NaN if
    there are fewer than two evaluations.

    >>> epoch_time([{"epoch": 1, "seconds": 9.0}, {"epoch": 2, "seconds": 10.0}, {"epoch": 4, "seconds": 14.0}])
    1.5
    """
    epochs = np.array([line["epoch"] for line in lines], float)
    seconds = np.array([line["seconds"] for line in lines], float)
    return float(np.median(np.diff(seconds) / np.diff(epochs))) if len(lines) > 1 else float("nan")


@dataclass(frozen=True)
class Crossing:
    """When a run reaches a target a*: the epoch E(a*), the time T_start(a*), and T_nostart(a*) = T_start(a*) − t_0."""

    epochs: float
    start: float
    nostart: float


def crossing(lines: Lines, target: float, higher_is_better: bool = True) -> Crossing | None:
    """Find the crossing by linear interpolation between the first evaluation that reaches ``target`` and the evaluation
    before it.

    If the first evaluation of the run reaches the target, this evaluation is the crossing. If no evaluation reaches the
    target, there is no crossing. ``seconds`` are counted from the start of the process, and t_0 is the time of the
    first evaluation.

    >>> crossing([{"epoch": 1, "seconds": 5.0, "val": 0.5}, {"epoch": 3, "seconds": 9.0, "val": 0.7}], 0.6)
    Crossing(epochs=2.0, start=7.0, nostart=2.0)
    """
    known = [line for line in lines if line["val"] is not None]
    sign = 1 if higher_is_better else -1
    at = next((i for i, line in enumerate(known) if sign * line["val"] >= sign * target), None)
    if at is None:
        return None
    there, before = known[at], known[max(0, at - 1)]
    share = (target - before["val"]) / (there["val"] - before["val"]) if at else 0.0
    epochs, seconds = (before[key] + share * (there[key] - before[key]) for key in ("epoch", "seconds"))
    return Crossing(float(epochs), float(seconds), float(seconds - lines[0]["seconds"]))


def speedup(runs: Mapping[str, Sequence[Lines]], target: float, higher_is_better: bool = True) -> dict[str, Any]:
    """The speedups S = E_s[full-graph quantity] / E_s[RNS quantity], where E_s is the mean over the seeds. ``runs``
    contains one history per seed for ``full`` and for ``rns``.

    The entries under the keys of ``SPEEDUPS`` are S_epoch, S_epochs, and S_time with and without start-up. All except
    S_epoch are NaN if any seed of a method does not reach the target. S_time without start-up is also NaN if RNS always
    reaches the target at its first evaluation.
    """
    result = {name: [crossing(lines, target, higher_is_better) for lines in own] for name, own in runs.items()}
    reached = {name: sum(one is not None for one in all_) for name, all_ in result.items()}

    def ratio(quantity: str) -> float:
        means = [np.mean([getattr(one, quantity, np.nan) for one in result[name]]) for name in METHODS]
        return float(means[0] / means[1]) if means[1] != 0 else float("nan")

    full, rns = (np.mean([epoch_time(lines) for lines in runs[name]]) for name in METHODS)
    ratios = {quantity: ratio(quantity) for quantity in ("epochs", "start", "nostart")}
    return {"target": target, "epoch": float(full / rns), **ratios, "reached": reached}


def reachable(*methods: Sequence[Lines], metric: Metric) -> tuple[float, ...]:
    """Choose three targets, which differ by one step. The hardest target is the best multiple of the step that all runs
    of all methods reached.

    For metrics that are fractions, only targets above zero are returned.
    """
    sign = 1 if metric.higher_is_better else -1
    histories = [[line["val"] for line in lines if line["val"] is not None] for runs in methods for lines in runs]
    if not all(histories):
        return ()
    common = min(max(sign * value for value in values) for values in histories)
    step = STEP if metric.percent or common == 0 else STEP * 10 ** floor(log10(abs(common)))
    top = floor(common / step + 1e-9)
    targets = (sign * step * (top - below) for below in (2, 1, 0))
    return tuple(float(f"{target:.10g}") for target in targets if target > 0 or not metric.percent)


def speedup_study(request: Request) -> Finding:
    """The speedup of RNS over full-graph training: cheaper epochs, fewer epochs, and less time to reach a target.

    Both methods are evaluated after every epoch. If the budget is ``paper``, the targets are the paper's; otherwise
    ``reachable`` chooses them.
    """
    graph = request.graph_or("ogbn-arxiv")
    jobs = {method: benchmark(request, graph, method, SCALE).with_(evaluate_every=1) for method in METHODS}
    grid = Grid.train(request, {name: Entry(job, name, facts={"method": name}) for name, job in jobs.items()})
    if grid.failed:
        table = grid.list_table(f"{grid.graph} · {grid.setting}", "Method", [VALIDATION, EPOCH_SECONDS])
        return grid.finding("speedup", "A speedup needs both runs, and one failed.", [table])
    runs = {method: histories(grid.outcomes[method]) for method in METHODS}
    metric = grid.metric
    own = reachable(*runs.values(), metric=metric)
    targets = TARGETS[graph] if request.budget == "paper" and graph in TARGETS else own
    speedups, rows = [], []
    for target in targets:
        paper = paper_number("tab:rns_speedup_decomposition", graph, f"{100 * target:.1f}")
        s = {**speedup(runs, target, metric.higher_is_better), "paper": paper}
        speedups.append(s)
        reached = " and ".join(f"{s['reached'][method]} of {len(request.seeds)}" for method in METHODS)
        rows.append([metric.with_unit(target), *(shown(s[key], TIMES) for key in SPEEDUPS), reached])
        if paper:
            rows.append(["in the paper", *(shown(paper.get(key), TIMES) for key in SPEEDUPS), ""])
    head = [f"target val. {spaced(metric.name)}", *(label.lower() for label in SPEEDUPS.values())]
    heading = f"{grid.graph} · RNS against full-graph training · {grid.setting}"
    table = text_table(heading, [*head, "seeds that reach it (full, RNS)"], rows)
    seconds = {method: float(np.mean([epoch_time(lines) for lines in own])) for method, own in runs.items()}
    startup = {method: grid.outcomes[method].startup_seconds for method in METHODS}
    payload = {"epoch_seconds": seconds, "startup_seconds": startup, "targets": speedups}
    chart = speedup_chart(speedups, grid.graph, metric)
    return grid.finding("speedup", conclude(speedups, metric), [table], [chart], payload=payload)


def histories(outcome: Outcome) -> list[Lines]:
    """The evaluations of every seed. ``seconds`` are counted from the start of the process, as in the paper's logs."""
    runs, before = [] if outcome.summary is None else outcome.summary.runs, outcome.startup_seconds
    return [[{**line, "seconds": line["seconds"] + before} for line in run.history] for run in runs]


def speedup_chart(speedups: Sequence[dict[str, Any]], graph: str, metric: Metric) -> Chart:
    """Chart the four speedups for every target, beside the speedups in the paper."""
    targets, series = [metric.with_unit(s["target"]) for s in speedups], []
    for color, (key, label) in enumerate(SPEEDUPS.items()):
        series.append(Series(label, targets, [s[key] for s in speedups], color=color))
        if any(s["paper"] for s in speedups):
            theirs = [(s["paper"] or {}).get(key) for s in speedups]
            series.append(Series(f"{label}, paper", targets, theirs, color=color, paper=True))
    x = Axis(f"target, validation {spaced(metric.name)}", of=targets)
    view = View("speedup", "bar", x, Axis("full graph / RNS (×)"), series)
    return Chart("speedup", f"{graph}: the speedup of RNS", [view])


def conclude(speedups: Sequence[dict[str, Any]], metric: Metric) -> str:
    """State the speedup for the hardest target that all seeds of both methods reached."""
    sure = [s for s in speedups if s["start"] == s["start"]]
    if not sure:
        return "No target was reached by every seed of both methods: train longer, or with more seeds."
    start, epoch, epochs = (shown(sure[-1][key], TIMES) for key in ("start", "epoch", "epochs"))
    target = metric.with_unit(sure[-1]["target"])
    return f"To {target} RNS is {start} as fast as the full graph: {epoch} by cheaper epochs, {epochs} by fewer."
