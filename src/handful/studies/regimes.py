"""Studies that compare full-graph training with RNS: by regime, optimiser and control; by backbone; on GraphLand; on
synthetic graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from handful.datasets import home, sources
from handful.errors import DatasetError, HandfulError, unknown
from handful.experiment import Experiment
from handful.finding import Finding
from handful.samplers import RandomNodes
from handful.studies import presets
from handful.studies.budget import Request, Scale, adapt, scaled, small
from handful.studies.grid import Entry, Grid, paper_number
from handful.studies.presets import GRAPHLAND
from handful.vocabulary import REGIMES, title

PAPER_GRAPH = "ogbn-products"
SCALE = Scale(hidden=64, layers=2, epochs=100)
METHODS = ("full", "rns")
MODELS = ("gcn", "sage", "gat", "sgformer")
MODEL_SCALE = Scale(hidden=64, layers=3, epochs=40)
GRAPHLAND_SCALE = Scale(hidden=128, layers=3, epochs=40)
SPLITS = ("rl", "rh")
SIZES = {"smoke": (300,), "laptop": (1000, 4000, 16000), "paper": (1000, 4000, 16000, 64000)}
HOMOPHILY = {"smoke": (0.6,), "laptop": (0.1, 0.3, 0.6, 0.9), "paper": (0.1, 0.3, 0.6, 0.9)}
SYNTHETIC = "synthetic?degree=8&nodes={}&homophily={}"
OPTIMIZERS = ("sgd", "sgdm", "adam")
CONTROLS = {"epochs": "equal epochs", "updates": "equal updates", "flow": "equal flow time"}
"""The display names of the controls. RNS has m steps per epoch, and the other regimes have one. For equal updates, the
other regimes get m times as many epochs. For equal flow time, they get m times the learning rate.
"""


def cell(request: Request, graph: str, regime: str, optimizer: str) -> Experiment:
    """The experiment for one cell of the table. For every budget, the settings of the optimiser are the paper's."""
    preset = presets.implicit(regime, optimizer)
    if request.budget == "paper":
        if graph != PAPER_GRAPH:
            raise HandfulError(f"the paper has the regimes for {PAPER_GRAPH} alone: use budget 'laptop' for '{graph}'")
        return adapt(request, preset)
    scale = scaled(request, SCALE)
    little = small(graph, "full" if regime == "full" else "rns", scale)
    return adapt(request, little.with_(settings=preset.settings, epochs=scale.epochs))


def match_steps(rns: Experiment, other: Experiment, control: str) -> Experiment:
    """Adapt ``other``, which has one step per epoch, to ``rns``, which has m steps per epoch.

    For equal updates, ``other`` gets m times as many epochs. For equal flow time (Σ lr over all steps), it gets m times
    the learning rate.
    """
    assert isinstance(rns.sampler, RandomNodes)
    m, how = rns.sampler.parts, other.settings
    if control == "updates":
        return other.with_(epochs=m * how.epochs, evaluate_every=m * how.evaluate_every)
    return other.with_(lr=m * how.lr) if control == "flow" else other


def regimes(request: Request) -> Finding:
    """Full-graph training, RNS with one update per epoch, and RNS; each with SGD, SGD with momentum and Adam.

    The nine jobs differ only in regime and optimiser.
    """
    graph, entries = request.graph_or(PAPER_GRAPH), {}
    for regime, optimizer in product(REGIMES, OPTIMIZERS):
        paper = paper_number("tab:implicit_reg_results", regime, optimizer) if graph == PAPER_GRAPH else None
        job, facts = cell(request, graph, regime, optimizer), {"regime": regime, "optimizer": optimizer}
        entries[f"{regime}-{optimizer}"] = Entry(job, regime, optimizer, paper=paper, facts=facts)
    return by_optimizer("regimes", Grid.train(request, entries), [("full", "rns-no-batch"), ("rns-no-batch", "rns")])


def controls(request: Request) -> Finding:
    """The regimes at equal epochs, updates and flow time: does the gain come from the batches or from more steps?

    The table has seven rows and a column for each of three optimisers. RNS is the same in all three comparisons.
    """
    graph = request.graph_or(PAPER_GRAPH)
    rows = [*product(("full", "rns-no-batch"), CONTROLS), ("rns", "epochs")]
    entries = {}
    for (regime, control), optimizer in product(rows, OPTIMIZERS):
        rns, other = (cell(request, graph, one, optimizer) for one in ("rns", regime))
        row = "rns" if regime == "rns" else f"{REGIMES[regime]}, {CONTROLS[control]}"
        facts = {"regime": regime, "control": control, "optimizer": optimizer}
        entries["-".join(facts.values())] = Entry(match_steps(rns, other, control), row, optimizer, facts=facts)
    pairs = [(f"{REGIMES['full']}, {control}", "rns") for control in CONTROLS.values()]
    return by_optimizer("controls", Grid.train(request, entries), pairs)


