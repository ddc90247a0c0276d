"""What findings of trained experiments share: curves through training, and how each was configured."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from handful.errors import HandfulError
from handful.experiment import Experiment, Summary
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, best_two
from handful.graph import Graph
from handful.nn import parameter_count
from handful.nn.network import Network
from handful.runs import open_run, run_folders
from handful.shuffle.shards import is_sharded
from handful.statistics import mean_ci95
from handful.studies.jobs import Outcome
from handful.studies.verdict import few_seeds
from handful.training.assessment import BINS, Assessment, assess
from handful.training.metrics import METRICS, Metric, recorded_metric
from handful.training.record import Run, read_config
from handful.vocabulary import METHODS, REGIMES, hues, number, spaced, title, words

UNSHOWN = ("checkpoint_seconds",)
MOST_LINES = 6
"""More lines than these become facets, where their names say by what."""


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
        return self.results[0].metric if self.results else str(self.config["data"]["metric"])

    @property
    def judge(self) -> Metric:
        """The metric, to compare values and to write them."""
        return recorded_metric(self.metric, not self.results or self.results[0].higher_is_better)

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
    for place, (graph, members) in enumerate(groups.items()):
        metric = members[0].judge.label("validation")
        looks = [
            ("seconds", "seconds", Axis("seconds of training, with evaluation"), "val", metric),
            ("epochs", "epoch", Axis("epoch", whole=True), "val", metric),
            ("loss", "epoch", Axis("epoch", whole=True), "loss", "training loss"),
        ]
        name = "curves" if place == 0 else f"curves-{place}"
        facets = _facets(members)
        views = [
            View(look, "line", axis, Axis(label), _curves(members, against, measure))
            for look, against, axis, measure, label in looks
        ]
        if not facets:
            charts.append(Chart(name, f"{graph}: through training, best marked", views))
        for i, (look, against, axis, measure, label) in enumerate(looks if facets else []):
            panels = [View(f, "line", axis, Axis(label), _curves(runs, against, measure)) for f, runs in facets.items()]
            charts.append(Chart(f"{name}-{look}" if i else name, f"{graph}: {label} by {axis.label}", panels, True))
    return charts


def _facets(runs: Sequence[Trained]) -> dict[str, list[Trained]]:
    """Many runs whose labels are of the form "this, that", by the one that is no method; nothing where they are few."""
    pairs = [one.label.rpartition(", ") for one in runs]
    if len(runs) <= MOST_LINES or not all(first for first, _, _ in pairs):
        return {}
    found: dict[str, list[Trained]] = {}
    for one, (first, _, last) in zip(runs, pairs, strict=True):
        by, line = (first, last) if last in METHODS.values() else (last, first)
        found.setdefault(by, []).append(replace(one, name=_key(line), label=line))
    return found


def _key(label: str) -> str:
    """The name that a label stands for: a method has its colour by it."""
    return next((name for name, told in {**REGIMES, **METHODS}.items() if told == label), label)


def _curves(runs: Sequence[Trained], against: str, measure: str) -> list[Series]:
    series = []
    for one, color in zip(runs, hues([one.name for one in runs]), strict=True):
        x, values = mean_curve(one.histories, against, measure)
        if len(x):
            ends = (one.judge.scale if measure == "val" else 1) * np.stack(
                [values.mean(0), values.min(0), values.max(0)]
            )
            mean, low, high = ends.tolist()
            low, high = (low, high) if len(values) > 1 else ([], [])
            best = None
            if measure == "val":
                best = int((np.argmax if one.judge.higher_is_better else np.argmin)(mean))
            series.append(Series(one.label, x.tolist(), mean, low, high, color, best=best))
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


def summary_finding(summary: Summary, folder: Path, memory: int | str | None = None) -> Finding:
    """One experiment as a finding: a row for every seed."""
    name, told = summary.experiment.sampler.method, summary.to_json()
    trained = read_trained(folder, name)
    metric = recorded_metric(summary.metric, summary.runs[0].higher_is_better)
    unit = " (%)" if metric.percent else ""
    head = ["seed", f"val{unit}", f"test{unit}", "best epoch", "epochs", "steps", "seconds", "peak RAM (GiB)"]
    rows = [
        [
            Cell(str(run.seed)),
            Cell(metric.text(run.val)),
            Cell(metric.text(run.test)),
            Cell(str(run.best_epoch)),
            Cell(str(run.epochs)),
            Cell(str(run.steps)),
            Cell(f"{run.seconds:.1f}"),
            Cell(f"{run.peak_ram_bytes / 2**30:.2f}"),
        ]
        for run in summary.runs
    ]
    name_of, measured = spaced(metric.name), {"Test": told["test"], "Validation": {**told["val"], "ci95": None}}
    said = " ".join(
        f"There are no {which.lower()} nodes."
        if math.isnan(value["mean"])
        else f"{which} {name_of} {metric.told(value)}."
        for which, value in measured.items()
    )
    skipped = sum(run.skipped for run in summary.runs)
    if skipped:
        said += f" {skipped} batches made no step: they had no training node, or too few nodes for batch norm."
    if prepared := told["prepare_seconds"]["mean"]:
        said += f" Before the first epoch the clusters took {prepared:.1f} s (METIS; kept, and not in the seconds)."
    for run in summary.runs:
        if run.diverged is not None:
            said += f" Seed {run.seed} diverged in epoch {run.diverged}; its best epoch, {run.best_epoch}, stands."
    facts, details = configurations([] if trained is None else [trained])
    opened, made = open_run(folder), summary.experiment
    shape = f"{title(made.model)} {made.options['layers']}×{made.options['hidden']}"
    options = str(made.sampler).removeprefix(made.sampler.name).removesuffix("()")
    heading = f"{summary.graph} · {shape} · {title(name)} {options}".rstrip()
    tables, charts = [Table(heading, head, rows)], [*curve_charts([] if trained is None else [trained])]
    sampled = memory is not None and made.settings.evaluation == "sampled"
    if sampled:
        said += " Results per class need an exact evaluation, which was not asked for: `handful predict` makes one."
    if not sampled and not is_sharded(made.graph):  # of shards only all ranks together could infer once more
        graph = made.load(opened.result.seed)
        limit = 0.5 if opened.result.threshold is None else opened.result.threshold
        found = assess(opened.model, graph, limit, made.sampler, memory)
        said = f"{said} {in_words(found, opened.result.seed)}".rstrip()
        told |= {"assessment": {"seed": opened.result.seed, **found.to_json()}}
        tables += assessment_tables(found, graph, opened.result.seed)
        charts += assessment_charts(found, graph, opened.result.seed)
    said = f"{said} {few_seeds(len(summary.runs))}".rstrip()
    return Finding(
        "train",
        heading,
        said,
        tables,
        charts,
        told,
        {**facts, "parameters": f"{parameter_count(opened.model):,}"},
        [*details, architecture(opened.model)],
    )


# -- what a model does ------------------------------------------------------------------------------------------------


def told_of_labels(graph: Graph) -> str:
    """What the labels of a graph were taken for, where that is not plain, and how to say otherwise."""
    if graph.kind == "regression":
        return f"labels are numbers to predict (regression), judged by {spaced(graph.metric)}"
    if graph.kind == "multilabel":
        return f"each node has {graph.num_classes} labels (multilabel), judged by {spaced(graph.metric)}"
    if graph.y is None:
        return ""
    names = graph.class_names or tuple(map(str, range(max(2, int(graph.num_classes or 0)))))
    known = graph.y[graph.labelled]
    if len(known) and int(known.min()) == int(known.max()):
        return f"all labelled nodes are of one class, {names[int(known[0])]}: there is nothing to tell apart"
    if graph.kind != "binary" or graph.positive is None:
        return ""
    share = float((known == int(graph.positive)).double().mean())
    return f"the positive class is {names[int(graph.positive)]} ({100 * share:.1f} % of the labelled nodes)"


def in_words(found: Assessment, seed: int) -> str:
    """How the positive class does with the model of one ``seed``; of other kinds nothing beyond the metric."""
    for one in found.classes:
        if found.kind == "binary" and one["name"] == found.positive:
            scores = ", ".join(f"{spaced(what)} {_percent(one[what])}" for what in ("precision", "recall", "f1"))
            at = f"at threshold {found.threshold:.3g}"
            return f"Of the best seed alone, {seed}: {one['name']} has {scores} (%) {at}."
    return ""


def assessment_tables(found: Assessment, graph: Graph, seed: int) -> list[Table]:
    """All metrics, the classes one by one, what is taken for what, and the worst mistakes; of the best seed."""
    where = f"{found.nodes} nodes, seed {seed}"
    splits = list(next(iter(found.metrics.values())))
    measured = [
        [Cell(METRICS[name].label()), *(Cell(METRICS[name].text(values[split])) for split in splits)]
        for name, values in found.metrics.items()
    ]
    at = " at threshold 0.5" if found.kind == "binary" else ""
    tables = [Table(f"Metrics{at}, seed {seed}", ["metric", *splits], measured)]
    if found.classes:
        counts = [name for name in ("train", "val", "test") if name in found.classes[0]]
        scores = [name for name in found.classes[0] if name not in ("name", *counts)]
        rows = [
            [Cell(one["name"]), *(Cell(f"{one[n]:,}") for n in counts), *(Cell(_percent(one[n])) for n in scores)]
            for one in found.classes
        ]
        what, several = ("label", "Labels") if found.kind == "multilabel" else ("class", "Classes")
        tables.append(Table(f"{several} of the {where}", [what, *counts, *map(_head, scores)], rows))
    if found.confusion:
        tables.append(_confusions(found, where))
    if found.mistakes:
        keys = [key for key in found.mistakes[0] if key != "node"]
        rows = [[Cell(str(one["node"])), *(Cell(_cell(key, one[key])) for key in keys)] for one in found.mistakes]
        title = "Largest errors" if found.kind == "regression" else "Most confident mistakes"
        tables.append(Table(f"{title} among the {where}", ["node", *map(_head, keys)], rows))
    return tables


MATRIX = 12
"""Of more classes than this, the confusions are listed, and not all pairs drawn up."""


def _confusions(found: Assessment, where: str) -> Table:
    names = [one["name"] for one in found.classes]
    if len(names) <= MATRIX:
        rows = [
            [Cell(name), *(Cell(f"{n:,}", int(i == j)) for j, n in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, found.confusion, strict=True))
        ]
        return Table(f"Confusion matrix of the {where}", ["is ↓ taken for →", *names], rows)
    pairs = [(n, i, j) for i, row in enumerate(found.confusion) for j, n in enumerate(row) if n and i != j]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [[Cell(names[i]), Cell(names[j]), Cell(f"{n:,}")] for n, i, j in pairs[:20]]
    return Table(f"Most frequent confusions of the {where}", ["is", "taken for", "nodes"], rows)


def assessment_charts(found: Assessment, graph: Graph, seed: int) -> list[Chart]:
    """Whether probabilities come true, and of how many nodes; of numbers, predicted against true ones."""
    if found.calibration:
        where = f"{sum(one['nodes'] for one in found.calibration):,} {found.nodes} nodes, seed {seed}"
        x = [100 * one["confidence"] for one in found.calibration]
        y: list[float | None] = [100 * one["share"] for one in found.calibration]
        what = f"probability of {found.positive}" if found.positive else "probability of the predicted class"
        series = [Series("model", x, y), Series("if it came true as often as said", [0, 100], [0, 100], color=1)]
        lows = [min(int(BINS * one["confidence"]), BINS - 1) * 100 // BINS for one in found.calibration]
        tenths = [f"{low}–{low + 100 // BINS}" for low in lows]
        counts: list[float | None] = [one["nodes"] for one in found.calibration]
        views = [
            View("calibration", "line", Axis(f"{what} (%)"), Axis("came true (%)"), series),
            View("nodes", "bar", Axis(f"{what} (%)", of=tenths), Axis("nodes"), [Series("nodes", tenths, counts)]),
        ]
        error = f"calibration error {_percent(found.calibration_error)} % over {where}"
        return [Chart("calibration", f"{graph.name}: can probabilities be trusted? ({error})", views)]
    if found.points:
        true, guess = [one[0] for one in found.points], [one[1] for one in found.points]
        ends = [min(true), max(true)]
        series = [
            Series("nodes", true, [*guess]),
            Series("true = predicted", ends, [*ends], color=1, mark="line"),
        ]
        view = View("predicted", "dot", Axis("true"), Axis("predicted"), series)
        return [Chart("predicted", f"{graph.name}: predicted against true ({found.nodes} nodes, seed {seed})", [view])]
    return []


def architecture(model: Network) -> Table:
    """The modules of a model that have weights, and their shapes."""
    rows = []
    for name, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if own:
            shapes = ", ".join(f"{key} {' × '.join(map(str, weight.shape))}" for key, weight in own.items())
            count = sum(weight.numel() for weight in own.values())
            rows.append([Cell(name), Cell(type(module).__name__), Cell(shapes), Cell(f"{count:,}")])
    rows.append([Cell("all"), Cell(type(model).__name__), Cell(""), Cell(f"{parameter_count(model):,}")])
    return Table("Architecture", ["module", "kind", "weights", "parameters"], rows)


def _percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{100 * value:.2f}"


def _head(name: str) -> str:
    return name if name in ("true", "predicted", "error") else f"{spaced(name)} (%)"


def _cell(name: str, value: Any) -> str:
    if name == "probability":
        return _percent(value)
    return number(value) if isinstance(value, float) else str(value)


def training_finding(folder: Path, runs: Sequence[Trained]) -> Finding:
    """Runs of one graph as a finding: a row for every experiment of which a seed has ended."""
    done = [one for one in runs if one.results]
    metric, judge = runs[0].metric, (done or runs)[0].judge
    ranks = best_two([one.test["mean"] for one in done], judge.higher_is_better) if len(done) > 1 else [0] * len(done)
    rows = [
        [Cell(one.label), Cell(judge.text(one.test), rank), *_costs(one.results, judge)]
        for one, rank in zip(done, ranks, strict=True)
    ]
    going = [one.label for one in runs if len(one.results) < len(one.histories)]
    facts, details = configurations(runs)
    validation = "Validation (%)" if judge.percent else "Validation"
    head = ["Run", judge.label("Test"), validation, "Seconds", "Prepared (s)", "Seconds per epoch"]
    head += ["RAM (GiB)", "Seeds"]
    said = [f"{one.label}: test {spaced(metric)} {judge.told(one.test)}." for one in done[:1] if len(done) == 1]
    said += [f"Not ended: {', '.join(going)}."] if going else []
    said += [few_seeds(2)] if any(len(one.results) == 2 for one in done) else []
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


def _costs(results: Sequence[Run], judge: Metric) -> list[Cell]:
    def mean(values: Sequence[float]) -> float:
        return mean_ci95(values)["mean"]

    return [
        Cell(judge.text(mean_ci95([run.val for run in results]))),
        Cell(f"{mean([run.seconds for run in results]):.1f}"),
        Cell(f"{mean([run.prepare_seconds for run in results]):.1f}"),
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
