"""The paper's main table for any graph: full-graph training and every sampler, with the same architecture and the same
budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.datasets import sources
from handful.errors import HandfulError, SamplerError
from handful.experiment import VARIANTS, Experiment, sampler_of
from handful.finding import Axis, Chart, Finding, View, mean_of, points
from handful.graph import Graph
from handful.samplers.ladies import Ladies
from handful.shuffle.shards import is_sharded
from handful.studies.baselines import BASELINES, baseline_table, kept_baselines, say_added
from handful.studies.budget import Request, Scale, benchmark
from handful.studies.executors import LOCAL, Executor
from handful.studies.grid import EPOCH_SECONDS, GPU, MEMORY, RAM, SECONDS, TEST, Entry, Grid, Measure, paper_number
from handful.studies.jobs import Outcome, Progress, run_jobs, silent
from handful.training.label_features import refusal
from handful.training.record import read_config
from handful.vocabulary import METHODS, hues, title, words

SCALE = Scale(hidden=128, layers=3, epochs=40)
PREPARED = Measure("prepare_seconds", "Prepared (s)", "{:.1f}".format)
STEPS_MADE = Measure("steps", "Steps", "{:,.0f}".format)
ALIKE = 1.1
"""Two numbers of steps count as equal if the larger one is at most this many times the smaller one."""
STEPS = 8
"""The number of batches per epoch for samplers with the option ``batch_size``."""

Options = Mapping[str, Mapping[str, Any]]
"""The names of methods, each with options of its sampler."""


def choose_methods(options: Options, layers: int, graph: Graph | None = None) -> dict[str, dict[str, Any]]:
    """Complete the options of each method, and check them.

    ``rns-mean-field`` gets the options of ``rns`` by default. The budget of LADIES gets one entry per layer of the
    model. If ``graph`` is given, neighbour sampling and LADIES get ``STEPS`` batches per epoch, about as many as the
    other methods. With their default batch size of about a thousand targets, these two methods would make ten times as
    many steps as RNS, and would take ten times as long. The paper instead gives neighbour sampling a fiftieth of the
    epochs.
    """
    defaults: dict[str, dict[str, Any]] = {"ladies": {"budget": (Ladies().budget[0],) * layers}}
    if graph is not None:
        size = -(-len(graph.train_nodes) // STEPS)
        for name in ("neighbor", "ladies"):
            defaults.setdefault(name, {})["batch_size"] = size
    defaults |= {name: dict(options.get("rns", {})) for name in VARIANTS}
    chosen = {name: {**defaults.get(name, {}), **own} for name, own in options.items()}
    for name, given in chosen.items():
        sampler_of(name, **given)
    return chosen


def trainable(
    experiment: Experiment, methods: Options, say: Callable[[str], None], graph: Graph | None = None
) -> dict[str, Experiment]:
    """For each method that can train the model of ``experiment``, the experiment with this method. ``say`` is called
    with the reason for each method that is left out. If ``graph`` is given, methods that need classes are left out if
    it has none.

    Raises:
        SamplerError: no method can train the model.
    """
    able, why = {}, []
    for method, options in methods.items():
        try:
            made = experiment.with_method(method, **options)
            if graph is not None and made.settings.label_features == "yes" and (no := refusal(graph, made.sampler)):
                raise SamplerError(f"{title(method)}: {no}")
            able[method] = made
        except SamplerError as error:
            why.append(error)
    if not able:
        raise why[0]
    for reason in why:
        say(f"left out: {reason}")
    return able


def compare_samplers(
    jobs: Mapping[str, Experiment],
    out: Path,
    executor: Executor = LOCAL,
    progress: Progress = silent,
    equal: str = "epochs",
    baselines: bool = True,
) -> Finding:
    """Train one job per method, and compare the results. Each job trains in its own process, in a subfolder of ``out``.
    ``equal`` is as in ``pace``. If ``baselines``, the finding also contains baselines, on the split of the first seed.
    """
    experiment, jobs = next(iter(jobs.values())), pace(jobs, equal, out)
    grid = Grid(entries_of(jobs), run_jobs(jobs, out, executor, progress))
    result = comparison("compare", grid)
    if not baselines or not grid.done or is_sharded(experiment.graph):
        return result
    data, weight = experiment.load(experiment.seeds[0]), experiment.settings.class_weight
    found, notes = kept_baselines(out / BASELINES, data, grid.metric, weight)
    best = max(grid.done, key=lambda o: _mean(o, "test") if grid.metric.higher_is_better else -_mean(o, "test"))
    test = best.estimate("test") or {}
    half = float(np.nan_to_num(test.get("ci95", np.nan)))
    added = say_added(f"{title(experiment.model)} by {title(best.name)}", test["mean"], half, found, grid.metric)
    said = [added, result.words, *(f"Baselines: {note}." for note in notes)]
    tables = [result.tables[0], baseline_table(found, grid.metric), *result.tables[1:]]
    payload = {**result.payload, "baselines": [asdict(one) for one in found]}
    return replace(result, words=" ".join(said), tables=tables, payload=payload)


def pace(jobs: Mapping[str, Experiment], equal: str, out: Path) -> dict[str, Experiment]:
    """Set the number of epochs of each job, so that all jobs have the same number of ``epochs``, ``steps`` or
    ``seconds``.

    The steps or the seconds per epoch of each job are measured over three epochs, after one epoch of warm-up. The job
    with the most steps or seconds per epoch keeps its number of epochs, and the other jobs get more. A job that has
    already started in ``out`` keeps its number of epochs, because a second measurement would give another number.
    """
    if equal == "epochs":
        return dict(jobs)
    spent: dict[str, float] = {}
    for name, job in jobs.items():
        with suppress(HandfulError):  # its own process reports the error
            graph, seed = job.load(job.seeds[0]), job.seeds[0]
            for epochs in (1, 3):  # the first run compiles kernels and fills caches
                run = job.with_(epochs=epochs, evaluate_every=epochs, patience=None).fit(graph, seed)
            spent[name] = run.steps / run.epochs if equal == "steps" else run.epoch_seconds
    result = {}
    for name, job in jobs.items():
        epochs = round(job.settings.epochs * max(spent.values()) / max(spent[name], 1e-9)) if name in spent else 1
        begun = out / name / "config.json"
        if begun.exists():
            epochs = Experiment.from_json(read_config(begun)).settings.epochs
        every = max(1, round(job.settings.evaluate_every * epochs / job.settings.epochs))
        result[name] = job.with_(epochs=epochs, evaluate_every=every)
    return result


def samplers(request: Request) -> Finding:
    """The main table: accuracy, time and memory of full-graph training and of every sampler.

    If the budget is ``paper``, each sampler has its own model and hyperparameters. Otherwise all samplers train the
    same small GraphSAGE, except that LADIES trains a GCN.
    """
    graph = request.graph_or("ogbn-arxiv")
    jobs = {}
    for method in (name for name in METHODS if name != "rns-labels"):  # the paper's models see features alone
        with suppress(SamplerError):  # models with input dropout cannot have a precomputed first hop
            jobs[method] = benchmark(request, graph, method, SCALE)
    return comparison("samplers", Grid.train(request, entries_of(jobs)))


def entries_of(jobs: Mapping[str, Experiment]) -> dict[str, Entry]:
    """An entry for each method, with the paper's numbers if the paper reports this graph and metric."""
    result = {}
    for method, job in jobs.items():
        named = sources().get(job.graph)
        own = named is not None and job.settings.metric in (None, named.metric)
        paper = paper_number("tab:main-results", job.graph, method) if own else None
        result[method] = Entry(job, method, paper=paper, facts={"sampler": method})
    return result


