"""Which coefficient holds: an epoch of SGD against the flow of the modified loss, as the step size shrinks."""

from __future__ import annotations

import numpy as np

from handful.graph import Graph
from handful.random import generator
from handful.report.tables import Cell
from handful.samplers.random_node import RandomNodes
from handful.studies import Finding, Request
from handful.theory.backward_error import STEPS, backward_error, smooth_losses
from handful.theory.pictures import error_lines

PARTS = 4
NODES = {"smoke": 40, "laptop": 80, "paper": 200}
WORDS = {
    "modified": "L̄ + α/4·‖∇L̄‖² + α/4·R",
    "unmodified": "L̄ alone",
    "appendix_coefficient": "L̄ + m·α/4·(‖∇L̄‖² + R)",
}


def small_graph(nodes: int, seed: int) -> Graph:
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
    """The slopes on a small graph, whatever the graph asked for: integration in float64 is for small models."""
    seed = request.seeds[0]
    graph = small_graph(NODES[request.budget], seed)
    batches = list(RandomNodes(PARTS).epoch(graph, seed, 0))
    losses, w = smooth_losses(batches, hidden=6, classes=3, seed=seed)
    steps = STEPS[::2] if request.budget == "smoke" else STEPS
    request.report(0, 1, "integrating")
    found = backward_error(losses, w, steps)
    request.report(1, 1, "done")
    shown = (0, len(steps) // 2, -1)
    holds = min(found.slopes, key=lambda name: abs(found.slopes[name] - 3))
    return Finding(
        payload={"slopes": found.slopes, "steps": list(found.steps), "errors": found.errors, "parts": PARTS},
        title=f"distance after an epoch of {PARTS} batches ∝ αᵖ",
        head=["flow of", "p", *(f"α = {found.steps[i]:.2g}" for i in shown)],
        rows=[
            [Cell(WORDS[name]), Cell(f"{p:.2f}", int(name == holds)), *(Cell(f"{errors[i]:.1e}") for i in shown)]
            for (name, p), errors in zip(found.slopes.items(), found.errors.values(), strict=True)
        ],
        words=(
            f"Mean SGD stays with the flow of {WORDS[holds]} to order {found.slopes[holds]:.1f}; with the others it "
            "parts at second order. α is the size of one step, not of an epoch."
        ),
        pictures={"backward-error.svg": error_lines(found)},
    )
