"""Make the finding of a trained experiment: the result of each seed, and an assessment by class and by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from handful.experiment import Summary
from handful.files import seal, write_json
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, text_table
from handful.graph import Graph
from handful.nn import parameter_count
from handful.runs import DECISION, OpenedRun, open_run
from handful.shuffle.shards import is_sharded
from handful.statistics import share_interval
from handful.studies.baselines import BASELINES, Baseline, baseline_table, best_of, kept_baselines, say_added
from handful.studies.trained import configurations, curve_charts, read_trained
from handful.training.assessment import BINS, Assessment, Decision, assess_average, interval
from handful.training.inference import infer
from handful.training.loss import balanced_weights
from handful.training.metrics import METRICS, Metric, metric_of_record
from handful.vocabulary import number, shown, spaced, title, words

MATRIX = 12
"""The maximum number of classes for a full confusion matrix. If there are more classes, the most frequent confusions
are listed.
"""
LISTED = 20
"""The maximum number of confusions that are listed if there are more than ``MATRIX`` classes."""


def summary_finding(summary: Summary, folder: Path, memory: int | str | None = None, baselines: bool = True) -> Finding:
    """Make the finding of an experiment: a row per seed, the assessment of the average over the seeds, and the
    baselines.

    The decision threshold and the class weights for the average are written to ``folder``; predictions use them.

    Args:
        summary: the results of the experiment.
        folder: the folder of the experiment's records.
        memory: the memory budget of the run, if any. If there is a budget, no baselines are trained.
        baselines: whether to train baselines.
    """
    made, opened, payload = summary.experiment, open_run(folder), summary.to_json()
    metric = metric_of_record(summary.metric, summary.runs[0].higher_is_better)
    trained = read_trained(folder, made.method)
    runs = [] if trained is None else [trained]
    facts, details = configurations(runs)
    options = str(made.sampler).removeprefix(made.sampler.name).removesuffix("()")
    shape = f"{title(made.model)} {made.options['layers']}×{made.options['hidden']}"
    heading = f"{summary.graph} · {shape} · {title(made.method)} {options}".rstrip()
    seeds, charts, said = seed_table(heading, summary, metric), curve_charts(runs), [say_summary(summary, metric)]
    tables, below, named = [seeds], list[Table](), heading
    if memory is not None and made.settings.evaluation == "sampled":
        said.append("Results per class need an exact evaluation: `handful predict` makes one.")
    elif not is_sharded(made.graph):  # inference over shards needs all ranks
        graph = made.load(opened.seed)
        judged = judge(opened, graph, metric, memory)
        how = {name: getattr(judged.decision, name) for name in ("threshold", "class_weight", "scale", "bias")}
        write_json(folder / DECISION, seal(how))
        found, notes = list[Baseline](), list[str]()
        if baselines and memory is None:
            found, notes = kept_baselines(folder / BASELINES, graph, metric, made.settings.class_weight)
        payload |= {"assessment": {"seeds": judged.seeds, "interval": judged.interval, **judged.result.to_json()}}
        payload |= {"baselines": [asdict(one) for one in found]} if found else {}
        said = [*judged.say(metric, title(made.model), found), *said, *(f"Baselines: {note}." for note in notes)]
        measured, *by_class = assessment_tables(judged.result, f"{judged.result.nodes} nodes, {judged.which}")
        mistakes = [by_class.pop()] if judged.result.mistakes else []
        value = judged.result.metrics[metric.name][judged.result.nodes]
        named = headline(graph, metric, value, found)
        tables = [*([baseline_table(found, metric)] * bool(found)), *by_class] or [measured]
        below = [*mistakes, *([measured] if measured not in tables else []), seeds]
        added = [added_chart(title(made.model), value, found, metric)] if found else []
        charts = [*added, *assessment_charts(judged.result, judged.which), *charts]
    facts["parameters"] = f"{parameter_count(opened.model):,}"
    return Finding("train", named, " ".join(said), tables, charts, payload, facts, details, below=below)


def headline(graph: Graph, metric: Metric, value: float, found: Sequence[Baseline]) -> str:
    """Make the title of the finding: the label, the number of nodes, and the metrics of the model and
    of two baselines.
    """
    what = ", ".join((graph.schema or {}).get("labels", ())) or "labels"
    blind = [one for one in found if not one.sees_graph]
    values = {spaced(metric.name): value} | {one.name: one.test for one in found[:1]}
    values |= {"without the graph": best_of(blind, metric).test} if len(blind) > 1 else {}
    told = ", ".join(f"{name} {metric.with_unit(one)}" for name, one in values.items())
    return f"Predicting {what} for {graph.num_nodes:,} nodes of {graph.name}: {told}"


def added_chart(model: str, value: float, found: Sequence[Baseline], metric: Metric) -> Chart:
    """Chart the test metrics of the baselines that ignore the graph, of the baselines that use it, and of the model."""
    bars: dict[str, dict[str, float]] = {"without the graph": {}, "with the graph": {}, model: {model: value}}
    for one in found:
        name = one.name.replace("own and neighbours'", "all").removesuffix(" columns")
        bars["with the graph" if one.sees_graph else "without the graph"][name] = one.test
    series = []
    for color, (name, own) in enumerate(bars.items()):
        series.append(Series(name, [*own], [metric.scale * test for test in own.values()], color=color))
    names = [name for own in bars.values() for name in own]
    view = View("test", "bar", Axis("", of=names), Axis(metric.label("test")), series)
    return Chart("added", f"What the graph and {model} add", [view])


@dataclass(frozen=True)
class Judged:
    """The assessment of the average over the seeds. If each seed has its own split, only the best seed is assessed.

    Args:
        result: the assessment.
        seeds: the seeds that are averaged.
        interval: the 95% confidence interval of the metric, over nodes and seeds.
        decision: the rule that converts probabilities to a class.
    """

    result: Assessment
    seeds: list[int]
    interval: tuple[float, float]
    decision: Decision

    @property
    def which(self) -> str:
        """A text that names the seed, or says how many seeds are averaged."""
        return f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"average of {len(self.seeds)} seeds"

    def say(self, metric: Metric, model: str, found: Sequence[Baseline]) -> list[str]:
        """Describe the assessment in sentences: whether the model always predicts the same class, its gain over the
        baselines, and its metric with the confidence interval.
        """
        value, (low, high) = self.result.metrics[metric.name][self.result.nodes], self.interval
        taken = [i for i, column in enumerate(zip(*self.result.confusion, strict=True)) if any(column)]
        said = []
        if len(taken) == 1 and len(self.result.classes) > 1:
            alone = self.result.classes[taken[0]]["name"]
            said.append(f"The model predicts {alone} for all {self.result.nodes} nodes.")
        if found and self.result.nodes == "test" and not isnan(value):
            said.append(say_added(model, value, (high - low) / 2, found, metric))
        ends = f"{metric.text(low)} to {metric.with_unit(high)}, 95% over nodes and seeds"
        what = f"{self.result.nodes.capitalize()} {spaced(metric.name)} of {'the ' * (len(self.seeds) > 1)}{self.which}"
        said += [] if isnan(value) else [f"{what}: {metric.with_unit(value)} ({ends})."]
        if self.decision.bias:
            said.append("Probabilities are calibrated on the validation nodes. Without calibration:")
        return said


def judge(opened: OpenedRun, graph: Graph, metric: Metric, memory: int | str | None = None) -> Judged:
    """Assess a run on ``graph``, with exact inference within the memory budget ``memory``."""
    asked = opened.experiment
    assert asked is not None
    runs = [opened.result] if opened.own_splits else opened.results
    models = [opened.model] if opened.own_splits else opened.models()
    outputs = [infer(model, graph, sampler=asked.sampler, memory=memory).cpu() for model in models]
    graph = graph.to("cpu")
    weight = balanced_weights(graph) if asked.settings.class_weight == "balanced" else None
    result, decision = assess_average(outputs, graph, asked.settings.threshold == "f1", weight)
    nodes = getattr(graph, f"{result.nodes}_mask").nonzero().squeeze(1)
    return Judged(result, [run.seed for run in runs], interval(outputs, graph, metric, nodes, decision), decision)


def seed_table(heading: str, summary: Summary, metric: Metric) -> Table:
    """Make a table of the results, with a row per seed."""
    unit = " (%)" if metric.percent else ""
    head = ["seed", f"val{unit}", f"test{unit}", "best epoch", "epochs", "steps", "seconds", "peak RAM (GiB)"]
    rows = []
    for run in summary.runs:
        result, counts = map(metric.text, (run.val, run.test)), map(str, (run.best_epoch, run.epochs, run.steps))
        rows.append([str(run.seed), *result, *counts, f"{run.seconds:.1f}", f"{run.peak_ram_bytes / 2**30:.2f}"])
    return text_table(heading, head, rows)


def say_summary(summary: Summary, metric: Metric) -> str:
    """Describe the results in sentences: the test and validation metrics, skipped batches, the time of the preparation
    (METIS, the first hop), and diverged runs.
    """
    record = summary.to_json()
    values = {"Test": record["test"], "Validation": {**record["val"], "ci95": None}}
    one = f"in its best epoch, {summary.runs[0].best_epoch}"
    how, said = "mean over the seeds" if len(summary.runs) > 1 else one, []
    for which, value in values.items():
        measured = f"{which} {spaced(metric.name)} {metric.with_unit(value)}, {how}."
        said.append(f"There are no {which.lower()} nodes." if isnan(value["mean"]) else measured)
    if skipped := sum(run.skipped for run in summary.runs):
        said.append(f"{skipped} batches made no step: they had no training node, or too few nodes for BatchNorm.")
    if prepared := record["prepare_seconds"]["mean"]:
        said.append(f"Work before the first epoch, such as METIS or A·X, took {prepared:.1f} s, not in the seconds.")
    for run in summary.runs:
        if run.diverged is not None:
            said.append(f"Seed {run.seed} diverged in epoch {run.diverged}: its result is of epoch {run.best_epoch}.")
    last = sum(run.best_epoch == summary.experiment.settings.epochs for run in summary.runs)
    if last > len(summary.runs) / 2:
        said.append("The best epoch is the last one: more epochs may be better.")
    if len(summary.runs) == 2:
        said.append("± of two seeds is 12.7 standard errors wide: use three seeds or more.")
    return " ".join(said)


def describe_labels(graph: Graph) -> str:
    """Describe the task of a graph, its positive class, and the classes without training or validation nodes. The text
    is empty if there is nothing to say.
    """
    if graph.kind == "regression":
        return f"labels are numbers to predict (regression), judged by {spaced(graph.metric)}"
    if graph.kind == "multilabel":
        return f"each node has {graph.num_classes} labels (multilabel), judged by {spaced(graph.metric)}"
    if graph.y is None:
        return ""
    names = graph.class_names or tuple(map(str, range(max(2, int(graph.num_classes or 0)))))
    known = graph.y[graph.labelled]
    if len(known) and int(known.min()) == int(known.max()):
        return f"all labelled nodes are of one class, {names[int(known[0])]}: there is nothing to learn"
    lacking = []
    for split, mask in (("training", graph.train_mask), ("validation", graph.val_mask)):
        if mask is not None and bool(mask.any()):
            absent = [names[i] for i in np.setdiff1d(known.cpu(), graph.y[mask].cpu())]
            lacking += [f"no {split} node is of class {words(absent[:LISTED])}"] if absent else []
    if graph.kind != "binary" or graph.positive is None:
        return "; ".join(lacking)
    share = float((known == int(graph.positive)).double().mean())
    positive = f"the positive class is {names[int(graph.positive)]} ({100 * share:.1f} % of the labelled nodes)"
    return "; ".join([positive, *lacking])


# -- the assessment ---------------------------------------------------------------------------------------------------


def assessment_tables(judged: Assessment, where: str) -> list[Table]:
    """Make up to four tables: all metrics, the results per class, the confusions, and the worst mistakes."""
    splits = list(next(iter(judged.metrics.values())))
    by_metric = [(METRICS[name], values) for name, values in judged.metrics.items()]
    measured = [[one.label(), *(one.text(values[split]) for split in splits)] for one, values in by_metric]
    chosen = f" at threshold {judged.threshold:.3g}" if judged.kind == "binary" else ""
    tables = [text_table(f"Metrics{chosen}, {where}", ["metric", *splits], measured)]
    if judged.classes:
        what = "label" if judged.kind == "multilabel" else "class"
        tables.append(_records(f"By {what}{chosen}, {where}", what, "name", judged.classes))
    if judged.confusion:
        tables.append(_confusions(judged, where))
    if judged.mistakes:
        heading = "Largest errors" if judged.kind == "regression" else "Most confident mistakes"
        tables.append(_records(f"{heading}, {where}", "node", "node", judged.mistakes))
    return tables


def _records(heading: str, corner: str, key: str, rows: list[dict[str, Any]]) -> Table:
    """Make a table of the records ``rows``; fractions are shown in percent."""
    names = [name for name in rows[0] if name != key]
    texts = ([str(row[key]), *(_text(name, row[name]) for name in names)] for row in rows)
    return text_table(heading, [corner, *(names if key == "node" else map(spaced, names))], texts)


def _text(name: str, value: Any) -> str:
    if isinstance(value, float):
        return number(value) if name in ("true", "predicted", "error") else shown(value, "{:.1%}")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _confusions(judged: Assessment, where: str) -> Table:
    names = [one["name"] for one in judged.classes]
    if len(names) <= MATRIX:
        rows = [
            [Cell(name), *(Cell(f"{n:,}", int(i == j)) for j, n in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, judged.confusion, strict=True))
        ]
        return Table(f"Confusion matrix, {where}", ["true ↓ predicted →", *names], rows)
    pairs = [(n, i, j) for i, row in enumerate(judged.confusion) for j, n in enumerate(row) if n and i != j]
    listed = ([names[i], names[j], f"{n:,}"] for n, i, j in sorted(pairs, key=lambda pair: -pair[0])[:LISTED])
    return text_table(f"Most frequent confusions, {where}", ["true", "predicted", "nodes"], listed)


def assessment_charts(judged: Assessment, which: str) -> list[Chart]:
    """Chart the calibration and the ranking of a classifier; for a regression, chart the predicted values against the
    true values.
    """
    if judged.points:
        true, guess = map(list, zip(*judged.points, strict=True))
        ends = [min(true), max(true)]
        series = [Series("nodes", true, guess), Series("true = predicted", ends, [*ends], color=1, mark="line")]
        view = View("predicted", "dot", Axis("true"), Axis("predicted"), series)
        return [Chart("predicted", f"Predicted against true ({judged.nodes} nodes, {which})", [view])]
    if not judged.calibration:
        return []
    said, true = ([100 * one[key] for one in judged.calibration] for key in ("confidence", "share"))
    lows = [min(int(BINS * one["confidence"]), BINS - 1) * 100 // BINS for one in judged.calibration]
    bins = [f"{low}–{low + 100 // BINS}" for low in lows]
    nodes = [one["nodes"] for one in judged.calibration]
    label = f"probability of {judged.positive or 'the predicted class'} (%)"
    spans = (share_interval(one["share"], int(one["nodes"])) for one in judged.calibration)
    low, high = ([100 * end for end in column] for column in zip(*spans, strict=True))
    model = Series("model, with 95% interval", said, [*true], [*low], [*high])
    series = [model, Series("perfect calibration", [0, 100], [0, 100], color=1)]
    views = [
        View("calibration", "line", Axis(label), Axis("share that is true (%)"), series),
        View("nodes", "bar", Axis(label, of=bins), Axis("nodes"), [Series("nodes", bins, [*nodes])]),
    ]
    where = f"{sum(nodes):,} {judged.nodes} nodes, {which}"
    error = f"calibration error {shown(judged.calibration_error, '{:.1%}')} over {where}"
    charts = [Chart("calibration", f"Can probabilities be trusted? ({error})", views)]
    if judged.ranking:
        false, recall, precision = ([100 * share for share in column] for column in zip(*judged.ranking, strict=True))
        found = Axis(f"recall of {judged.positive} (%)")
        views = [
            View("precision and recall", "line", found, Axis("precision (%)"), [Series("model", recall, [*precision])]),
            View("ROC", "line", Axis("false positive rate (%)"), found, [Series("model", false, [*recall])]),
        ]
        charts.append(Chart("ranking", f"Precision and recall of {judged.positive}", views))
    return charts
