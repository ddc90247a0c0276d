"""One trained experiment as a finding: its seeds, and how its best model does, class by class and node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

import torch

from handful.experiment import Summary
from handful.files import seal, write_json
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, text_table
from handful.graph import Graph
from handful.nn import parameter_count
from handful.nn.network import Network
from handful.runs import DECISION, OpenedRun, open_run
from handful.shuffle.shards import is_sharded
from handful.studies.baselines import BASELINES, Baseline, baseline_table, best_of, kept_baselines, say_added
from handful.studies.trained import configurations, curve_charts, read_trained
from handful.training.assessment import BINS, Assessment, Decision, assess_average, interval
from handful.training.inference import infer
from handful.training.loss import balanced_weights
from handful.training.metrics import METRICS, Metric, metric_of_record
from handful.vocabulary import number, shown, spaced, title, words

MATRIX = 12
"""Of more classes than this, the confusions are listed, and not all pairs drawn up."""
LISTED = 20
"""So many of them."""


def summary_finding(summary: Summary, folder: Path, memory: int | str | None = None, baselines: bool = True) -> Finding:
    """One experiment as a finding: a row for every seed, the assessment of their average, and what is had without it.

    How the average decides is kept in ``folder``, for predictions.

    Args:
        summary: what the experiment came to.
        folder: where its records are.
        memory: the budget that it ran in, if any; baselines are then left out.
        baselines: whether to train them.
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
    sampled = memory is not None and made.settings.evaluation == "sampled"
    if sampled:
        said.append("Results per class need an exact evaluation, which was not asked for: `handful predict` makes one.")
    if not sampled and not is_sharded(made.graph):  # of shards only all ranks together could infer once more
        graph = made.load(opened.seed)
        judged = judge(opened, graph, metric, memory)
        how = {name: getattr(judged.decision, name) for name in ("threshold", "class_weight")}
        write_json(folder / DECISION, seal(how))
        found, notes = kept_baselines(folder / BASELINES, graph, metric) if baselines and memory is None else ([], [])
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
        charts = [*added, *assessment_charts(judged.result, graph, judged.which), *charts]
    return Finding(
        "train",
        named,
        " ".join(said),
        tables,
        charts,
        payload,
        {**facts, "parameters": f"{parameter_count(opened.model):,}"},
        [*details, architecture(opened.model)],
        below=below,
    )


def headline(graph: Graph, metric: Metric, value: float, found: Sequence[Baseline]) -> str:
    """What is predicted, for how many nodes, how well, and what is had without the model; in words."""

    def brief(value: float) -> str:
        return f"{100 * value:.1f}\N{NO-BREAK SPACE}%" if metric.percent else number(value)

    kinds = {"regression": "the number", "multilabel": "the labels"}
    what = ", ".join((graph.schema or {}).get("labels", ())) or kinds.get(graph.kind, "the class")
    right = f"{brief(value)} right" if metric.name == "accuracy" else f"{spaced(metric.name)} {brief(value)}"
    blind = [one for one in found if not one.sees_graph]
    others = {one.name: one.test for one in found[:1]}
    others |= {"without the graph": best_of(blind, metric).test} if len(blind) > 1 else {}
    rest = "; " + ", ".join(f"{name} {brief(test)}" for name, test in others.items()) if others else ""
    return f"Predicting {what} for {graph.num_nodes:,} nodes of {graph.name}: {right}{rest}"


def added_chart(model: str, value: float, found: Sequence[Baseline], metric: Metric) -> Chart:
    """The test metric of the baselines without the graph, of those with it, and of the model."""
    kinds = {"without the graph": False, "with the graph": True}
    scale = 100 if metric.percent else 1
    series = []
    for color, (name, sees) in enumerate(kinds.items()):
        own = [one for one in found if one.sees_graph == sees]
        series.append(
            Series(
                name,
                [one.name.replace("own and neighbours'", "all").removesuffix(" columns") for one in own],
                [scale * one.test for one in own],
                color=color,
            )
        )
    series.append(Series(model, [model], [scale * value], color=2))
    names = [name for one in series for name in one.x]
    view = View("test", "bar", Axis("", of=names), Axis(metric.label("test")), series)
    return Chart("added", f"What the graph and {model} add", [view])


