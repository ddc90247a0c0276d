"""One trained experiment as a finding: its seeds, and how its best model does, class by class and node by node."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

from handful.experiment import Summary
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, text_table
from handful.graph import Graph
from handful.nn import parameter_count
from handful.nn.network import Network
from handful.runs import open_run
from handful.shuffle.shards import is_sharded
from handful.studies.trained import configurations, curve_charts, read_trained
from handful.training.assessment import BINS, Assessment, assess
from handful.training.metrics import METRICS, Metric, metric_of_record
from handful.vocabulary import number, shown, spaced, title

MATRIX = 12
"""Of more classes than this, the confusions are listed, and not all pairs drawn up."""
LISTED = 20
"""So many of them."""


def summary_finding(summary: Summary, folder: Path, memory: int | str | None = None) -> Finding:
    """One experiment as a finding: a row for every seed, and the assessment of the best.

    Args:
        summary: what the experiment came to.
        folder: where its records are.
        memory: the budget that it ran in, if any.
    """
    made, opened, payload = summary.experiment, open_run(folder), summary.to_json()
    metric = metric_of_record(summary.metric, summary.runs[0].higher_is_better)
    trained = read_trained(folder, made.sampler.method)
    runs = [] if trained is None else [trained]
    facts, details = configurations(runs)
    options = str(made.sampler).removeprefix(made.sampler.name).removesuffix("()")
    shape = f"{title(made.model)} {made.options['layers']}×{made.options['hidden']}"
    heading = f"{summary.graph} · {shape} · {title(made.sampler.method)} {options}".rstrip()
    tables, charts, said = [seed_table(heading, summary, metric)], curve_charts(runs), say_summary(summary, metric)
    sampled = memory is not None and made.settings.evaluation == "sampled"
    if sampled:
        said += " Results per class need an exact evaluation, which was not asked for: `handful predict` makes one."
    if not sampled and not is_sharded(made.graph):  # of shards only all ranks together could infer once more
        best = opened.result
        graph = made.load(best.seed)
        limit = 0.5 if best.threshold is None else best.threshold
        result = assess(opened.model, graph, limit, made.sampler, memory)
        payload |= {"assessment": {"seed": best.seed, **result.to_json()}}
        tables += assessment_tables(result, f"{result.nodes} nodes, seed {best.seed}")
        charts += assessment_charts(result, graph, best.seed)
    return Finding(
        "train",
        heading,
        said,
        tables,
        charts,
        payload,
        {**facts, "parameters": f"{parameter_count(opened.model):,}"},
        [*details, architecture(opened.model)],
    )


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
        measured = f"{which} {spaced(metric.name)} {metric.with_unit(value)}."
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
    if graph.kind != "binary" or graph.positive is None:
        return ""
    share = float((known == int(graph.positive)).double().mean())
    return f"the positive class is {names[int(graph.positive)]} ({100 * share:.1f} % of the labelled nodes)"


# -- what a model does ------------------------------------------------------------------------------------------------


def assessment_tables(assessment: Assessment, where: str) -> list[Table]:
    """All metrics, the classes one by one, what is taken for what, and the worst mistakes."""
    splits = list(next(iter(assessment.metrics.values())))
    measured = [
        [METRICS[name].label(), *(METRICS[name].text(values[split]) for split in splits)]
        for name, values in assessment.metrics.items()
    ]
    usual, chosen = (
        f" at threshold {t:.3g}" if assessment.kind == "binary" else "" for t in (0.5, assessment.threshold)
    )
    tables = [text_table(f"Metrics{usual}, {where}", ["metric", *splits], measured)]
    if assessment.classes:
        what = "label" if assessment.kind == "multilabel" else "class"
        tables.append(_records(f"By {what}{chosen}, {where}", what, "name", assessment.classes))
    if assessment.confusion:
        tables.append(_confusions(assessment, where))
    if assessment.mistakes:
        heading = "Largest errors" if assessment.kind == "regression" else "Most confident mistakes"
        tables.append(_records(f"{heading}, {where}", "node", "node", assessment.mistakes))
    return tables


def _records(heading: str, corner: str, key: str, rows: list[dict[str, Any]]) -> Table:
    """Records as a table: fractions in percent, counts and numbers as they are."""
    names = [name for name in rows[0] if name != key]
    plain = ("train", "val", "test", "true", "predicted", "error")
    head = list(map(spaced, names))
    texts = ([_text(row[name]) if name in plain else shown(row[name], "{:.2%}") for name in names] for row in rows)
    return text_table(heading, [corner, *head], ([str(row[key]), *own] for row, own in zip(rows, texts, strict=True)))


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _confusions(assessment: Assessment, where: str) -> Table:
    names = [one["name"] for one in assessment.classes]
    if len(names) <= MATRIX:
        rows = [
            [Cell(name), *(Cell(f"{n:,}", int(i == j)) for j, n in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, assessment.confusion, strict=True))
        ]
        return Table(f"Confusion matrix, {where}", ["is ↓ taken for →", *names], rows)
    pairs = [(n, i, j) for i, row in enumerate(assessment.confusion) for j, n in enumerate(row) if n and i != j]
    most = sorted(pairs, key=lambda pair: -pair[0])[:LISTED]
    listed = ([names[i], names[j], f"{n:,}"] for n, i, j in most)
    return text_table(f"Most frequent confusions, {where}", ["is", "taken for", "nodes"], listed)


def assessment_charts(assessment: Assessment, graph: Graph, seed: int) -> list[Chart]:
    """Whether probabilities come true, and of how many nodes; of numbers, predicted against true ones."""
    if assessment.calibration:
        where = f"{sum(one['nodes'] for one in assessment.calibration):,} {assessment.nodes} nodes, seed {seed}"
        x = [100 * one["confidence"] for one in assessment.calibration]
        y: list[float | None] = [100 * one["share"] for one in assessment.calibration]
        what = f"probability of {assessment.positive}" if assessment.positive else "probability of the predicted class"
        series = [Series("model", x, y), Series("if it came true as often as said", [0, 100], [0, 100], color=1)]
        lows = [min(int(BINS * one["confidence"]), BINS - 1) * 100 // BINS for one in assessment.calibration]
        tenths = [f"{low}–{low + 100 // BINS}" for low in lows]
        counts: list[float | None] = [one["nodes"] for one in assessment.calibration]
        views = [
            View("calibration", "line", Axis(f"{what} (%)"), Axis("came true (%)"), series),
            View("nodes", "bar", Axis(f"{what} (%)", of=tenths), Axis("nodes"), [Series("nodes", tenths, counts)]),
        ]
        error = f"calibration error {shown(assessment.calibration_error, '{:.2%}')} over {where}"
        return [Chart("calibration", f"{graph.name}: can probabilities be trusted? ({error})", views)]
    if assessment.points:
        true, guess = [one[0] for one in assessment.points], [one[1] for one in assessment.points]
        ends = [min(true), max(true)]
        series = [Series("nodes", true, [*guess]), Series("true = predicted", ends, [*ends], color=1, mark="line")]
        view = View("predicted", "dot", Axis("true"), Axis("predicted"), series)
        return [
            Chart("predicted", f"{graph.name}: predicted against true ({assessment.nodes} nodes, seed {seed})", [view])
        ]
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
