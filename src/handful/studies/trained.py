"""Read runs from their folders: training curves, configurations, and findings of runs that are not part of a study."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import HandfulError
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two, text_table
from handful.runs import run_folders
from handful.statistics import mean_ci95
from handful.training.metrics import Metric, metric_of_record
from handful.training.record import Run, read_config
from handful.vocabulary import METHODS, REGIMES, hues, spaced, title, words

MOST_LINES = 6
"""The maximum number of lines in one view. If there are more, and their labels have two parts, they are split into
facets.
"""


@dataclass(frozen=True)
class Trained:
    """An experiment that was read from its folder. ``results`` contains only the finished seeds."""

    name: str
    label: str
    """The display name."""
    config: Mapping[str, Any]
    """The ``config.json`` of the first seed."""
    seeds: tuple[int, ...]
    results: list[Run]
    histories: list[list[dict[str, Any]]]

    @property
    def graph(self) -> str:
        """The name of the graph, with the split if it is not the default split."""
        split = self.config.get("split")
        return str(self.config["data"]["graph name"]) + (f" ({split})" if split else "")

    @property
    def metric(self) -> Metric:
        """The metric of the runs."""
        if not self.results:
            return metric_of_record(str(self.config["data"]["metric"]))
        return metric_of_record(self.results[0].metric, self.results[0].higher_is_better)

    def mean(self, measure: str) -> dict[str, float]:
        """The mean and 95% CI of a field of ``Run`` over the finished seeds."""
        return mean_ci95([getattr(run, measure) for run in self.results])

    def configuration(self) -> dict[str, str]:
        """The configuration of the training as texts, by display name."""
        config = self.config
        sampler = dict(config["sampler"])
        name = sampler.pop("name")
        options = ", ".join(f"{key} = {words(value)}" for key, value in sampler.items())
        result = {
            "graph": self.graph,
            "training nodes": f"{config['data']['train nodes']:,}",
            "model": config["model"],
            **config["options"],
            "sampler": f"{name} ({options})" if options else name,
            **{key: value for key, value in config["settings"].items() if key != "checkpoint_seconds"},
            "device": config["device"],
        }
        return {spaced(key): words(value) for key, value in result.items()}


def read_trained(folder: Path, name: str, label: str | None = None) -> Trained | None:
    """Read the experiment or the single run in ``folder``; ``None`` if it has no evaluation yet."""
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


# -- curves -----------------------------------------------------------------------------------------------------------

LOOKS = {
    "seconds": ("seconds", Axis("seconds of training, with evaluation"), "val"),
    "epochs": ("epoch", Axis("epoch", whole=True), "val"),
    "loss": ("epoch", Axis("epoch", whole=True), "loss"),
}
"""The views of the training curves. For each view: the field for x, the x axis, and the field for y."""


def curve_charts(runs: Sequence[Trained]) -> list[Chart]:
    """Chart the training curves of each graph: the mean over the seeds as a line, and their range as a band. If there
    are many lines, they are split into facets.
    """
    charts = []
    for place, graph in enumerate(dict.fromkeys(one.graph for one in runs)):
        members = [one for one in runs if one.graph == graph]
        name = "curves" if place == 0 else f"curves-{place}"
        facets = _facets(members)
        if not facets:
            views = [_view(look, members, look) for look in LOOKS]
            charts.append(Chart(name, f"{graph}: through training, best marked", views))
        for look in LOOKS if facets else ():
            panels = [_view(facet, own, look) for facet, own in facets.items()]
            stem = name if look == "seconds" else f"{name}-{look}"
            charts.append(Chart(stem, f"{graph}: {panels[0].y.label} by {panels[0].x.label}", panels, together=True))
    return charts


def _facets(runs: Sequence[Trained]) -> dict[str, list[Trained]]:
    """Group runs with labels such as "GraphSAGE, RNS" by the part of the label that is not a method. The result is
    empty if there are at most ``MOST_LINES`` runs.
    """
    pairs = [one.label.rpartition(", ") for one in runs]
    if len(runs) <= MOST_LINES or not all(first for first, _, _ in pairs):
        return {}
    names = {label: name for name, label in {**REGIMES, **METHODS}.items()}  # a method's colour depends on its name
    result: dict[str, list[Trained]] = {}
    for one, (first, _, last) in zip(runs, pairs, strict=True):
        by, line = (first, last) if last in METHODS.values() else (last, first)
        result.setdefault(by, []).append(replace(one, name=names.get(line, line), label=line))
    return result


def _view(name: str, runs: Sequence[Trained], look: str) -> View:
    against, axis, measure = LOOKS[look]
    series = []
    for one, color in zip(runs, hues([one.name for one in runs]), strict=True):
        x, values = mean_curve(one.histories, against, measure)
        if len(x):
            values = values * (one.metric.scale if measure == "val" else 1)
            mean, low, high = (end.tolist() for end in (values.mean(0), values.min(0), values.max(0)))
            low, high = (low, high) if len(values) > 1 else ([], [])
            best = int((np.argmax if one.metric.higher_is_better else np.argmin)(mean)) if measure == "val" else None
            series.append(Series(one.label, x.tolist(), mean, low, high, color, best=best))
    label = runs[0].metric.label("validation") if measure == "val" else "training loss"
    return View(name, "line", axis, Axis(label), series)


def mean_curve(
    histories: Sequence[Sequence[dict[str, Any]]], against: str, measure: str = "val"
) -> tuple[np.ndarray, np.ndarray]:
    """The field ``against``, averaged over the seeds, ``(evaluations,)``; and the values of ``measure``, of shape
    (seeds, evaluations). Evaluations that some seed does not have are left out.
    """
    known = [[line for line in history if line[measure] is not None] for history in histories]
    length = min((len(history) for history in known), default=0)
    x, y = (np.array([[line[key] for line in own[:length]] for own in known], float) for key in (against, measure))
    return (x.mean(0), y) if length else (np.empty(0), np.empty((len(known), 0)))


# -- configurations ---------------------------------------------------------------------------------------------------


def configurations(runs: Sequence[Trained]) -> tuple[dict[str, str], list[Table]]:
    """The settings that are the same in all runs, and a table of the settings that differ."""
    if not runs:
        return {}, []
    every = [one.configuration() for one in runs]
    names = list(dict.fromkeys(name for config in every for name in config))
    differ = [name for name in names if len({config.get(name, "") for config in every}) > 1]
    seeds = sorted({seed for one in runs for seed in one.seeds})
    shared = {name: every[0][name] for name in names if name not in differ} | {"seeds": words(seeds)}
    rows = ([one.label, *(own.get(name, "–") for name in differ)] for one, own in zip(runs, every, strict=True))
    return shared, [text_table("Configurations", ["Run", *differ], rows)] if differ else []


# -- runs without a study ---------------------------------------------------------------------------------------------

COSTS = {"seconds": "{:.1f}", "prepare_seconds": "{:.1f}", "epoch_seconds": "{:.2f}"}
"""The fields of ``Run`` in the table of runs, and the formats of their means."""


def training_finding(folder: Path, runs: Sequence[Trained]) -> Finding:
    """Make the finding of runs on one graph. Its table has a row for every experiment with a finished seed."""
    done = [one for one in runs if one.results]
    metric, rows = (done or runs)[0].metric, []
    ranks = best_two([one.mean("test")["mean"] for one in done], metric.higher_is_better)
    for one, rank in zip(done, ranks, strict=True):
        test, val = (metric.text(one.mean(measure)) for measure in ("test", "val"))
        costs = (Cell(form.format(one.mean(measure)["mean"])) for measure, form in COSTS.items())
        memory = Cell(f"{max(run.peak_ram_bytes for run in one.results) / 2**30:.2f}")
        seeds = Cell(words([run.seed for run in one.results]))
        rows.append([Cell(one.label), Cell(test, rank if len(done) > 1 else 0), Cell(val), *costs, memory, seeds])
    head = ["Run", metric.label("Test"), metric.label("Validation"), *map(spaced, COSTS), "RAM (GiB)", "Seeds"]
    going = [one.label for one in runs if len(one.results) < len(one.histories)]
    said = f"Not ended: {', '.join(going)}." if going else ""
    facts, details = configurations(runs)
    payload = {"graph": runs[0].graph, "metric": metric.name, "folder": folder.name}
    tables, charts = [Table("Runs", head, rows)], curve_charts(runs)
    return Finding("runs", f"{runs[0].graph} · training", said, tables, charts, payload, facts, details)


def loose_findings(folder: Path, taken: Sequence[Path]) -> tuple[list[Finding], dict[Path, str]]:
    """Make a finding for each graph and metric from the runs in ``folder`` and its subfolders, except the folders
    ``taken``. Also return the errors of unreadable folders.
    """
    groups: dict[tuple[str, str], list[Trained]] = {}
    unreadable: dict[Path, str] = {}
    for place in _experiments(folder):
        if any(place.is_relative_to(home) for home in taken):
            continue
        name = place.resolve().name if place == folder else str(place.relative_to(folder))
        try:
            one = read_trained(place, name, title(place.resolve().name))
            if one is not None:
                training_finding(folder, [one])  # an error in the records of a run leaves out only this run
                groups.setdefault((one.graph, one.metric.name), []).append(one)
        except HandfulError as error:
            unreadable[place] = str(error)
        except (LookupError, TypeError, ValueError, AttributeError, OSError, OverflowError) as error:
            unreadable[place] = f"its records are not the records of a run ({error!r})"
    return [training_finding(folder, runs) for runs in groups.values()], unreadable


def _experiments(folder: Path) -> list[Path]:
    """The folders of experiments and of single runs, without the folders of their seeds."""
    result = {file.parent for file in folder.rglob("config.json")}
    tops = [place for place in result if place.parent not in result or not place.name.startswith("seed-")]
    return sorted(tops, key=_order)


def _order(place: Path) -> tuple[str, int, list[int], str]:
    """The sort key of a folder. Methods are in the order of the tables, and m-2 comes before m-16."""
    known, name = list(METHODS), place.name
    at = known.index(name) if name in known else len(known)
    return str(place.parent), at, [int(digits) for digits in re.findall(r"\d+", name)], name
