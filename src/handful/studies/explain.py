"""Explain a trained model: the importance of columns, and the effects of columns and neighbours on single predictions.

The importance of a column is how much worse the validation metric becomes after the values of the column are randomly
permuted over all nodes. For one node, the effect of a column is the change of the prediction when the node's value is
replaced by the column's mean. The effect of a neighbour is the change of the prediction when the edges between the two
nodes are removed. Importance is that of the best seed's model, which was trained without the validation nodes. For one
node, the prediction is that of `handful predict`: the average over the seeds, after a refit if there is one. Inference
is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from handful.datasets.schema import Schema
from handful.errors import HandfulError
from handful.finding import Axis, Chart, Finding, Series, Table, View, text_table
from handful.graph import Graph
from handful.kernels.sparse import permuted, take_columns, variances, with_means
from handful.random import generator
from handful.runs import OpenedRun
from handful.training.assessment import averaged, node_record
from handful.training.inference import infer
from handful.training.metrics import Metric, metric_of_record
from handful.training.record import load_model
from handful.vocabulary import spaced

MOST_COLUMNS = 200
"""The maximum number of columns that are measured. If there are more, the columns with the largest variance are
measured.
"""
MOST_NEIGHBOURS = 25
MOST_NODES = 20
SHOWN = 12
"""The maximum number of bars in a chart."""
DRAWN = 8
"""The maximum number of neighbours in a picture."""
NEIGHBOUR = "neighbour "
"""The prefix of a neighbour, to distinguish it from a column."""
Groups = dict[str, tuple[int, int]]
"""The first feature and the number of features of each column of the user's tables."""
Step = Callable[[str], None]


def column_groups(graph: Graph) -> Groups:
    """The features that encode each column of the user's tables, such as all one-hot features of a categorical
    column.
    """
    if graph.schema is None:
        names = [(f"feature {i}", 1) for i in range(graph.num_features)]
    else:
        names = [(column.name, column.width) for column in Schema.from_json(graph.schema).columns]
    ends = np.cumsum([width for _, width in names])
    return {name: (int(end) - width, width) for (name, width), end in zip(names, ends, strict=True)}


def explain(
    opened: OpenedRun, graph: Graph, nodes: np.ndarray | None = None, step: Step = lambda what: None
) -> Finding:
    """Measure the importance of columns and, for the given nodes, the effects of columns and neighbours on the
    predictions.

    Args:
        opened: the run.
        graph: a graph with labels and validation nodes, and with the features that the model was trained on.
        nodes: the indices of the nodes to explain.
        step: a progress function, which is called with the name of the next measurement.
    """
    graph = opened.check(graph).require_training()
    if graph.kind == "multilabel":
        raise HandfulError("explanations are for classes and numbers, and this run predicts several labels per node")
    if nodes is not None and len(nodes) > MOST_NODES:
        raise HandfulError(f"{len(nodes):,} nodes are too many to explain one by one: give at most {MOST_NODES}")
    assert graph.x is not None
    groups = column_groups(graph)
    if len(groups) > MOST_COLUMNS:
        spread = {name: float(variances(take_columns(graph.x, *place)).sum()) for name, place in groups.items()}
        groups = {name: groups[name] for name in sorted(groups, key=lambda name: -spread[name])[:MOST_COLUMNS]}
    lost, metric = importance(opened, graph, groups, step)
    order = sorted(lost, key=lambda name: -lost[name])
    scale, unit = (100, " (points)") if metric.percent else (1, "")
    label = f"{spaced(metric.name)} lost{unit}"
    title = "Importance of columns: the loss when their values are permuted"
    shares = {name: scale * lost[name] for name in order}
    tables = [text_table(title, ["column", label], ([name, f"{shares[name]:.2f}"] for name in order))]
    charts, below = [_bars("importance", title, shares, label)], list[Table]()
    for node in [] if nodes is None else nodes.tolist():
        name = _name(graph, node)
        step(f"node {name}")
        told, base, moves = moved_by(opened, graph, node, {one: groups[one] for one in order[:MOST_NEIGHBOURS]})
        digits = ".2f" if told.endswith("(%)") else ".4g"
        heading = f"{name}: {told} is {base:{digits}}"
        rows = ([what, f"{base - change:{digits}}", f"{change:+{digits}}"] for what, change in moves.items())
        below.append(text_table(heading, ["without", "prediction", "effect"], rows))
        file = re.sub(r"[^\w.-]+", "-", str(node_record(graph, node)["node"]))[:80]
        chart = _bars(f"node-{file}", heading, moves, f"adds to {told}")
        near = {one.removeprefix(NEIGHBOUR): change for one, change in moves.items() if one not in groups}
        charts.append(replace(chart, views=[*chart.views, *([_star(name, near, f"adds to {told}")] if near else [])]))
    most = f"{order[0]} is the most important column" if lost[order[0]] > 0 else "No single column is important"
    payload = {"importance": lost, "nodes": [] if nodes is None else nodes.tolist()}
    named = f"Explanation of the run on {graph.name}"
    return Finding("explain", named, f"{most}.", tables, charts, payload, below=below)


