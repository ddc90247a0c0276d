"""What findings of trained experiments share: curves through training, and how each was configured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import HandfulError
from handful.experiment import Experiment, Summary
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two, percent
from handful.runs import run_folders
from handful.statistics import mean_ci95
from handful.studies.jobs import Outcome
from handful.training.metrics import METRICS
from handful.training.record import Run, read_config
from handful.vocabulary import METHODS, hues, spaced, title, words

UNSHOWN = ("checkpoint_seconds",)


@dataclass(frozen=True)
class Trained:
    """One experiment over its seeds, as its folder has it; ``results`` are those of the seeds that have ended."""

    name: str
    label: str
    """The name that people read."""
    config: Mapping[str, Any]
    """The ``config.json`` of the first seed."""
    seeds: tuple[int, ...]
    results: list[Run]
    histories: list[list[dict[str, Any]]]

    @property
    def graph(self) -> str:
        """The graph, with its split where that was chosen."""
        split = self.config.get("split")
        return str(self.config["data"]["graph name"]) + (f" ({split})" if split else "")

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return str(self.config["data"]["metric"])

    @property
    def test(self) -> dict[str, float]:
        """Mean and 95% CI over the seeds that have ended."""
        return mean_ci95([run.test for run in self.results])

    def configuration(self) -> dict[str, str]:
        """How it was trained, by name."""
        config = self.config
        sampler = dict(config["sampler"])
        name = sampler.pop("name")
        options = ", ".join(f"{key} = {words(value)}" for key, value in sampler.items())
        found = {
            "graph": self.graph,
            "training nodes": f"{config['data']['train nodes']:,}",
            "model": config["model"],
            **config["options"],
            "sampler": f"{name} ({options})" if options else name,
            **{key: value for key, value in config["settings"].items() if key not in UNSHOWN},
            "device": config["device"],
        }
        return {spaced(key): words(value) for key, value in found.items()}


def read_trained(folder: Path, name: str, label: str | None = None) -> Trained | None:
    """The experiment in ``folder``, or the one run; ``None`` where nothing was evaluated yet."""
    begun = [run for run in run_folders(folder) if run.config.exists() and run.metrics.exists()]
    if not begun:
        return None
    configs = [read_config(run.config) for run in begun]
    return Trained(
        name,
        label or title(name),
        configs[0],
        tuple(config["seeds"][0] for config in configs),
        [run.run() for run in begun if run.result.exists()],
        [run.lines() for run in begun],
    )


def of_outcomes(outcomes: Sequence[Outcome], labels: Mapping[str, str] | None = None) -> list[Trained]:
    """What the jobs that are done left in their folders."""
    found = [
        read_trained(one.folder, one.name, (labels or {}).get(one.name)) for one in outcomes if one.summary is not None
    ]
    return [one for one in found if one is not None]


def failures(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Why each job failed that did."""
    return {o.name: o.error or "it did not finish" for o in outcomes if o.summary is None}


