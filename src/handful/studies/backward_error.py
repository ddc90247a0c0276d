"""Which coefficient holds: an epoch of SGD against the flow of the modified loss, as the step size shrinks."""

from __future__ import annotations

import numpy as np

from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View
from handful.graph import Graph
from handful.random import generator
from handful.samplers import RandomNodes
from handful.studies.budget import Request
from handful.theory.backward_error import STEPS, backward_error, smooth_losses
from handful.vocabulary import FLOWS

PARTS = 4
NODES = {"smoke": 40, "laptop": 80, "paper": 200}


def noisy_graph(nodes: int, seed: int) -> Graph:
    """A random graph whose features tell the class, with noise: enough for losses that are not alike."""
    rng = generator(seed, nodes)
    y = rng.integers(0, 3, nodes)
    x = (rng.normal(size=(nodes, 4)) + y[:, None]).astype(np.float32)
    edges = rng.integers(0, nodes, (2, 4 * nodes))
    train = rng.random(nodes) < 0.8
    return (
        Graph.from_edge_index(edges, nodes, x=x, y=y, train_mask=train, num_classes=3).to_undirected().without_loops()
    )


def run(request: Request) -> Finding:
    """Which coefficient holds: an epoch of SGD against the flow of the modified loss, as the step size shrinks.

    The slopes on a small graph, whatever the graph asked for: integration in float64 is for small models.
    """
    seed = request.seeds[0]
    graph = noisy_graph(NODES[request.budget], seed)
    batches = list(RandomNodes(PARTS).epoch(graph, seed, 0))
    losses, w = smooth_losses(batches, hidden=6, classes=3, seed=seed)
    steps = STEPS[::2] if request.budget == "smoke" else STEPS
    request.report(0, 1, "integrating")
    found = backward_error(losses, w, steps)
    request.report(1, 1, "done")
    shown = (0, len(steps) // 2, -1)
    holds = min(found.slopes, key=lambda name: abs(found.slopes[name] - 3))
    title = f"distance after an epoch of {PARTS} batches ∝ αᵖ"
    rows = [
        [Cell(FLOWS[name]), Cell(f"{p:.2f}", int(name == holds)), *(Cell(f"{errors[i]:.1e}") for i in shown)]
        for (name, p), errors in zip(found.slopes.items(), found.errors.values(), strict=True)
    ]
    lines = [
        Series(f"{flow}: slope {found.slopes[name]:.2f}", list(found.steps), list(found.errors[name]), color=i)
        for i, (name, flow) in enumerate(FLOWS.items())
    ]
    view = View("error", "line", Axis("step size α", log=True), Axis("distance after one epoch", log=True), lines)
    return Finding(
        "backward-error",
        title,
        f"Mean SGD stays with the flow of {FLOWS[holds]} to order {found.slopes[holds]:.1f}.",
        [Table(title, ["flow of", "p", *(f"α = {found.steps[i]:.2g}" for i in shown)], rows)],
        [Chart("backward-error", "Mean SGD against three gradient flows", [view])],
        {"slopes": found.slopes, "steps": list(found.steps), "errors": found.errors, "parts": PARTS},
    )
