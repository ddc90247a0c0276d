"""Choose m, the number of parts, as the paper recommends: increase m as long as the validation metric improves.

``recommend`` tries m = 2, then 1, then 4, 8, …. An m is *better* than the best m so far if its gain in the validation
metric is more than noise: the lower end of the one-sided 95% confidence interval of the mean gain, mean −
t_{0.95,n−1}·s/√n, is above 0. A gain is the difference between two runs with the same seed, which have the same initial
weights and the same split. The search stops after two consecutive values of m that are not better. An m whose run
fails, or exceeds the memory limit, is not chosen, and does not count for this rule. An m is not tried if its plan
exceeds the available memory of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from handful.budget import show_size
from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Cell, Finding, Table, mean_of
from handful.plan import plan
from handful.samplers.random_node import dealing
from handful.statistics import student_t
from handful.studies.jobs import Outcome, Progress, run_jobs, silent
from handful.training.metrics import METRICS

MOST = 64
PATIENCE = 2


def better(new: Sequence[float], old: Sequence[float], higher_is_better: bool = True) -> bool:
    """Whether ``new`` is better than ``old`` by more than noise: mean(d) − t_{0.95, n−1}·s(d)/√n > 0, where d is the
    gain of each seed.

    >>> better([0.72, 0.74, 0.73], [0.70, 0.71, 0.71]), better([0.72, 0.70, 0.73], [0.70, 0.71, 0.71])
    (True, False)
    """
    d = (np.asarray(new, float) - np.asarray(old, float)) * (1 if higher_is_better else -1)
    return bool(d.mean() - student_t(0.95, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)) > 0)


def recommend(
    measure: Callable[[int], Outcome], most: int = MOST, memory: int | None = None, higher_is_better: bool = True
) -> tuple[int | None, dict[int, Outcome]]:
    """Find the recommended m by the rule of this module; ``None`` if no m fits into ``memory`` bytes. Also return the
    outcomes of all m.
    """

    def fits(outcome: Outcome) -> bool:
        return outcome.summary is not None and (memory is None or max(outcome.seeds("memory")) <= memory)

    def wins(new: int, old: int) -> bool:
        return better(seen[new].seeds("val"), seen[old].seeds("val"), higher_is_better)

    seen: dict[int, Outcome] = {}
    best: int | None = None
    m, stale = 2, 0
    while m <= max(2, most) and stale < PATIENCE:
        seen[m] = measure(m)
        if fits(seen[m]):
            if best is None or wins(m, best):
                best, stale = m, 0
            else:
                stale += 1
        if best == m == 2:
            # One part is the whole graph, which needs the most memory, so m = 1 is tried only if m = 2 fits.
            seen[1] = measure(1)
            best = 1 if fits(seen[1]) and wins(1, 2) else 2
        m *= 2
    return best, dict(sorted(seen.items()))


def choose_parts(
    experiment: Experiment, out: Path, most: int = MOST, memory: int | None = None, progress: Progress = silent
) -> Finding:
    """Find the recommended m for ``experiment`` by the rule of this module. The finding contains all measurements.

    Args:
        experiment: an experiment with a ``RandomNodes`` sampler and at least two seeds.
        out: the folder for the runs. Finished runs are not repeated.
        most: the largest m to try.
        memory: the maximum memory of a run, in bytes.
        progress: as for ``run_jobs``.
    """
    sampler = dealing(experiment.sampler)
    if len(experiment.seeds) < 2:
        raise HandfulError("the choice of m needs at least two seeds, such as 42,123,456, to measure the noise")
    graph = experiment.load(experiment.seeds[0])
    if graph.val_mask is None or not bool(graph.val_mask.any()):
        raise HandfulError(f"the choice of m needs validation, and {graph.name} has no validation nodes: use a split")
    planned = plan(experiment, timed=False)

    def measure(m: int) -> Outcome:
        job = experiment.with_(sampler=replace(sampler, parts=m))
        needed = next((planned.ram(part) for part in planned.parts if part.m == m), 0)
        if needed > planned.available:
            error = f"by the plan it takes {show_size(needed)}, and {show_size(planned.available)} are free"
            return Outcome(f"m-{m}", job, out / f"m-{m}", None, error)
        return run_jobs({f"m-{m}": job}, out, progress=progress)[f"m-{m}"]

    metric = METRICS[graph.metric]
    chosen, seen = recommend(measure, min(most, graph.num_nodes), memory, metric.higher_is_better)
    curve, rows = [], []
    for m, outcome in seen.items():
        val, seconds, peak = (outcome.estimate(key) for key in ("val", "seconds", "memory"))
        point = {"m": m, "val": val, "seconds": mean_of(seconds), "peak_memory_bytes": mean_of(peak)}
        curve.append(point | ({} if outcome.error is None else {"error": outcome.error}))
        texts = [f"left out: {outcome.error}", "", ""]
        if val and seconds and peak:
            texts = [metric.text(val), f"{seconds['mean']:.1f}", f"{peak['mean'] / 2**30:.2f}"]
        rows.append([Cell(str(m)), *(Cell(text, int(m == chosen)) for text in texts)])
    tried = ", ".join(map(str, seen))
    said = f"Take m = {chosen}: of m = {tried} no other is better by more than the noise between seeds."
    if chosen is None:
        said = f"No m of {tried} fits into the memory: allow more parts, or use a smaller model."
    heading = f"{graph.name} · {experiment.model} · {experiment.settings.epochs} epochs · {len(experiment.seeds)} seeds"
    table = Table(heading, ["m", metric.label("validation"), "seconds", "peak memory (GiB)"], rows)
    return Finding("parts", heading, said, [table], payload={"recommended": chosen, "curve": curve})


def auto_parts(experiment: Experiment, out: Path, progress: Progress = silent) -> tuple[Experiment, list[int]]:
    """Choose m for ``experiment`` with ``choose_parts`` and the first three seeds. Also return all values of m that
    were tried.
    """
    result = choose_parts(experiment.with_(seeds=experiment.seeds[:3]), out, progress=progress).payload
    if result["recommended"] is None:
        raise HandfulError(f"no number of parts can be trained: {result['curve'][-1].get('error')}")
    sampler = replace(dealing(experiment.sampler), parts=result["recommended"])
    return experiment.with_(sampler=sampler), [point["m"] for point in result["curve"]]
