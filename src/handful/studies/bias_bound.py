"""Both sides of the bias bound for m = 1…16, and the bias of every sampler split into its two terms."""

from __future__ import annotations

from dataclasses import asdict

from handful.finding import Axis, Chart, Finding, Series, View, text_table
from handful.samplers import make_sampler
from handful.studies.budget import Request
from handful.theory.bias import bias_bound, bias_split
from handful.vocabulary import PARTS, title

VALUES = (1, 2, 4, 8, 16)
EPOCHS = {"smoke": 2, "laptop": 20, "paper": 100}
HIDDEN = {"smoke": 16, "laptop": 64, "paper": 256}
SAMPLERS = ("rns", "neighbor", "cluster", "saint")
SIDES = {"bound": "C·σ(w), worst node", "average_bound": "C·σ(w), average node", "bias": "|E[L̂] − L_full|"}


def run(request: Request) -> Finding:
    """Both sides of the bias bound for m = 1…16, and the bias of every sampler split into its two terms.

    GraphSAGE of three layers with LayerNorm at a random initialisation, on the graph asked for (else debian).
    """
    seed, epochs, hidden = request.seeds[0], EPOCHS[request.budget], HIDDEN[request.budget]
    what = request.experiment(hidden=hidden, layers=3, norm="ln", residual=False)
    graph = what.load(seed).to(request.device)
    model = what.make_model(graph, seed).to(request.device)
    bounds = [b for m in request.each(VALUES, "m = {}".format) for b in bias_bound(model, graph, [m], epochs, seed)]
    splits = {
        name: asdict(bias_split(model, graph, make_sampler(name), 5 * epochs, seed)) for name in request.each(SAMPLERS)
    }
    rows = [[str(b.m), f"{b.bias:.2g} ± {b.bias_ci95:.1g}", f"{b.average_bound:.3g}", f"{b.bound:.3g}"] for b in bounds]
    terms = "; ".join(
        f"{title(name)} {s['node_subsampling']['mean']:+.2g} ± {s['node_subsampling']['ci95']:.1g} and "
        f"{s['edge_removal']['mean']:+.2g} ± {s['edge_removal']['ci95']:.1g}"
        for name, s in splits.items()
    )
    drawn = [b for b in bounds if b.m > 1]
    values: list[float] = [b.m for b in drawn]
    lines = [
        Series(label, values, [getattr(b, side) for b in drawn], color=i)
        for i, (side, label) in enumerate(SIDES.items())
    ]
    view = View("bound", "line", Axis(PARTS, log=True, ticks=values), Axis("loss", log=True), lines)
    heading = f"{graph.name} · sage 3×{hidden} · {epochs} partitions for each m"
    return Finding(
        "bias-bound",
        heading,
        f"Bias by node subsampling (I) and by edge removal (II): {terms}.",
        [text_table(heading, ["m", "bias", "C·σ, average node", "C·σ, worst node"], rows)],
        [Chart("bias-bound", f"{graph.name}: the bias and its bound", [view])],
        {
            "graph": graph.name,
            "bounds": [{**asdict(b), "bound": b.bound, "average_bound": b.average_bound} for b in bounds],
            "splits": splits,
        },
    )
