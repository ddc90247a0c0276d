"""Why a run predicts what it predicts: which columns matter, and what moves the prediction for one node.

The importance of a column is what the metric of the validation nodes loses when the column's values are dealt out anew
among all nodes. For one node, a column is left out by giving the node the mean of the column, and a neighbour by taking
away the edges between the two. All of it is measured with the model of the best seed, by exact inference.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from handful.datasets.schema import Schema
from handful.errors import HandfulError
from handful.finding import Axis, Chart, Finding, Series, Table, View, text_table
from handful.graph import Graph
from handful.random import generator
from handful.runs import OpenedRun
from handful.training.inference import infer
from handful.training.metrics import Metric, metric_of_record
from handful.vocabulary import number, spaced

MOST_COLUMNS = 200
"""Of more columns than this, those that vary most are tried."""
MOST_NEIGHBOURS = 25
MOST_NODES = 20
SHOWN = 12
"""The most bars of a chart."""
Groups = dict[str, slice]


def column_groups(graph: Graph) -> Groups:
    """Where the features of every column of the user's stand: one-hot columns together, and number with indicator."""
    if graph.schema is None:
        names = [(f"feature {i}", 1) for i in range(graph.num_features)]
    else:
        names = [(column.name, column.width) for column in Schema.from_json(graph.schema).columns]
    ends = np.cumsum([width for _, width in names])
    return {name: slice(int(end) - width, int(end)) for (name, width), end in zip(names, ends, strict=True)}


def explain(
    opened: OpenedRun, graph: Graph, nodes: np.ndarray | None = None, step: Callable[[str], None] = lambda what: None
) -> Finding:
    """The importance of columns, and for some nodes what moves their predictions.

    Args:
        opened: the run.
        graph: with labels and validation nodes; its features are those of the run.
        nodes: the numbers of some nodes; none when ``None``.
        step: called with what is measured next.
    """
    graph = opened.check(graph).require_training()
    if graph.kind == "multilabel":
        raise HandfulError("what moves a prediction is told of a class or a number, and the run predicts many labels")
    if nodes is not None and len(nodes) > MOST_NODES:
        raise HandfulError(f"{len(nodes):,} nodes are too many to explain one by one: give at most {MOST_NODES}")
    assert graph.x is not None
    groups = column_groups(graph)
    if len(groups) > MOST_COLUMNS:
        spread = {name: float(graph.x[:, place].float().var(0).sum()) for name, place in groups.items()}
        groups = {name: groups[name] for name in sorted(groups, key=lambda name: -spread[name])[:MOST_COLUMNS]}
    lost, metric = importance(opened, graph, groups, step)
    order = sorted(lost, key=lambda name: -lost[name])
    scale, unit = (100, " (points)") if metric.percent else (1, "")
    label = f"{spaced(metric.name)} lost{unit}"
    title = "Importance of columns: what is lost when their values change places"
    shares = {name: scale * lost[name] for name in order}
    tables = [text_table(title, ["column", label], ([name, f"{shares[name]:.2f}"] for name in order))]
    charts, below = [_bars("importance", title, shares, label)], list[Table]()
    for node in [] if nodes is None else nodes.tolist():
        name = str(node if graph.ids is None else graph.ids[node])
        step(f"node {name}")
        told, base, moves = moved_by(opened, graph, node, {one: groups[one] for one in order[:MOST_NEIGHBOURS]})
        heading = f"{name}: {told} is {number(base)}"
        rows = ([what, f"{base - change:.4g}", f"{change:+.3g}"] for what, change in moves.items())
        below.append(text_table(heading, ["left out", "then it is", "so it adds"], rows))
        charts.append(_bars(f"node-{name}", heading, moves, f"adds to {told}"))
    most = f"{order[0]} matters most" if lost[order[0]] > 0 else "no column matters by itself"
    payload = {"importance": lost, "nodes": [] if nodes is None else nodes.tolist()}
    named = f"Why the run on {graph.name} predicts what it does"
    return Finding("explain", named, f"Of the columns, {most}.", tables, charts, payload, below=below)


def importance(
    opened: OpenedRun, graph: Graph, groups: Groups, step: Callable[[str], None] = lambda what: None
) -> tuple[dict[str, float], Metric]:
    """What the metric of the validation nodes loses, by column, and the metric."""
    assert graph.x is not None
    assert graph.val_mask is not None
    metric = metric_of_record(opened.result.metric, opened.result.higher_is_better)
    nodes = graph.val_mask.nonzero().squeeze(1)
    if not len(nodes):
        raise HandfulError("the graph has no validation nodes, by which columns are judged")

    def value(x: Tensor) -> float:
        return metric.of(infer(opened.model, graph.replace(x=x), sampler=opened.sampler)[nodes], graph, nodes)

    before, lost = value(graph.x), {}
    for i, (name, place) in enumerate(groups.items()):
        step(f"column {name}")
        x = graph.x.clone()
        x[:, place] = x[torch.from_numpy(generator(i).permutation(len(x))), place]
        lost[name] = (before - value(x)) * (1 if metric.higher_is_better else -1)
    return lost, metric


def moved_by(opened: OpenedRun, graph: Graph, node: int, groups: Groups) -> tuple[str, float, dict[str, float]]:
    """What is predicted for a node, as words and number; and what each column and neighbour adds to the number.

    Of classes the number is the probability of the most probable one, in percent. Of many neighbours those with the
    largest weight are left out in turn; where the label of a neighbour is known, it stands behind its id.
    """
    assert graph.x is not None
    assert graph.y is not None
    is_class = graph.kind != "regression"
    decision = opened.decision

    def values(other: Graph) -> Tensor:
        outputs = infer(opened.model, other, sampler=opened.sampler)
        return (100 if is_class else 1) * decision.values(outputs)[node]

    first = values(graph)
    of = int(first.argmax())
    names = graph.class_names or tuple(map(str, range(len(first))))
    number_of = "the number" if len(first) == 1 else f"number {of}"
    told = f"the probability of {names[of]} (%)" if is_class else number_of

    def change(other: Graph) -> float:
        return float(first[of] - values(other)[of])

    moves = {}
    for name, place in groups.items():
        x = graph.x.clone()
        x[node, place] = x[:, place].float().mean(0).to(x.dtype)
        moves[name] = change(graph.replace(x=x))
    edges = graph.edge_index
    into = ((edges[1] == node) & (edges[0] != node)).nonzero().squeeze(1)
    if graph.edge_weight is not None:
        into = into[graph.edge_weight[into].argsort(descending=True)]
    for other in edges[0, into[:MOST_NEIGHBOURS]].tolist():
        kept = ~((edges == other).any(0) & (edges == node).any(0))
        weights = None if graph.edge_weight is None else graph.edge_weight[kept]
        cut = Graph.from_edge_index(edges[:, kept], graph.num_nodes, x=graph.x, edge_weight=weights)
        label = f" ({names[int(graph.y[other])]})" if is_class and bool(graph.labelled[other]) else ""
        moves[f"neighbour {other if graph.ids is None else graph.ids[other]}{label}"] = change(cut)
    return told, float(first[of]), dict(sorted(moves.items(), key=lambda move: -abs(move[1])))


def _bars(name: str, title: str, values: dict[str, float], label: str) -> Chart:
    """Bars of the first values."""
    shown = list(values)[:SHOWN]
    series = [Series("all", shown, [values[one] for one in shown])]
    return Chart(name, title, [View(name, "bar", Axis("", of=shown), Axis(label), series)])