@dataclass(frozen=True)
class Judged:
    """What is predicted with, judged: the average of the seeds, or the best seed where each has its own split.

    Args:
        result: its assessment.
        seeds: those that are averaged.
        interval: the 95% interval of the metric, over nodes and seeds.
        decision: how probabilities become a class.
    """

    result: Assessment
    seeds: list[int]
    interval: tuple[float, float]
    decision: Decision

    @property
    def which(self) -> str:
        """The seeds, in words."""
        return f"seed {self.seeds[0]}" if len(self.seeds) == 1 else f"average of {len(self.seeds)} seeds"

    def say(self, metric: Metric, model: str, found: Sequence[Baseline]) -> list[str]:
        """What the model adds to baselines, and its metric with the interval; first whether it has learned nothing."""
        value, (low, high) = self.result.metrics[metric.name][self.result.nodes], self.interval
        taken = [i for i, column in enumerate(zip(*self.result.confusion, strict=True)) if any(column)]
        said = []
        if len(taken) == 1 and len(self.result.classes) > 1:
            said.append(f"The model takes all {self.result.nodes} nodes for {self.result.classes[taken[0]]['name']}.")
        if found and self.result.nodes == "test" and not isnan(value):
            said.append(say_added(model, value, (high - low) / 2, found, metric))
        ends = f"{metric.text(low)} to {metric.with_unit(high)}, 95% over nodes and seeds"
        measured = (
            f"{self.result.nodes.capitalize()} {spaced(metric.name)} of the {self.which}: {metric.with_unit(value)}"
        )
        return said if isnan(value) else [*said, f"{measured} ({ends})."]


def judge(opened: OpenedRun, graph: Graph, metric: Metric, memory: int | str | None = None) -> Judged:
    """Judge what a run predicts with on ``graph``, by exact inference within ``memory``."""
    asked = opened.experiment
    assert asked is not None
    runs = [opened.result] if opened.own_splits else opened.results
    models = [opened.model] if opened.own_splits else opened.models()
    outputs = [infer(model, graph, sampler=asked.sampler, memory=memory).cpu() for model in models]
    graph = graph.to("cpu")
    weight = balanced_weights(graph) if asked.settings.class_weight == "balanced" else None
    result, decision = assess_average(outputs, graph, asked.settings.threshold == "f1", weight)
    nodes = getattr(graph, f"{result.nodes}_mask").nonzero().squeeze(1)
    return Judged(result, [run.seed for run in runs], interval(outputs, graph, metric, nodes), decision)


def seed_table(heading: str, summary: Summary, metric: Metric) -> Table:
    """A row for every seed."""
    unit = " (%)" if metric.percent else ""
    head = ["seed", f"val{unit}", f"test{unit}", "best epoch", "epochs", "steps", "seconds", "peak RAM (GiB)"]
    rows = []
    for run in summary.runs:
        result, counts = map(metric.text, (run.val, run.test)), map(str, (run.best_epoch, run.epochs, run.steps))
        rows.append([str(run.seed), *result, *counts, f"{run.seconds:.1f}", f"{run.peak_ram_bytes / 2**30:.2f}"])
    return text_table(heading, head, rows)


def say_summary(summary: Summary, metric: Metric) -> str:
    """The test and the validation metric, and what was out of the ordinary: steps not made, METIS, divergence."""
    record = summary.to_json()
    values = {"Test": record["test"], "Validation": {**record["val"], "ci95": None}}
    said = []
    for which, value in values.items():
        measured = f"{which} {spaced(metric.name)} {metric.with_unit(value)}, seed by seed."
        said.append(f"There are no {which.lower()} nodes." if isnan(value["mean"]) else measured)
    if skipped := sum(run.skipped for run in summary.runs):
        said.append(f"{skipped} batches made no step: they had no training node, or too few nodes for batch norm.")
    if prepared := record["prepare_seconds"]["mean"]:
        said.append(f"Work before the first epoch (METIS, the first hop) took {prepared:.1f} s, not in the seconds.")
    for run in summary.runs:
        if run.diverged is not None:
            said.append(f"Seed {run.seed} diverged in epoch {run.diverged}; its best epoch, {run.best_epoch}, stands.")
    if len(summary.runs) == 2:
        said.append("± of two seeds is 12.7 standard errors wide: take three seeds or more.")
    return " ".join(said)


def describe_labels(graph: Graph) -> str:
    """What the labels of a graph were taken for, where that is not plain."""
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
    lacking = []
    for split, mask in (("training", graph.train_mask), ("validation", graph.val_mask)):
        if mask is not None and bool(mask.any()):
            there = torch.bincount(graph.y[mask], minlength=len(names)) > 0
            absent = [names[i] for i in sorted(set(known.tolist())) if not bool(there[i])]
            lacking += [f"no {split} node is of class {words(absent[:LISTED])}"] if absent else []
    if graph.kind != "binary" or graph.positive is None:
        return "; ".join(lacking)
    share = float((known == int(graph.positive)).double().mean())
    positive = f"the positive class is {names[int(graph.positive)]} ({100 * share:.1f} % of the labelled nodes)"
    return "; ".join([positive, *lacking])


# -- what a model does ------------------------------------------------------------------------------------------------