def by_optimizer(name: str, grid: Grid, pairs: Sequence[tuple[str, str]]) -> Finding:
    """Make a finding with regimes as rows and optimisers as columns. Its conclusion states the gain from the first to
    the second row of each pair.
    """
    metric, gains = grid.metric, []
    for optimizer in OPTIMIZERS:
        gaps = [grid.gap((low, optimizer), (high, optimizer)) for low, high in pairs]
        gains.append(f"{title(optimizer)} {', '.join('–' if gap is None else metric.signed(gap) for gap in gaps)}")
    steps = ", ".join(f"{title(low)} to {title(high)}" for low, high in pairs)
    said = f"{metric.differences} from {steps}: {'; '.join(gains)}."
    return grid.cross_finding(name, said, "Training regime", "row", "regimes by optimiser")


# -- by backbone, and on GraphLand ------------------------------------------------------------------------------------


def model_cell(request: Request, graph: str, model: str, method: str) -> Experiment:
    """The experiment for a backbone and a method."""
    if request.budget == "paper":
        return adapt(request, presets.tuned(graph, model, method))
    return adapt(request, small(graph, method, scaled(request, MODEL_SCALE), model))


def architectures(request: Request) -> Finding:
    """Full-graph training against RNS for GCN, GraphSAGE, GAT and SGFormer.

    If the budget is ``paper``, each model has its own hyperparameters; otherwise all models have the same.
    """
    graph = request.graph_or("ogbn-arxiv")
    entries = {}
    for model, method in product(MODELS, METHODS):
        job, facts = model_cell(request, graph, model, method), {"model": model, "method": method}
        paper = paper_number("tab:testacc_full_rns_pct_compact", graph, model, method)
        entries[f"{model}-{method}"] = Entry(job, model, method, paper=paper, facts=facts)
    return pair_finding("architectures", "Model", request, entries)


def graphland_cell(request: Request, name: str, split: str, method: str) -> Experiment:
    """The experiment for a data set, a split and a method, with GraphLand's GraphSAGE."""
    if request.budget == "paper":
        return adapt(request, presets.graphland(name, split, method)).with_(evaluate_every=1)
    return adapt(request, small(name, method, scaled(request, GRAPHLAND_SCALE), "graphland-sage").with_(split=split))


def graphland(request: Request) -> Finding:
    """GraphLand: full-graph training against RNS on seven data sets, with few labels (RL) and with many (RH).

    The study uses all of these data sets that are on disk, or only ``request.graph``. Unless the budget is ``paper``,
    ``request.graph`` may be any graph that has both splits.
    """
    names = (request.graph,) if request.graph else GRAPHLAND
    if request.budget == "paper" and names[0] not in GRAPHLAND:
        raise HandfulError(unknown("data set of GraphLand", names[0], GRAPHLAND))
    on_disk = {name: getattr(sources().get(name), "on_disk", None) for name in names}
    known = [name for name, kept in on_disk.items() if kept is None or kept(home(request.root))]
    if not known:
        fetch = "`handful info NAME` fetches one, and the graph debian has these splits too"
        raise DatasetError(f"none of {', '.join(names)} is in {home(request.root)}: {fetch}")
    entries = {}
    for name, split, method in product(known, SPLITS, METHODS):
        job = graphland_cell(request, name, split, method)
        paper = paper_number("tab:graphland_rns", name, split, method)
        metric, short = getattr(sources().get(name), "metric", None), Path(name).name
        facts = {"dataset": name, "metric": metric, "split": split, "method": method}
        entries[f"{short}-{split}-{method}"] = Entry(job, f"{short} {split.upper()}", method, paper=paper, facts=facts)
    return pair_finding("graphland", "Data set", request, entries, [name for name in names if name not in known])


def synthetic(request: Request) -> Finding:
    """Full-graph training against RNS on synthetic graphs of several sizes and homophilies.

    Rows with the same homophily differ only in size, and rows with the same size differ only in homophily.
    """
    entries = {}
    for nodes, homophily, method in product(SIZES[request.budget], HOMOPHILY[request.budget], METHODS):
        graph = SYNTHETIC.format(nodes, homophily)
        job = adapt(request, small(graph, method, scaled(request, SCALE)))
        row, facts = f"{nodes:,} nodes, homophily {homophily}", {"nodes": nodes, "homophily": homophily}
        entries[f"{nodes}-{homophily}-{method}"] = Entry(job, row, method, facts={**facts, "method": method})
    return pair_finding("synthetic", "Graph", request, entries)


def pair_finding(
    study: str, corner: str, request: Request, entries: Mapping[str, Entry], missing: Sequence[str] = ()
) -> Finding:
    """Make a finding with a row for each pair of jobs: full-graph training, RNS, and their difference."""
    grid = Grid.train(request, entries)
    gaps = [grid.gap((row, METHODS[0]), (row, METHODS[1])) for row in grid.names("row")]
    known = [gap for gap in gaps if gap is not None]
    better = sum(gap == 0 or (gap > 0) == grid.metric.higher_is_better for gap in known)
    said = f"RNS matches or improves on full-graph training in {better} of {len(known)} cases."
    said += f" Not on disk: {', '.join(missing)}." if missing else ""
    where = {"graphland": "GraphLand", "synthetic": "synthetic"}.get(study) if request.graph is None else None
    payload, topic = {"missing": [*missing]} if missing else {}, "full graph and RNS"
    return grid.cross_finding(study, said, corner, "column", topic, where=where, apart=True, payload=payload)
