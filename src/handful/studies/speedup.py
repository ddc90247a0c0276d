"""Where the speed of RNS comes from: cheaper epochs, fewer of them, and the time to a target, against full graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np

from handful.finding import Axis, Cell, Chart, Finding, Series, View
from handful.studies.beside import paper_number
from handful.studies.budget import Scale, pair, train_jobs
from handful.studies.presets import TARGETS
from handful.studies.request import Request
from handful.studies.trained import failures, graph_and_metric, setting, trained_finding
from handful.training.metrics import METRICS, Metric
from handful.vocabulary import SPEEDUPS, spaced

SCALE = Scale(hidden=128, layers=3, epochs=60)
STEP = 0.01
"""Between targets that are shares, as in the paper; of others in the unit of their first digit."""

Lines = Sequence[dict[str, Any]]
"""The evaluations of one run, in order: ``epoch``, ``seconds`` and ``val`` of each."""


def epoch_time(lines: Lines) -> float:
    """τ = median_j (runtime_{j+1} − runtime_j) / (epoch_{j+1} − epoch_j); NaN with fewer than two evaluations.

    >>> epoch_time([{"epoch": 1, "seconds": 9.0}, {"epoch": 2, "seconds": 10.0}, {"epoch": 4, "seconds": 14.0}])
    1.5
    """
    epochs = np.array([line["epoch"] for line in lines], float)
    seconds = np.array([line["seconds"] for line in lines], float)
    return float(np.median(np.diff(seconds) / np.diff(epochs))) if len(lines) > 1 else float("nan")


@dataclass(frozen=True)
class Crossing:
    """When a run reached a target: E(a*), T_start(a*), and T_nostart(a*) = T_start(a*) − t_0."""

    epochs: float
    start: float
    nostart: float


def crossing(lines: Lines, target: float, higher_is_better: bool = True) -> Crossing | None:
    """Linear interpolation between the first evaluation that reaches ``target`` and the one before it, which does not.

    A run whose first evaluation reaches it crosses there; one that never does has no crossing. t_0 is the runtime of
    the first evaluation.

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


@dataclass(frozen=True)
class Speedup:
    """S_epoch, S_epochs, S_time with and without start-up for one target.

    NaN where some seed of a method missed it; without start-up also where RNS has it at its first evaluation.
    """

    target: float
    epoch: float
    epochs: float
    start: float
    nostart: float
    reached: dict[str, int]


def speedup(full: Sequence[Lines], rns: Sequence[Lines], target: float, higher_is_better: bool = True) -> Speedup:
    """S = E_s[full-graph quantity] / E_s[RNS quantity], the mean of each over its seeds, one history a seed."""
    methods = {"full": full, "rns": rns}
    found = {name: [crossing(lines, target, higher_is_better) for lines in runs] for name, runs in methods.items()}
    reached = {name: sum(one is not None for one in all_) for name, all_ in found.items()}

    def ratio(quantity: str) -> float:
        means = [np.mean([getattr(one, quantity, np.nan) for one in found[name]]) for name in ("full", "rns")]
        return float(means[0] / means[1]) if means[1] != 0 else float("nan")

    tau = float(np.mean([epoch_time(lines) for lines in full]) / np.mean([epoch_time(lines) for lines in rns]))
    return Speedup(target, tau, ratio("epochs"), ratio("start"), ratio("nostart"), reached)


def reachable(*methods: Sequence[Lines], metric: Metric) -> tuple[float, ...]:
    """Three targets a step apart; the hardest is the last multiple of it that every run of every method reached.

    A share that is a target is above zero.
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


def run(request: Request) -> Finding:
    """Full graph against RNS, evaluated after every epoch; to the paper's targets under its budget, else what fits."""
    graph = request.graph_or("ogbn-arxiv")
    jobs = pair(request, graph, SCALE, evaluate_every=1)
    outcomes = train_jobs(request, jobs)
    if failed := failures(outcomes):
        return trained_finding(
            "speedup",
            outcomes,
            title=graph,
            words="There is no speedup to tell without both runs.",
            head=["run", "what went wrong"],
            rows=[[Cell(name), Cell(why)] for name, why in failed.items()],
            payload={"graph": graph, "targets": [], "failed": failed},
        )
    curves = {o.name: o.histories() for o in outcomes}
    full, rns = curves["full"], curves["rns"]
    name, metric = graph_and_metric(outcomes)
    judge = METRICS[metric]
    own = reachable(full, rns, metric=judge)
    targets = TARGETS[graph] if request.budget == "paper" and graph in TARGETS else own
    found = [speedup(full, rns, target, judge.higher_is_better) for target in targets]
    rows = [
        [
            Cell(judge.told(s.target)),
            *(Cell(_times(value)) for value in (s.epoch, s.epochs, s.start, s.nostart)),
            Cell(" and ".join(f"{s.reached[method]} of {len(curves[method])}" for method in ("full", "rns"))),
        ]
        for s in found
    ]
    payload = [
        {**vars(s), "paper": paper_number("tab:rns_speedup_decomposition", graph, f"{100 * s.target:.1f}")}
        for s in found
    ]
    return trained_finding(
        "speedup",
        outcomes,
        title=f"{name} · RNS against full-graph training · {setting(jobs)}",
        words=in_words(found, judge),
        head=[
            f"target val. {spaced(metric)}",
            "epoch time",
            "epochs to target",
            "time to target",
            "without start-up",
            "seeds that reach it (full, RNS)",
        ],
        rows=rows,
        payload={
            "graph": name,
            "metric": metric,
            "epoch_seconds": {
                method: float(np.mean([epoch_time(lines) for lines in runs])) for method, runs in curves.items()
            },
            "targets": payload,
        },
        charts=[speedup_chart(payload, name, judge)],
    )


def speedup_chart(rows: Sequence[dict[str, Any]], graph: str, metric: Metric) -> Chart:
    """The four speedups at every target, beside the paper's."""
    targets = [metric.told(row["target"]) for row in rows]
    papers = [row["paper"] or {} for row in rows]
    series = []
    for color, (key, label) in enumerate(SPEEDUPS.items()):
        series.append(Series(label, targets, [row[key] for row in rows], color=color))
        if any(papers):
            theirs = [paper.get(key) for paper in papers]
            series.append(Series(f"{label}, paper", targets, theirs, color=color, paper=True))
    x = Axis(f"target, validation {spaced(metric.name)}", of=targets)
    view = View("speedup", "bar", x, Axis("full graph / RNS (×)"), series)
    return Chart("speedup", f"{graph}: where the speed of RNS comes from", [view])


def in_words(found: Sequence[Speedup], metric: Metric) -> str:
    """What the speedups say, for the hardest target that both methods always reached."""
    sure = [s for s in found if s.start == s.start]
    if not sure:
        return "No target was reached by every seed of both methods: train longer, or with more seeds."
    last = sure[-1]
    return (
        f"Speedups of RNS to {metric.told(last.target)}: {_times(last.epoch)} by cheaper epochs, {_times(last.epochs)} "
        f"by fewer, {_times(last.start)} in time, {_times(last.nostart)} without what precedes the first evaluation."
    )


def _times(value: float) -> str:
    return "–" if value != value else f"{value:.2f}×"
