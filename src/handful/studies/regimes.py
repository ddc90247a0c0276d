"""Full graph, RNS with one update per epoch, and RNS, by SGD, SGD with momentum and Adam; and with fair controls."""

from __future__ import annotations

from collections.abc import Sequence

from handful.errors import HandfulError
from handful.experiment import Experiment
from handful.finding import Axis, Chart, Finding, View
from handful.samplers import FullGraph, RandomNodes
from handful.studies import presets
from handful.studies.budget import PARTS, Request, Scale, asked, scaled
from handful.studies.grid import Entry, Grid, paper_number
from handful.vocabulary import REGIMES, title

PAPER_GRAPH = "ogbn-products"
SCALE = Scale(hidden=64, layers=2, epochs=100)
OPTIMIZERS = ("sgd", "sgdm", "adam")
CONTROLS = {"epochs": "equal epochs", "updates": "equal updates", "flow": "equal flow time"}
"""RNS takes m steps an epoch and the other regimes one. They get m times the epochs, or m times the learning rate."""


def cell(request: Request, graph: str, regime: str, optimizer: str) -> Experiment:
    """One cell of the table, with the paper's settings of the optimiser under every budget."""
    preset = presets.implicit(regime, optimizer)
    if request.budget == "paper":
        if graph != PAPER_GRAPH:
            raise HandfulError(f"the paper has the regimes for {PAPER_GRAPH} alone: use budget 'laptop' for '{graph}'")
        return asked(request, preset)
    scale = scaled(request, SCALE)
    sampler = FullGraph() if regime == "full" else RandomNodes(PARTS)
    small = Experiment(graph, sampler=sampler, hidden=scale.hidden, layers=scale.layers, dropout=0.5)
    return asked(request, small.with_(settings=preset.settings, epochs=scale.epochs))


def controlled(rns: Experiment, other: Experiment, control: str) -> Experiment:
    """``other``, which takes one step an epoch, on a par with ``rns``, which takes m.

    Equal updates: m times the epochs. Equal flow time, Σ lr over all steps: m times the learning rate.
    """
    assert isinstance(rns.sampler, RandomNodes)
    m, how = rns.sampler.parts, other.settings
    if control == "updates":
        return other.with_(epochs=m * how.epochs, evaluate_every=m * how.evaluate_every)
    return other.with_(lr=m * how.lr) if control == "flow" else other


def regimes(request: Request) -> Finding:
    """Full graph, RNS with one update per epoch, and RNS, by SGD, SGD with momentum and Adam: are both effects needed?

    Nine jobs, equal in all but regime and optimiser.
    """
    graph = request.graph_or(PAPER_GRAPH)
    entries = {
        f"{regime}-{optimizer}": Entry(
            cell(request, graph, regime, optimizer),
            regime,
            optimizer,
            paper=paper_number("tab:implicit_reg_results", regime, optimizer) if graph == PAPER_GRAPH else None,
            facts={"regime": regime, "optimizer": optimizer},
        )
        for regime in REGIMES
        for optimizer in OPTIMIZERS
    }
    return by_optimizer("regimes", Grid.train(request, entries), [("full", "rns-no-batch"), ("rns-no-batch", "rns")])


def controls(request: Request) -> Finding:
    """Is it the batches, or only more steps? The regimes at equal epochs, at equal updates and at equal flow time.

    Seven rows by three optimisers; RNS itself is the same in all three comparisons.
    """
    graph = request.graph_or(PAPER_GRAPH)
    rows = [(regime, control) for regime in ("full", "rns-no-batch") for control in CONTROLS]
    entries = {
        f"{regime}-{control}-{optimizer}": Entry(
            controlled(cell(request, graph, "rns", optimizer), cell(request, graph, regime, optimizer), control),
            "rns" if regime == "rns" else f"{REGIMES[regime]}, {CONTROLS[control]}",
            optimizer,
            facts={"regime": regime, "control": control, "optimizer": optimizer},
        )
        for regime, control in [*rows, ("rns", "epochs")]
        for optimizer in OPTIMIZERS
    }
    pairs = [(f"{REGIMES['full']}, {control}", "rns") for control in CONTROLS.values()]
    return by_optimizer("controls", Grid.train(request, entries), pairs)


def by_optimizer(name: str, grid: Grid, pairs: Sequence[tuple[str, str]]) -> Finding:
    """The table of regimes by optimisers, and how far the second row of each pair is above the first."""
    metric, told = grid.metric, []
    for optimizer in OPTIMIZERS:
        ends = [(grid.mean(low, optimizer), grid.mean(high, optimizer)) for low, high in pairs]
        gaps = ["–" if a is None or b is None else metric.signed(b - a) for a, b in ends]
        told.append(f"{title(optimizer)} {', '.join(gaps)}")
    steps = ", ".join(f"{title(low)} to {title(high)}" for low, high in pairs)
    x = Axis("", of=[title(optimizer) for optimizer in OPTIMIZERS])
    view = View("test", "dot", x, Axis(metric.label("test")), grid.series("row"))
    heading = f"{grid.graph} · {metric.label('test')} · {grid.setting}"
    return grid.finding(
        name,
        f"{metric.differences} from {steps}: {'; '.join(told)}.",
        [grid.crossed(heading, "Training regime", best_in="column")],
        [Chart(name, f"{grid.graph}: regimes by optimiser", [view])],
    )