def comparison(name: str, grid: Grid) -> Finding:
    """Make the finding of a comparison of samplers."""
    heading = f"{grid.graph} · {len(grid.entries)} way{'s' * (len(grid.entries) > 1)} to train · {grid.setting}"
    measures = [TEST, STEPS_MADE, replace(SECONDS, ranked=True), EPOCH_SECONDS, RAM]
    measures += [measure for measure in (GPU, PREPARED) if any(any(o.seeds(measure.key)) for o in grid.done)]
    table = grid.list_table(heading, "Method", measures)
    result = grid.finding(name, conclude(grid.done), [table], [cost_chart(grid)], records="rows")
    return replace(result, facts={**result.facts, "clock": "starts when all kernels are compiled"})


def cost_chart(grid: Grid) -> Chart:
    """Chart the test metric of every sampler against its training time, and against its peak memory."""
    views = []
    costs = {"time": (SECONDS, Axis("seconds of training", log=True)), "memory": (MEMORY, Axis("peak memory (GiB)"))}
    for name, (cost, x) in costs.items():
        series = []
        for o, hue in zip(grid.done, hues([o.name for o in grid.done]), strict=True):
            spent = cost.scale * np.mean(o.seeds(cost.key))
            series.append(points(title(o.name), [spent], [o.estimate("test")], hue, grid.metric.scale))
        views.append(View(name, "dot", x, Axis(grid.metric.label("test")), series))
    return Chart("costs", f"{grid.graph}: the cost of accuracy", views)


def conclude(outcomes: Sequence[Outcome]) -> str:
    """Recommend a method in a sentence: the fastest method whose 95% confidence interval overlaps that of the best
    method. Also state the conditions of the comparison. With fewer than three seeds, no method is recommended.
    """
    known = [outcome for outcome in outcomes if mean_of(outcome.estimate("test")) is not None]
    if len(known) < 2:
        return "There are not two methods to compare."
    metric, seeds, steps = known[0].metric, len(known[0].seeds("test")), sorted(_mean(o, "steps") for o in known)
    epochs = sorted({outcome.experiment.settings.epochs for outcome in known})
    spent = sorted(_mean(outcome, "train_seconds") for outcome in known)
    paced = "equal seconds" if spent[-1] <= 2 * spent[0] else f"{epochs[0]} to {epochs[-1]} epochs"
    equal = "equal steps" if steps[-1] <= ALIKE * steps[0] else paced if len(epochs) > 1 else "equal epochs"
    span = " to ".join(dict.fromkeys(f"{count:,.0f}" for count in (steps[0], steps[-1])))
    holds = f"This holds for {equal}, with {span} steps."
    best, second, *_ = sorted(known, key=lambda o: _mean(o, "test"), reverse=metric.higher_is_better)
    apart = metric.apart(_mean(best, "test") - _mean(second, "test"))
    ahead = f"{title(best.name)} is {apart} ahead of {title(second.name)}"
    if seeds < 3:
        return f"{ahead}, which may be chance: use more seeds. {holds}"
    alike = [outcome for outcome in known if _overlap(best, outcome)]
    use, names = min(alike, key=lambda outcome: _mean(outcome, "seconds")), words([title(o.name) for o in alike])
    return f"Use {title(use.name)}, the fastest of the best by {seeds} seeds ({names}). {ahead}. {holds}"


def _mean(outcome: Outcome, measure: str) -> float:
    return float(np.mean(outcome.seeds(measure)))


def _overlap(best: Outcome, other: Outcome) -> bool:
    first, second = (outcome.estimate("test") or {} for outcome in (best, other))
    return bool(abs(first["mean"] - second["mean"]) <= np.nansum([first["ci95"], second["ci95"]]))