def importance(opened: OpenedRun, graph: Graph, groups: Groups, step: Step) -> tuple[dict[str, float], Metric]:
    """For each column, measure how much worse the validation metric becomes if the column is permuted. Also return the
    metric.
    """
    assert graph.x is not None
    assert graph.val_mask is not None
    metric = metric_of_record(opened.result.metric, opened.result.higher_is_better)
    nodes = graph.val_mask.nonzero().squeeze(1)
    if not len(nodes):
        raise HandfulError("the importance of columns needs validation nodes: use a split that has some")

    def value(x: Tensor) -> float:
        return metric.of(infer(opened.model, graph.replace(x=x), sampler=opened.sampler)[nodes], graph, nodes)

    before, lost = value(graph.x), {}
    for i, (name, place) in enumerate(groups.items()):
        step(f"column {name}")
        order = torch.from_numpy(generator(i).permutation(graph.num_nodes))
        lost[name] = (before - value(permuted(graph.x, order, *place))) * (1 if metric.higher_is_better else -1)
    return lost, metric


def moved_by(opened: OpenedRun, graph: Graph, node: int, groups: Groups) -> tuple[str, float, dict[str, float]]:
    """Explain the prediction for a node. Return a description of the predicted value, the value, and the effect of each
    column and neighbour on this value.

    For classification, the value is the probability of the most probable class, in percent. At most ``MOST_NEIGHBOURS``
    neighbours are measured, those with the largest edge weights first. A neighbour is named by its id and its label, if
    known.
    """
    graph = opened.seen(graph)
    assert graph.x is not None
    assert graph.y is not None
    is_class = graph.kind != "regression"
    decision, models = opened.decision, [load_model(folder.path) for folder in opened.deployed]

    def values(other: Graph) -> Tensor:
        outputs = [infer(model, other, sampler=opened.sampler)[node : node + 1] for model in models]
        return (100 if is_class else 1) * decision.values(averaged(outputs, decision))[0]

    first = values(graph)
    of = int(first.argmax())
    names = graph.class_names or tuple(map(str, range(len(first))))
    number_of = "the number" if len(first) == 1 else f"number {of}"
    told = f"the probability of {names[of]} (%)" if is_class else number_of

    def change(other: Graph) -> float:
        return float(first[of] - values(other)[of])

    moves = {}
    for name, place in groups.items():
        moves[name] = change(graph.replace(x=with_means(graph.x, node, *place)))
    edges = graph.edge_index
    into = ((edges[1] == node) & (edges[0] != node)).nonzero().squeeze(1)
    if graph.edge_weight is not None:
        into = into[graph.edge_weight[into].argsort(descending=True)]
    for other in edges[0, into[:MOST_NEIGHBOURS]].tolist():
        kept = ~((edges == other).any(0) & (edges == node).any(0))
        weights = None if graph.edge_weight is None else graph.edge_weight[kept]
        labels = {name: getattr(graph, name) for name in ("y", "num_classes", "train_mask", "task")}
        cut = Graph.from_edge_index(edges[:, kept], graph.num_nodes, x=graph.x, edge_weight=weights, **labels)
        label = f" ({names[int(graph.y[other])]})" if is_class and bool(graph.labelled[other]) else ""
        moves[f"{NEIGHBOUR}{_name(graph, other)}{label}"] = change(cut)
    return told, float(first[of]), dict(sorted(moves.items(), key=lambda move: -abs(move[1])))


def _bars(name: str, title: str, values: dict[str, float], label: str) -> Chart:
    """Make a bar chart of the first ``SHOWN`` values."""
    shown = list(values)[:SHOWN]
    series = [Series("all", shown, [values[one] for one in shown])]
    return Chart(name, title, [View("effects", "bar", Axis("", of=shown), Axis(label), series)])


def _star(name: str, near: dict[str, float], label: str) -> View:
    """Make a picture of a node and of the neighbours with the largest effects."""
    shown, series = list(near)[:DRAWN], []
    for color, (sign, raises) in enumerate({"raises it": True, "lowers it": False}.items()):
        own = [one for one in shown if (near[one] >= 0) == raises]
        series.append(Series(sign, own, [near[one] for one in own], color=color))
    return View("neighbours", "star", Axis(name, of=shown), Axis(label), series)


def _name(graph: Graph, node: int) -> str:
    """The id of a node, and the kept columns of its table."""
    return ", ".join(text for value in node_record(graph, node).values() if (text := str(value)))
