"""Which m to take, the number of parts, as the paper advises: raise it until nothing is won.

The rule of ``recommend``: begin with 2, look at 1 as well, then double. An m is *better* than the best so far if its
validation metric is, seed by seed (the seeds have the same initial weights and splits), by more than noise: the lower
end of the one-sided 95% interval of the mean paired difference, t_{0.05, n−1}·s/√n below it, is above 0. What is not
better is not taken. Two values in a row that are not better end the search. Where memory is limited, an m whose
peak is above the limit, or whose run broke off, is not taken, and does not count towards the end. An m that does not
fit into the memory of this machine by its plan is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from handful.budget import show_size
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Cell, Finding, Table
from handful.plan import plan
from handful.samplers.random_node import dealing
from handful.statistics import mean_ci95, student_t
from handful.studies.jobs import Outcome, Progress, run_jobs
from handful.training.metrics import METRICS

MOST = 64
PATIENCE = 2


@dataclass(frozen=True)
class Point:
    """RNS with ``m`` parts: the validation metric of every seed, mean seconds of a run, and the peak of memory."""

    m: int
    val: tuple[float, ...] = ()
    seconds: float = nan
    memory: int = 0
    error: str | None = None
    """Why the run broke off, if it did; then there is nothing else."""

    def to_json(self) -> dict[str, Any]:
        """The point of the curve; metrics are fractions."""
        if self.error is not None:
            return {"m": self.m, "val": None, "seconds": None, "peak_memory_bytes": None, "error": self.error}
        return {"m": self.m, "val": mean_ci95(self.val), "seconds": self.seconds, "peak_memory_bytes": self.memory}


def better(new: Sequence[float], old: Sequence[float], higher_is_better: bool = True) -> bool:
    """Whether ``new`` beats ``old``, seed by seed, by more than noise: mean(d) − t_{0.95, n−1}·s(d)/√n > 0, where d is
    by how much it is better.

    >>> better([0.72, 0.74, 0.73], [0.70, 0.71, 0.71]), better([0.72, 0.70, 0.73], [0.70, 0.71, 0.71])
    (True, False)
    """
    d = (np.asarray(new, float) - np.asarray(old, float)) * (1 if higher_is_better else -1)
    return bool(d.mean() - student_t(0.95, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)) > 0)


def recommend(
    measure: Callable[[int], Point], most: int = MOST, memory: int | None = None, higher_is_better: bool = True
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
            if best is None or better(point.val, best.val, higher_is_better):
                best, stale = point, 0
            else:
                stale += 1
        if m == 2 and fits(point):
            # One part is the whole graph, which takes the most memory: only where two left room.
            whole = seen[1] = measure(1)
            if fits(whole) and better(whole.val, point.val, higher_is_better):
                best = whole
        m *= 2
    return (None if best is None else best.m), [seen[m] for m in sorted(seen)]


def choose_parts(
    experiment: Experiment,
    out: Path,
    most: int = MOST,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Finding:
    """The m to take for ``experiment`` by the rule above, and what was measured; the runs are kept in ``out``.

    Args:
        experiment: with a ``RandomNodes`` sampler and at least two seeds.
        out: where the runs are kept; what is done there is not done again.
        most: the largest m to try.
        memory: the most bytes that a run may take.
        progress: as for ``run_jobs``.
    """
    sampler = dealing(experiment.sampler)
    if len(experiment.seeds) < 2:
        raise HandfulError("choosing m takes at least two seeds, to tell progress from noise, such as 42,123,456")
    graph = experiment.load(experiment.seeds[0])
    if graph.val_mask is None or not bool(graph.val_mask.any()):
        raise HandfulError(f"choosing m goes by validation, and {graph.name} has no validation nodes: use a split")
    planned = plan(experiment, timed=False)

    def measure(m: int) -> Point:
        needed = next((planned.ram(part) for part in planned.parts if part.m == m), 0)
        if needed > planned.available:
            free = show_size(planned.available)
            return Point(m, error=f"by the plan it takes {show_size(needed)}, and {free} are free")
        job = {f"m-{m}": experiment.with_(sampler=replace(sampler, parts=m))}
        (outcome,) = run_jobs(job, out, progress=progress)
        return point_of(m, outcome)

    metric = METRICS[graph.metric]
    chosen, curve = recommend(measure, min(most, graph.num_nodes), memory, metric.higher_is_better)
    rows = []
    for point in curve:
        texts = [f"left out: {point.error}", "", ""]
        if point.error is None:
            texts = [metric.text(mean_ci95(point.val)), f"{point.seconds:.1f}", f"{point.memory / 2**30:.2f}"]
        rows.append([Cell(str(point.m)), *(Cell(text, int(point.m == chosen)) for text in texts)])
    tried = ", ".join(str(point.m) for point in curve)
    words = f"Take m = {chosen}: of m = {tried} no other is better by more than the noise between seeds."
    if chosen is None:
        words = f"None of m = {tried} could be trained in the memory given: allow more parts, or a smaller model."
    how = f"{experiment.settings.epochs} epochs · {len(experiment.seeds)} seeds"
    heading = f"{graph.name} · {experiment.model} · {how}"
    return Finding(
        "parts",
        heading,
        words,
        [Table(heading, ["m", metric.label("validation"), "seconds", "peak memory (GiB)"], rows)],
        payload={"recommended": chosen, "curve": [point.to_json() for point in curve]},
    )


def point_of(m: int, outcome: Outcome) -> Point:
    """What a job came to, as a point of the curve."""
    if outcome.summary is None:
        return Point(m, error=outcome.error)
    seconds, memory = outcome.seeds("seconds"), outcome.seeds("memory")
    return Point(m, tuple(outcome.seeds("val")), sum(seconds) / len(seconds), int(max(memory)))


def auto_parts(experiment: Experiment, out: Path, progress: Progress | None = None) -> tuple[Experiment, list[int]]:
    """``experiment`` with the m that ``choose_parts`` takes, by its first three seeds; and the values tried."""
    result = choose_parts(experiment.with_(seeds=experiment.seeds[:3]), out, progress=progress).payload
    if result["recommended"] is None:
        raise HandfulError(f"no number of parts could be trained with: {result['curve'][-1].get('error')}")
    sampler = replace(dealing(experiment.sampler), parts=result["recommended"])
    return experiment.with_(sampler=sampler), [point["m"] for point in result["curve"]]
