"""Studies that vary options: m and the mean field of RNS, the fanout, or the number of targets per batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, product
from statistics import mean
from typing import Any

from handful.finding import Axis, Chart, Finding, View
from handful.graph import Graph
from handful.nn import make_model
from handful.samplers import RandomNodes, Sampler, make_sampler
from handful.settings import QUICK
from handful.statistics import mean_ci95
from handful.studies import presets
from handful.studies.budget import SAMPLERS, Request, Scale, adapt, benchmark, scaled, small
from handful.studies.grid import EPOCH_SECONDS, PEAKS, SECONDS, TEST, VALIDATION, Entry, Grid, Measure, paper_number
from handful.theory.diagnosis import diagnose
from handful.training.first_hop import Prepared
from handful.vocabulary import PARTS, title

PARTS_SCALE = Scale(QUICK["hidden"], QUICK["layers"], QUICK["epochs"])
VALUES = {"smoke": (1, 2), "laptop": (1, 2, 4, 8, 16), "paper": (1, *range(2, 11))}
FANOUT_SCALE = Scale(hidden=64, layers=4, epochs=40)
"""The scale of the study of fanouts. Neighbour sampling gets a quarter of these epochs."""
BATCH_SCALE = Scale(hidden=64, layers=3, epochs=40)
STEPS = {"smoke": (2, 8), "laptop": (2, 4, 8, 16), "paper": (2, 4, 8, 16, 32)}
"""The numbers of batches per epoch. If there are s batches, a batch has 1/s of the training nodes as targets."""
CLUSTERS = 256
"""The number of clusters of ClusterGCN. It is large, so a batch can contain nearly any fraction of the clusters."""
FIELD_SCALE = Scale(hidden=64, layers=2, epochs=40)
WEIGHTS: dict[str, tuple[float | None, ...]] = {"smoke": (None, 0.0, 1.0), "laptop": (None, 0.0, 1.0, 3.0, 10.0)}
"""The values of λ. ``None`` means plain RNS, and 0 means an exact first hop without mean-field neighbours."""
FIELD_PARTS = {"smoke": (4,), "laptop": (2, 4, 8, 16, 64)}
BATCHES = {"smoke": (4, 1), "laptop": (24, 4)}
"""The number of batches per repeat and the number of repeats, for measuring R and the bias at random
initialisations.
"""
TERMS = (Measure("R", "R(w)", "{:.3g}".format), Measure("bias", "Bias", "{:.3g}".format))


def parts(request: Request) -> Finding:
    """Metric, time and memory of RNS for several m, the number of parts, and for the equivalent ``fraction`` 1/m.

    All m have the same hyperparameters; if the budget is ``paper``, they are those of the paper's best m, and
    ``fraction`` is left out. If ``tune_each`` is given, the hyperparameters are tuned for each m, as in the paper.
    """
    base, values = benchmark(request, request.graph_or("ogbn-arxiv"), "rns", PARTS_SCALE), VALUES[request.budget]
    assert isinstance(base.sampler, RandomNodes)
    entries = {}
    for m in values:
        sampler = replace(base.sampler, parts=m)
        entries[f"m-{m}"] = Entry(base.with_(sampler=sampler), str(m), "rns", x=m, label=f"m = {m}", facts={"m": m})
        if m > 1 and request.budget != "paper":  # equal density, with new nodes in every step
            job, label = base.with_(sampler=RandomNodes(fraction=1 / m)), f"fraction 1/{m}"
            entries[f"fraction-{m}"] = Entry(job, label, "RNS, fraction", x=m, label=label, facts={"fraction": 1 / m})
    x = Axis(PARTS, log=True, ticks=list(values))
    measures = [TEST, VALIDATION, SECONDS, *PEAKS]
    return option_finding("parts", "m", Grid.train(request, entries), x, measures, records="curve")


def fanout(request: Request) -> Finding:
    """Accuracy, time and memory of neighbour sampling with fanouts for two, three and four hops.

    The fanouts come from the paper's search space. All fanouts have the same hyperparameters; if the budget is
    ``paper``, they are those of the paper's best fanout. If ``tune_each`` is given, the hyperparameters are tuned for
    each fanout.
    """
    graph = request.graph_or("ogbn-arxiv")
    base = benchmark(request, graph, "neighbor", FANOUT_SCALE)
    space = [own["fanout"] for own in presets.search_space("neighbor") if len(own["fanout"]) <= base.options["layers"]]
    entries = {}
    for own in space:
        job, name = base.with_(sampler=make_sampler("neighbor", fanout=own)), ",".join(map(str, own))
        paper, facts = paper_number("tab:neighbor_fanout_ablation", graph, name), {"fanout": name}
        entry = Entry(job, f"[{name}]", "neighbor", label=f"fanout [{name}]", paper=paper, facts=facts)
        entries[f"fanout-{name.replace(',', '-')}"] = entry
    grid = Grid.train(request, entries)
    return option_finding("fanout", "Fanout", grid, Axis("fanout", of=grid.names("row")), [TEST, EPOCH_SECONDS, *PEAKS])


def mean_field(request: Request) -> Finding:
    """The effect of an exact first hop and a mean-field neighbour on accuracy, R(w), bias and time, by λ and m.

    There is a job for every pair of m and λ; all other options are the same.
    """
    graph, size = request.graph or "debian", "smoke" if request.budget == "smoke" else "laptop"
    base = benchmark(request, graph, "rns", FIELD_SCALE)
    data = base.load(request.seeds[0])
    network = partial(make_model, base.model, data.num_features, data.num_outputs, **base.options)
    ways = [*product(FIELD_PARTS[size], WEIGHTS[size])]
    jobs = [base.with_method("rns", parts=m).with_(**settings_of(weight)) for m, weight in ways]
    samplers = [Prepared.of(job.sampler, data, network(), job.settings) for job in jobs]
    results = diagnose(data, samplers, network, *BATCHES[size], request.seeds[0])
    entries = {}
    for (m, weight), job, result in zip(ways, jobs, results, strict=True):
        way = "RNS" if weight is None else "exact first hop" if weight == 0 else f"λ = {weight:g}"
        facts = {"m": m, "lambda": weight, **{one.key: mean_ci95(result.values(one.key)) for one in TERMS}}
        name = f"m-{m}-{'sampled' if weight is None else f'lambda-{weight:g}'}"
        entries[name] = Entry(job, f"{m}, {way}", way, x=m, label=f"m = {m}, {way}", facts=facts)
    x = Axis(PARTS, log=True, ticks=[*FIELD_PARTS[size]])
    measures = [TEST, *TERMS, EPOCH_SECONDS, *PEAKS]
    return option_finding("mean-field", "m", Grid.train(request, entries), x, measures, records="rows")


def settings_of(weight: float | None) -> dict[str, Any]:
    """The settings for one of ``WEIGHTS``."""
    return {"first_hop": "exact"} if weight == 0 else {"mean_field": weight or 0.0}


def option_finding(
    name: str, corner: str, grid: Grid, x: Axis, measures: Sequence[Measure], records: str = "cells"
) -> Finding:
    """Make the finding of jobs that differ in an option. Each measure is a column of the table and a
    view of the chart.
    """
    sampler, metric = title(grid.names("column")[0]), grid.metric
    views = []
    for measure in measures:
        label = metric.label(measure.head.lower()) if measure.of_metric else measure.head
        views.append(View(measure.key, "dot" if x.of else "line", x, Axis(label), grid.series("column", measure)))
    best = [grid.entries[job].name for job, rank in grid.ranks(grid.entries).items() if rank == 1]
    said = f"The test metric is best with {' and '.join(best) or 'none'}."
    table = grid.list_table(f"{grid.graph} · {sampler} · {grid.setting}", corner, measures)
    return grid.finding(name, said, [table], [Chart(name, f"{grid.graph}: {sampler} by {x.label}", views)], records)


# -- equal batches ----------------------------------------------------------------------------------------------------


def size_sampler(name: str, graph: Graph, steps: int, seed: int = 0) -> Sampler:
    """A sampler whose batches have a fraction of about 1/``steps`` of the training nodes as targets.

    For GraphSAINT, the number of roots is found by measuring batches, because the random walks overlap.

    >>> import handful as hf
    >>> graph = hf.load("synthetic?nodes=400&degree=4")
    >>> str(size_sampler("rns", graph, 4)), str(size_sampler("neighbor", graph, 4))
    ('rns(parts=4)', 'neighbor(fanout=(10, 10), batch_size=50)')
    """
    wanted = len(graph.train_nodes) / steps
    if name == "rns":
        return make_sampler(name, parts=steps)
    if name == "neighbor":
        return make_sampler(name, batch_size=max(1, -(-len(graph.train_nodes) // steps)))
    if name == "cluster":
        clusters = min(CLUSTERS, graph.num_nodes)
        return make_sampler(name, clusters=clusters, per_batch=max(1, round(clusters / steps)))
    several = range(1, graph.num_nodes)  # the targets grow with the roots
    less = bisect_left(several, wanted, key=lambda roots: targets(make_sampler(name, roots=roots), graph, seed))
    return make_sampler(name, roots=1 + less)


def targets(sampler: Sampler, graph: Graph, seed: int, batches: int = 3) -> float:
    """The mean number of targets per batch, over the first ``batches`` batches of an epoch."""
    return mean(len(sample.targets) for sample in islice(sampler.sample(graph, seed, 0), batches))


def batch_size(request: Request) -> Finding:
    """Samplers with the same number of targets per batch: is a gain due to the sampler or to its batch size?

    The model and the number of epochs are the same, so the samplers in a column also have about the same number of
    steps.
    """
    base = adapt(request, small(request.graph or "debian", "full", scaled(request, BATCH_SCALE)))
    data = base.load(request.seeds[0])
    sizes = {count: f"{len(data.train_nodes) / count:,.0f} targets" for count in STEPS[request.budget]}
    entries = {}
    for count in (count for count in sizes if count <= len(data.train_nodes)):
        for name in SAMPLERS:
            sampler = size_sampler(name, data, count)
            x = targets(sampler, data, seed=1)
            facts = {"sampler": name, "batches": count, "targets": x}
            entries[f"{name}-{count}"] = Entry(base.with_(sampler=sampler), name, sizes[count], x=x, facts=facts)
    grid = Grid.train(request, entries)
    between, within = (grid.metric.apart(spread(grid, side)) for side in ("column", "row"))
    said = f"From best to worst, samplers of one size are {between} apart on average, sizes of one sampler {within}."
    x_axis = Axis("targets of a batch", log=True, ticks=[len(data.train_nodes) / count for count in sizes])
    return grid.cross_finding("batch-size", said, "Sampler", "row", "the sampler, or the size of its batches?", x_axis)


def spread(grid: Grid, side: str) -> float:
    """The difference between the highest and the lowest test metric within each row or column (``side``), averaged over
    the rows or columns.
    """
    groups: dict[str, list[float]] = {}
    for job, outcome in grid.outcomes.items():
        if outcome.summary is not None:
            groups.setdefault(getattr(grid.entries[job], side), []).append(outcome.summary.test)
    several = [max(values) - min(values) for values in groups.values() if len(values) > 1]
    return mean(several) if several else float("nan")
