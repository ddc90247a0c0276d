"""Both sides of the bias bound for m = 1…16, and the bias of every sampler split into its two terms."""

from __future__ import annotations

from dataclasses import asdict

import torch

from handful.datasets import load
from handful.nn import make_model
from handful.report.tables import Cell
from handful.samplers import make_sampler
from handful.studies import Finding, Request
from handful.theory.bias import bias_bound, bias_split
from handful.theory.pictures import bound_lines

PARTS = (1, 2, 4, 8, 16)
EPOCHS = {"smoke": 2, "laptop": 20, "paper": 100}
HIDDEN = {"smoke": 16, "laptop": 64, "paper": 256}
SAMPLERS = ("rns", "neighbor", "cluster", "saint")


def run(request: Request) -> Finding:
    """GraphSAGE of three layers with LayerNorm at a random initialisation, on the graph asked for (else debian)."""
    seed, epochs = request.seeds[0], EPOCHS[request.budget]
    graph = load(request.graph or "debian", split=request.split, root=request.root, seed=seed).to(request.device)
    torch.manual_seed(seed)
    hidden = HIDDEN[request.budget]
    model = make_model("sage", graph.num_features, graph.num_outputs, hidden=hidden, layers=3, norm="ln")
    model.to(request.device)
    total = len(PARTS) + len(SAMPLERS)
    bounds = []
    for i, m in enumerate(PARTS):
        request.report(i, total, f"m = {m}")
        bounds += bias_bound(model, graph, [m], epochs, seed)
    splits = {}
    for i, name in enumerate(SAMPLERS):
        request.report(len(PARTS) + i, total, name)
        splits[name] = asdict(bias_split(model, graph, make_sampler(name), 5 * epochs, seed))
    request.report(total, total, "done")
    rows = [
        [
            Cell(str(b.m)),
            Cell(f"{b.bias:.2g} ± {b.bias_ci95:.1g}"),
            Cell(f"{b.average_bound:.3g}"),
            Cell(f"{b.bound:.3g}"),
        ]
        for b in bounds
    ]
    terms = "; ".join(
        f"{name} {s['node_subsampling']['mean']:+.2g} ± {s['node_subsampling']['ci95']:.1g} and "
        f"{s['edge_removal']['mean']:+.2g} ± {s['edge_removal']['ci95']:.1g}"
        for name, s in splits.items()
    )
    return Finding(
        payload={
            "graph": graph.name,
            "bounds": [{**asdict(b), "bound": b.bound, "average_bound": b.average_bound} for b in bounds],
            "splits": splits,
        },
        title=f"{graph.name} · sage 3×{hidden} · {epochs} partitions for each m",
        head=["m", "bias", "C·σ, average node", "C·σ, worst node"],
        rows=rows,
        words=f"Bias by node subsampling (I) and by edge removal (II): {terms}.",
        pictures={"bias-bound.svg": bound_lines(bounds, graph.name)},
    )
