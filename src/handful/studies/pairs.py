"""Full graph against RNS: by backbone, and on the data sets of GraphLand."""

from __future__ import annotations

from collections.abc import Mapping

from handful.datasets import home, sources
from handful.errors import DatasetError, HandfulError, unknown
from handful.experiment import Experiment
from handful.finding import Axis, Chart, Finding, View
from handful.studies import presets
from handful.studies.budget import Request, Scale, asked, scaled, small
from handful.studies.grid import Entry, Grid, paper_number
from handful.studies.presets import GRAPHLAND
from handful.vocabulary import title

METHODS = ("full", "rns")
MODELS = ("gcn", "sage", "gat", "sgformer")
MODEL_SCALE = Scale(hidden=64, layers=3, epochs=40)
GRAPHLAND_SCALE = Scale(hidden=128, layers=3, epochs=40)
SPLITS = ("rl", "rh")


def model_cell(request: Request, graph: str, model: str, method: str) -> Experiment | None:
    """A backbone by a method; ``None`` where the paper ran out of memory."""
    if request.budget == "paper":
        tuned = presets.tuned(graph, model, method)
        return None if tuned is None else asked(request, tuned)
    return asked(request, small(graph, method, scaled(request, MODEL_SCALE), model))


def architectures(request: Request) -> Finding:
    """Does RNS go with every backbone? GCN, GraphSAGE, GAT and SGFormer, full graph against RNS.

    Each backbone has the paper's own hyperparameters for either method, or all have the same.
    """
    graph = request.graph_or("ogbn-arxiv")
    entries = {}
    for model in MODELS:
        for method in METHODS:
            if (job := model_cell(request, graph, model, method)) is not None:
                paper = paper_number("tab:testacc_full_rns_pct_compact", graph, model, method)
                facts = {"model": model, "method": method}
                entries[f"{model}-{method}"] = Entry(job, model, method, paper=paper, facts=facts)
    return paired("architectures", "Model", request, entries)


def graphland_cell(request: Request, name: str, split: str, method: str) -> Experiment:
    """A data set of GraphLand by a method, with GraphLand's own GraphSAGE."""
    if request.budget == "paper":
        return asked(request, presets.graphland(name, split, method))
    return asked(request, small(name, method, scaled(request, GRAPHLAND_SCALE), "graphland-sage").with_(split=split))


def graphland(request: Request) -> Finding:
    """GraphLand: full graph against RNS on seven data sets, with few labels (RL) and with many (RH).

    All data sets that are on disk, or the one asked for.
    """
    names = (request.graph,) if request.graph else GRAPHLAND
    for name in names:
        if name not in GRAPHLAND:
            raise HandfulError(unknown("data set of GraphLand", name, GRAPHLAND))
    on_disk = {name: sources()[name].on_disk for name in names}
    known = [name for name, kept in on_disk.items() if kept is None or kept(home(request.root))]
    if not known:
        raise DatasetError(f"none of {', '.join(names)} is in {home(request.root)}: `handful info NAME` fetches one")
    entries = {
        f"{name}-{split}-{method}": Entry(
            graphland_cell(request, name, split, method),
            f"{name} {split.upper()}",
            method,
            paper=paper_number("tab:graphland_rns", name, split, method),
            facts={"dataset": name, "metric": sources()[name].metric, "split": split, "method": method},
        )
        for name in known
        for split in SPLITS
        for method in METHODS
    }
    return paired("graphland", "Data set", request, entries, [name for name in names if name not in known])


def paired(
    study: str, corner: str, request: Request, entries: Mapping[str, Entry], missing: list[str] | None = None
) -> Finding:
    """A row for every pair of jobs: full graph, RNS, and how far apart they are."""
    grid = Grid.train(request, entries)
    label = " or ".join(dict.fromkeys(outcome.metric.label("test") for outcome in grid.done))
    known = [gap for row in grid.names("row") if (gap := grid.gap(row, *METHODS)) is not None]
    better = sum(gap == 0 or (gap > 0) == grid.metric.higher_is_better for gap in known)
    words = f"RNS matches or improves on full-graph training in {better} of {len(known)} cases."
    if missing:
        words += f" Not on disk: {', '.join(missing)}."
    x = Axis("", of=[title(row) for row in grid.names("row")])
    view = View("test", "dot", x, Axis(label), grid.series("column"))
    where = grid.graph if study == "architectures" else "GraphLand"
    table = grid.crossed(f"{where} · {label} · {grid.setting}", corner, best_in="row", apart=True)
    payload = {"missing": missing} if missing is not None else {}
    return grid.finding(study, words, [table], [Chart(study, f"{where}: full graph and RNS", [view])], payload=payload)