def assessment_tables(judged: Assessment, where: str) -> list[Table]:
    """All metrics, the classes one by one, what is taken for what, and the worst mistakes."""
    splits = list(next(iter(judged.metrics.values())))
    measured = [
        [METRICS[name].label(), *(METRICS[name].text(values[split]) for split in splits)]
        for name, values in judged.metrics.items()
    ]
    usual, chosen = (f" at threshold {t:.3g}" if judged.kind == "binary" else "" for t in (0.5, judged.threshold))
    tables = [text_table(f"Metrics{usual}, {where}", ["metric", *splits], measured)]
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
    """Records as a table: fractions in percent, counts and numbers as they are."""
    names = [name for name in rows[0] if name != key]
    plain = ("train", "val", "test", "number", "true", "predicted", "error")
    head = list(map(spaced, names))
    texts = ([_text(row[name]) if name in plain else shown(row[name], "{:.1%}") for name in names] for row in rows)
    return text_table(heading, [corner, *head], ([str(row[key]), *own] for row, own in zip(rows, texts, strict=True)))


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _confusions(judged: Assessment, where: str) -> Table:
    names = [one["name"] for one in judged.classes]
    if len(names) <= MATRIX:
        rows = [
            [Cell(name), *(Cell(f"{n:,}", int(i == j)) for j, n in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, judged.confusion, strict=True))
        ]
        return Table(f"Confusion matrix, {where}", ["is ↓ taken for →", *names], rows)
    pairs = [(n, i, j) for i, row in enumerate(judged.confusion) for j, n in enumerate(row) if n and i != j]
    most = sorted(pairs, key=lambda pair: -pair[0])[:LISTED]
    listed = ([names[i], names[j], f"{n:,}"] for n, i, j in most)
    return text_table(f"Most frequent confusions, {where}", ["is", "taken for", "nodes"], listed)


def assessment_charts(judged: Assessment, graph: Graph, which: str) -> list[Chart]:
    """Whether probabilities come true, and of how many nodes; of numbers, predicted against true ones."""
    if judged.calibration:
        where = f"{sum(one['nodes'] for one in judged.calibration):,} {judged.nodes} nodes, {which}"
        x = [100 * one["confidence"] for one in judged.calibration]
        y: list[float | None] = [100 * one["share"] for one in judged.calibration]
        what = f"probability of {judged.positive}" if judged.positive else "probability of the predicted class"
        series = [Series("model", x, y), Series("if it came true as often as said", [0, 100], [0, 100], color=1)]
        lows = [min(int(BINS * one["confidence"]), BINS - 1) * 100 // BINS for one in judged.calibration]
        tenths = [f"{low}–{low + 100 // BINS}" for low in lows]
        counts: list[float | None] = [one["nodes"] for one in judged.calibration]
        views = [
            View("calibration", "line", Axis(f"{what} (%)"), Axis("came true (%)"), series),
            View("nodes", "bar", Axis(f"{what} (%)", of=tenths), Axis("nodes"), [Series("nodes", tenths, counts)]),
        ]
        error = f"calibration error {shown(judged.calibration_error, '{:.1%}')} over {where}"
        charts = [Chart("calibration", f"Can probabilities be trusted? ({error})", views)]
        if judged.ranking:
            false, recall, precision = (
                [100 * share for share in column] for column in zip(*judged.ranking, strict=True)
            )
            found = f"{judged.positive} that is found (%)"
            views = [
                View(
                    "precision and recall",
                    "line",
                    Axis(found),
                    Axis("precision (%)"),
                    [Series("model", recall, [*precision])],
                ),
                View("ROC", "line", Axis("others taken for it (%)"), Axis(found), [Series("model", false, [*recall])]),
            ]
            charts.append(Chart("ranking", f"How many of {judged.positive} are found, and at what price?", views))
        return charts
    if judged.points:
        true, guess = [one[0] for one in judged.points], [one[1] for one in judged.points]
        ends = [min(true), max(true)]
        series = [Series("nodes", true, [*guess]), Series("true = predicted", ends, [*ends], color=1, mark="line")]
        view = View("predicted", "dot", Axis("true"), Axis("predicted"), series)
        return [Chart("predicted", f"Predicted against true ({judged.nodes} nodes, {which})", [view])]
    return []


def architecture(model: Network) -> Table:
    """The modules of a model that have weights, and their shapes."""
    rows = []
    for name, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if own:
            shapes = ", ".join(f"{key} {' × '.join(map(str, weight.shape))}" for key, weight in own.items())
            count = sum(weight.numel() for weight in own.values())
            rows.append([name, type(module).__name__, shapes, f"{count:,}"])
    rows.append(["all", type(model).__name__, "", f"{parameter_count(model):,}"])
    return text_table("Architecture", ["module", "kind", "weights", "parameters"], rows)