def graph_and_metric(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    """The graph's own name and its metric, from the first job that is done."""
    for outcome in outcomes:
        if outcome.summary is not None:
            return str(outcome.summary["graph"]), str(outcome.summary["metric"])
    return outcomes[0].experiment.graph, "accuracy"


def setting(jobs: Mapping[str, Experiment]) -> str:
    """What all jobs have in common, for a title."""
    epochs = sorted({job.settings.epochs for job in jobs.values()})
    seeds = next(iter(jobs.values())).seeds
    return f"{' or '.join(map(str, epochs))} epochs · seed{'s' * (len(seeds) > 1)} {words(seeds)}"


def trained_finding(
    name: str,
    outcomes: Sequence[Outcome],
    *,
    title: str,
    words: str,
    head: list[str],
    rows: list[list[Cell]],
    payload: dict[str, Any],
    charts: Sequence[Chart] = (),
    labels: Mapping[str, str] | None = None,
) -> Finding:
    """The finding of a study that trains: its own table and charts, and the curves and configurations of its jobs."""
    runs = of_outcomes(outcomes, labels)
    facts, details = configurations(runs)
    return Finding(
        name,
        title,
        words,
        [Table(title, head, rows)],
        [*charts, *curve_charts(runs)],
        payload,
        facts,
        details,
        failed=tuple(failures(outcomes)),
    )


# -- curves -----------------------------------------------------------------------------------------------------------


def curve_charts(runs: Sequence[Trained]) -> list[Chart]:
    """Through training, a chart for each graph: mean over seeds, their range as a band."""
    groups: dict[str, list[Trained]] = {}
    for one in runs:
        groups.setdefault(one.graph, []).append(one)
    charts = []
    for number, (graph, members) in enumerate(groups.items()):
        metric = f"validation {spaced(members[0].metric)} (%)"
        looks = [
            ("seconds", "seconds", Axis("seconds of training, with evaluation"), "val", metric),
            ("epochs", "epoch", Axis("epoch", whole=True), "val", metric),
            ("loss", "epoch", Axis("epoch", whole=True), "loss", "training loss"),
        ]
        views = [
            View(name, "line", axis, Axis(label), _curves(members, against, measure))
            for name, against, axis, measure, label in looks
        ]
        charts.append(Chart("curves" if number == 0 else f"curves-{number}", f"{graph}: through training", views))
    return charts


def _curves(runs: Sequence[Trained], against: str, measure: str) -> list[Series]:
    series = []
    for one, color in zip(runs, hues([one.name for one in runs]), strict=True):
        x, values = mean_curve(one.histories, against, measure)
        if len(x):
            ends = (100 if measure == "val" else 1) * np.stack([values.mean(0), values.min(0), values.max(0)])
            mean, low, high = ends.tolist()
            several = len(values) > 1
            series.append(Series(one.label, x.tolist(), mean, low if several else [], high if several else [], color))
    return series


def mean_curve(
    histories: Sequence[Sequence[dict[str, Any]]], against: str, measure: str = "val"
) -> tuple[np.ndarray, np.ndarray]:
    """Where the seeds were evaluated, ``(places,)``, and their ``measure`` there, ``(seeds, places)``, as far as every
    seed got."""
    known = [[line for line in history if line[measure] is not None] for history in histories]
    length = min((len(history) for history in known), default=0)
    x = np.array([[line[against] for line in history[:length]] for history in known], float)
    y = np.array([[line[measure] for line in history[:length]] for history in known], float)
    return (x.mean(0), y) if length else (np.empty(0), np.empty((len(known), 0)))


# -- configurations ---------------------------------------------------------------------------------------------------


def configurations(runs: Sequence[Trained]) -> tuple[dict[str, str], list[Table]]:
    """What all runs have in common, and a table of what differs between them."""
    if not runs:
        return {}, []
    every = [one.configuration() for one in runs]
    names = list(dict.fromkeys(name for config in every for name in config))
    differ = [name for name in names if len({config.get(name, "") for config in every}) > 1]
    seeds = sorted({seed for one in runs for seed in one.seeds})
    shared = {name: every[0][name] for name in names if name not in differ} | {"seeds": words(seeds)}
    if not differ:
        return shared, []
    rows = [
        [Cell(one.label), *(Cell(config.get(name, "–")) for name in differ)]
        for one, config in zip(runs, every, strict=True)
    ]
    return shared, [Table("Configurations", ["Run", *differ], rows)]


# -- runs of no study -------------------------------------------------------------------------------------------------


def summary_finding(summary: Summary, folder: Path) -> Finding:
    """One experiment as a finding: a row for every seed."""
    name, told = summary.experiment.sampler.name, summary.to_json()
    trained = read_trained(folder, name)
    metric, test, val = spaced(summary.metric), told["test"], told["val"]
    head = ["seed", "val (%)", "test (%)", "best epoch", "epochs", "steps", "seconds", "peak RAM (GiB)"]
    rows = [
        [
            Cell(str(run.seed)),
            Cell(percent({"mean": run.val, "ci95": None})),
            Cell(percent({"mean": run.test, "ci95": None})),
            Cell(str(run.best_epoch)),
            Cell(str(run.epochs)),
            Cell(str(run.steps)),
            Cell(f"{run.seconds:.1f}"),
            Cell(f"{run.peak_ram_bytes / 2**30:.2f}"),
        ]
        for run in summary.runs
    ]
    measured = {"Test": test, "Validation": {**val, "ci95": None}}
    said = " ".join(
        f"There are no {name.lower()} nodes." if math.isnan(value["mean"]) else f"{name} {metric} {percent(value)} %."
        for name, value in measured.items()
    )
    skipped = sum(run.skipped for run in summary.runs)
    if skipped:
        said += f" {skipped} batches had no training node and made no step."
    for run in summary.runs:
        if run.diverged is not None:
            said += f" Seed {run.seed} diverged in epoch {run.diverged}; its best epoch, {run.best_epoch}, stands."
    facts, details = configurations([] if trained is None else [trained])
    heading = f"{summary.graph} · {summary.experiment.model} · {summary.experiment.sampler}"
    return Finding(
        "train",
        heading,
        said,
        [Table(heading, head, rows)],
        curve_charts([] if trained is None else [trained]),
        told,
        facts,
        details,
    )


def training_finding(folder: Path, runs: Sequence[Trained]) -> Finding:
    """Runs of one graph as a finding: a row for every experiment of which a seed has ended."""
    done = [one for one in runs if one.results]
    metric = runs[0].metric
    highest = METRICS[metric].higher_is_better
    ranks = best_two([one.test["mean"] for one in done], highest) if len(done) > 1 else [0] * len(done)
    rows = [
        [Cell(one.label), Cell(percent(one.test), rank), *_costs(one.results)]
        for one, rank in zip(done, ranks, strict=True)
    ]
    going = [one.label for one in runs if len(one.results) < len(one.histories)]
    facts, details = configurations(runs)
    head = ["Run", f"Test {spaced(metric)} (%)", "Validation (%)", "Seconds", "Seconds per epoch", "RAM (GiB)", "Seeds"]
    said = [f"{one.label}: test {spaced(metric)} {percent(one.test)} %." for one in done[:1] if len(done) == 1]
    said += [f"Not ended: {', '.join(going)}."] if going else []
    return Finding(
        "runs",
        f"{runs[0].graph} · training",
        " ".join(said),
        [Table("Runs", head, rows)],
        curve_charts(runs),
        {"graph": runs[0].graph, "metric": metric, "folder": folder.name},
        facts,
        details,
    )


def _costs(results: Sequence[Run]) -> list[Cell]:
    def mean(values: Sequence[float]) -> float:
        return mean_ci95(values)["mean"]

    return [
        Cell(percent(mean_ci95([run.val for run in results]))),
        Cell(f"{mean([run.seconds for run in results]):.1f}"),
        Cell(f"{mean([run.epoch_seconds for run in results]):.2f}"),
        Cell(f"{max(run.peak_ram_bytes for run in results) / 2**30:.2f}"),
        Cell(words([run.seed for run in results])),
    ]


def loose_findings(folder: Path, taken: Sequence[Path]) -> tuple[list[Finding], dict[Path, str]]:
    """Runs below ``folder`` that belong to no finding in ``taken``, by graph and metric; and what is unreadable."""
    groups: dict[tuple[str, str], list[Trained]] = {}
    unreadable: dict[Path, str] = {}
    for place in _experiments(folder):
        if any(place.is_relative_to(home) for home in taken):
            continue
        name = place.resolve().name if place == folder else str(place.relative_to(folder))
        try:
            one = read_trained(place, name, title(place.resolve().name))
            if one is not None:
                training_finding(folder, [one])  # whatever is odd in its records shows here, and costs only itself
                groups.setdefault((one.graph, one.metric), []).append(one)
        except HandfulError as error:
            unreadable[place] = str(error)
        except (LookupError, TypeError, ValueError, AttributeError, OSError, OverflowError) as error:
            unreadable[place] = f"its records are not those of a run ({error!r})"
    return [training_finding(folder, runs) for runs in groups.values()], unreadable


def _experiments(folder: Path) -> list[Path]:
    """Folders of experiments and of single runs; a seed's folder is part of its experiment."""
    found = {file.parent for file in folder.rglob("config.json")}
    tops = [place for place in found if place.parent not in found or not place.name.startswith("seed-")]
    return sorted(tops, key=_order)


def _order(place: Path) -> tuple[str, int, list[int], str]:
    """Methods as tables have them, and m-2 before m-16."""
    known, name = list(METHODS), place.name
    at = known.index(name) if name in known else len(known)
    return str(place.parent), at, [int(digits) for digits in re.findall(r"\d+", name)], name
