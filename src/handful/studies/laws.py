"""Studies that compare the theory with measurements: the modified loss, the bound of the bias, and the degrees in a
part.

``measure_structure`` measures how the structure of a part changes with m: components, diameter, distances, homophily.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from handful.datasets import load
from handful.errors import HandfulError, require_name
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View, lines, points, text_table
from handful.graph import Graph
from handful.random import generator
from handful.samplers import RandomNodes, make_sampler
from handful.studies.budget import SAMPLERS, Request, Scale, adapt, small
from handful.theory.backward_error import STEPS, backward_error, smooth_losses
from handful.theory.bias import BiasBound, bias_bound, bias_split
from handful.theory.memory import Memory, gradient
from handful.theory.powerlaw import fit_power_law
from handful.theory.structure import structure
from handful.theory.thinning import edge_survival, thinned_degree_law
from handful.vocabulary import FLOWS, PARTS, STRUCTURE, estimate, title, words

BATCHES = 4
"""The number of parts per epoch in the study of the modified loss."""
MOMENTUM, ADAM_BETA2 = 0.9, 0.999
"""The default betas of torch's Adam. ``MOMENTUM`` is also the momentum of the paper's SGD+M."""
EPSILONS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-8)
SLACK = 0.25
"""The error counts as third order if the slope differs from 3 by less than this."""
VALUES = (1, 2, 4, 8, 16)
"""The values of m in the studies of the bias and of the degrees."""
BACKBONES = ("sage", "gcn", "gat", "sgformer")
TAIL = 100
"""A degree k counts for the tail only if at least this many sampled nodes have degree k or more."""
SIDES = {"bound": "C·σ(w), worst node", "average_bound": "C·σ(w), average node", "bias": "|E[L̂] − L_full|"}
DEGREES = {
    "m": ("m", "{}"),
    "survival": ("edge survival", "{:.4f}"),
    "survival_sampled": ("sampled", "{:.4f}"),
    "distance": ("sup of law − sample", "{:.1e}"),
    "alpha": ("α of a part", "{:.2f}"),
    "tail": ("tail of a part over the graph's", "{:.3g}"),
    "tail_law": ("m^(1−α)", "{:.3g}"),
}
"""The heading and the number format of each column in the degree table."""


def noisy_graph(nodes: int, seed: int) -> Graph:
    """A random graph whose features are the class number plus noise, so that the losses of its parts differ."""
    rng = generator(seed, nodes)
    y = rng.integers(0, 3, nodes)
    x = (rng.normal(size=(nodes, 4)) + y[:, None]).astype(np.float32)
    edges = rng.integers(0, nodes, (2, 4 * nodes))
    graph = Graph.from_edge_index(edges, nodes, x=x, y=y, train_mask=rng.random(nodes) < 0.8, num_classes=3)
    return graph.to_undirected().without_loops()


def backward(request: Request) -> Finding:
    """How the distance between an epoch of training and the flow of the modified loss depends on the step size.

    The study ignores ``request.graph`` and uses a small random graph, since integrating the flow in float64 needs a
    small model. SGD and heavy ball (``sgdm``) train on parts; Adam, with several ε, trains on the whole graph and on
    parts.
    """
    require_name("optimizer", request.optimizer, FLOWS)
    seed, flows, who = request.seeds[0], FLOWS[request.optimizer], title(request.optimizer)
    graph = noisy_graph({"smoke": 40, "laptop": 80, "paper": 200}[request.budget], seed)
    made = {m: smooth_losses(list(RandomNodes(m).epoch(graph, seed, 0)), 6, 3, seed) for m in (1, BATCHES)}
    (whole,), w = made[1]
    typical = float(gradient(whole, w).abs().median())
    halvings = range(0, 7, 2) if request.budget == "smoke" else range(7)
    rows, payload = [], []
    curves: dict[str, list[float]] = {}
    for memory, m in request.each(followed(request.optimizer), str):
        # The gradient must change little over the steps that the moments m and v average.
        small = (1 - memory.beta1) ** 2 if memory.eps is None else 5 * max(memory.eps, typical) * (1 - memory.beta2)
        steps = [small * STEPS[k] for k in halvings]
        error = backward_error(made[m][0], w, steps, memory)
        case = "" if memory.eps is None else f"ε = {memory.eps:g}, m = {m}: "
        for name, flow in flows.items():
            p, far = error.slopes[name], error.errors[name]
            held = Cell(f"{p:.2f}", int(name == "modified" and abs(p - 3) < SLACK))
            numbers = (f"{value:.1e}" for value in (steps[0], far[0], far[len(far) // 2], far[-1]))
            rows.append([Cell(case + flow), held, *map(Cell, numbers)])
            curves[f"{case}{flow}: slope {p:.2f}"] = far
        payload.append({**asdict(memory), "parts": m, "steps": steps, "slopes": error.slopes, "errors": error.errors})
    said = f"To third order {flows['modified']} holds in {sum(row[1].rank for row in rows)} of {len(payload)} cases."
    x, y = Axis("halvings of the step"), Axis("distance after one epoch", log=True)
    view = View("error", "line", x, y, lines([*map(float, halvings)], curves))
    chart = Chart("backward-error", f"Mean {who} against {len(flows)} flows", [view])
    heading = f"distance after an epoch of {who} ∝ αᵖ"
    table = Table(heading, ["flow of", "p", "α", "at α", "in the middle", "at the end"], rows)
    return Finding("backward-error", heading, said, [table], [chart], {"cases": payload, "median_gradient": typical})


def followed(optimizer: str) -> list[tuple[Memory, int]]:
    """The variants of an optimiser in the study, as pairs of a ``Memory`` and a number of batches.

    >>> followed("sgdm")
    [(Memory(beta1=0.9, beta2=0.0, eps=None), 4)]
    """
    if optimizer == "adam":
        return [(Memory(MOMENTUM, ADAM_BETA2, eps), m) for eps in EPSILONS for m in (1, BATCHES)]
    return [(Memory(MOMENTUM if optimizer == "sgdm" else 0.0), BATCHES)]


def bound(request: Request) -> Finding:
    """Both sides of the bias bound for m = 1…16, and the two terms of every sampler's bias.

    The model is GraphSAGE with three layers and LayerNorm at a random initialisation. For all backbones, the study also
    measures σ(w) / (1 − 1/m), where 1 − 1/m is the fraction of removed edges. The default graph is debian.
    """
    seed = request.seeds[0]
    epochs, hidden = {"smoke": (2, 16), "laptop": (20, 64), "paper": (100, 256)}[request.budget]
    shapes = {name: small(request.graph or "debian", "full", Scale(hidden, 3, 1), name) for name in BACKBONES}
    plain = {"norm": "ln", "residual": False}
    jobs = {name: adapt(request, shape).with_(options=plain) for name, shape in shapes.items()}
    graph = jobs["sage"].load(seed).to(request.device)
    models = {name: job.make_model(graph, seed).to(request.device) for name, job in jobs.items()}
    found: dict[str, list[BiasBound]] = {name: [] for name in BACKBONES}
    for name, m in request.each([*product(BACKBONES, VALUES)], "{0[0]}, m = {0[1]}".format):
        found[name].append(bias_bound(models[name], graph, m, epochs, seed))
    bounds, model = found["sage"], models["sage"]
    splits = {name: bias_split(model, graph, make_sampler(name), 5 * epochs, seed) for name in request.each(SAMPLERS)}
    rows = [[str(b.m), f"{b.bias:.2g} ± {b.bias_ci95:.1g}", f"{b.average_bound:.3g}", f"{b.bound:.3g}"] for b in bounds]
    by_term = {name: (split.node_subsampling, split.edge_removal) for name, split in splits.items()}
    terms = [[title(name), *(estimate(term, "+.2g") for term in own)] for name, own in by_term.items()]
    over = {name: [b.sigma_average / (1 - 1 / b.m) for b in own if b.m > 1] for name, own in found.items()}
    grown = ", ".join(f"{title(name)} {own[-1] / own[0]:.2f}" for name, own in over.items())
    share = [[str(m), *(f"{own[i]:.3g}" for own in over.values())] for i, m in enumerate(VALUES[1:])]
    drawn = [b for b in bounds if b.m > 1]
    values: list[float] = [b.m for b in drawn]
    sides = lines(values, {label: [getattr(b, side) for b in drawn] for side, label in SIDES.items()})
    view = View("bound", "line", Axis(PARTS, log=True, ticks=values), Axis("loss", log=True), sides)
    chart = Chart("bias-bound", f"{graph.name}: the bias and its bound", [view])
    heading = f"{graph.name} · sage 3×{hidden} · {epochs} partitions for each m"
    said = f"From m = {VALUES[1]} to {VALUES[-1]}, σ(w)/(1 − 1/m) of the average node grows by a factor: {grown}."
    tables = [
        text_table(heading, ["m", "bias", "C·σ, average node", "C·σ, worst node"], rows),
        text_table("Bias by sampler", ["sampler", "(I) node subsampling", "(II) edge removal"], terms),
        text_table("σ(w)/(1 − 1/m), average node", ["m", *map(title, BACKBONES)], share),
    ]
    both = [{**asdict(b), "bound": b.bound, "average_bound": b.average_bound} for b in bounds]
    by_sampler = {name: asdict(split) for name, split in splits.items()}
    payload = {"graph": graph.name, "bounds": both, "splits": by_sampler, "sigma_over_share": over}
    return Finding("bias-bound", heading, said, tables, [chart], payload)


def degrees(request: Request) -> Finding:
    """The degrees in a random part: exact and sampled distribution, and the exponents of the part and of the graph.

    The graph is made undirected. The default graph is debian.
    """
    seed = request.seeds[0]
    graph = load(request.graph or "debian", root=request.root, seed=seed).to_undirected().without_loops().coalesce()
    epochs = {"smoke": 1, "laptop": 10, "paper": 100}[request.budget]
    whole, payload, tails = fit_power_law(graph.in_degree.cpu().numpy()), [], []
    ends: list[np.ndarray] = []
    for i, m in enumerate(request.each(VALUES, "m = {}".format)):
        law = thinned_degree_law(graph.in_degree.cpu().numpy(), m)
        counts, edges, alphas = np.zeros(len(law)), [], []
        for epoch in range(epochs):
            survived = 0
            for _, adjacency in RandomNodes(m).subgraphs(graph, seed, epoch):
                own = adjacency.degree.cpu().numpy()
                counts += np.bincount(own, minlength=len(counts))
                alphas.append(fit_power_law(own).alpha)
                survived += adjacency.num_edges
            edges.append(survived / graph.num_edges)
        sampled = counts / counts.sum()
        tails += tail_lines(m, law, sampled, i)
        ends.append(np.cumsum(counts[::-1])[::-1])
        at = np.flatnonzero((ends[-1] >= TAIL) & (np.arange(len(law)) >= whole.x_min))
        shrunk = np.log(ends[-1][at] / ends[0][at]).mean() if len(at) else np.nan
        gap = float(np.abs(np.cumsum(sampled) - np.cumsum(law)).max())
        row = {"m": m, "alpha": float(np.nanmean(alphas)), "survival": edge_survival(graph.num_nodes, m)}
        row |= {"tail": float(np.exp(shrunk)), "tail_law": float(m) ** (1 - whole.alpha)}
        payload.append({**row, "survival_sampled": float(np.mean(edges)), "distance": gap})
    rows = [[form.format(row[key]) for key, (_, form) in DEGREES.items()] for row in payload]
    alpha, exact, kept = ([row[key] for row in payload] for key in ("alpha", "survival", "survival_sampled"))
    x = Axis(PARTS, log=True, ticks=[*map(float, VALUES)])
    share = Axis("share of nodes with degree ≥ k; line: law, dots: sample", log=True)
    survival = lines(VALUES, {"exact": exact, "sampled": kept})
    views = [
        View("degrees", "line", Axis("degree k", log=True), share, tails),
        View("edges", "line", x, Axis("share of edges that survive", log=True), survival),
        View("exponent", "line", x, Axis("α of a part"), lines(VALUES, {"α": alpha})),
    ]
    off = max(abs(one - alpha[0]) for one in alpha)
    said = f"Parts keep the exponent {alpha[0]:.2f} of the whole graph to within {off:.2f}."
    heading = f"{graph.name} · {epochs} partitions for each m"
    table = text_table(heading, [head for head, _ in DEGREES.values()], rows)
    chart = Chart("degree-law", f"{graph.name}: degrees in a part, law and sample", views)
    return Finding("degree-law", heading, said, [table], [chart], {"graph": graph.name, "parts": payload})


def tail_lines(m: int, law: np.ndarray, sampled: np.ndarray, color: int) -> list[Series]:
    """Make two series of P(degree ≥ k), up to the largest sampled degree: the exact distribution as a line, and the
    samples as dots.
    """
    exact, seen = (np.cumsum(p[::-1])[::-1] for p in (law, sampled))
    at = np.unique(np.geomspace(1, max(1, len(seen) - 1), 30).astype(int))
    at = at[(at < len(seen)) & (seen[np.minimum(at, len(seen) - 1)] > 0)]
    return [
        Series(f"m = {m}", at.tolist(), exact[at].tolist(), color=color),
        Series(f"m = {m}", at.tolist(), seen[at].tolist(), color=color, mark="dot"),
    ]


# -- structure --------------------------------------------------------------------------------------------------------


def measure_structure(
    graph: Graph, parts: Sequence[int], epochs: int, seed: int, sources: int, sweeps: int, report: Callable[[int], None]
) -> Finding:
    """Measure the structure of a part for each m in ``parts``, on ``epochs`` random partitions.

    Args:
        graph: a graph; its labels are used only for homophily.
        parts: the numbers of parts.
        epochs: the number of random partitions per m.
        seed: the seed of the partitions and of the sources.
        sources: the number of breadth-first searches from random nodes, per part.
        sweeps: the number of further searches per part, each from a node that is farthest from the start of the
            previous search.
        report: a progress function, which is called with m after every part.
    """
    for m in parts:
        if not 1 <= m <= max(1, graph.num_nodes):
            raise HandfulError(f"parts: m lies between 1 and the number of nodes, {graph.num_nodes}, got {m}")
    rows = structure(graph, parts, epochs, seed, sources, sweeps, report)
    shown = [name for name in STRUCTURE if rows[0][name]["mean"] == rows[0][name]["mean"]]
    cells = [[Cell(STRUCTURE[name]), *(Cell(_text(row[name])) for row in rows)] for name in shown]
    heading = f"{graph.name} · a part of m, mean ± sd over {epochs} epoch{'s' * (epochs > 1)}"
    table = Table(heading, ["", *(f"m = {row['m']}" for row in rows)], cells)
    settings = {"epochs": epochs, "sources": sources, "sweeps": sweeps, "seed": seed}
    payload = {"graph": graph.name, "epochs": epochs, "settings": settings, "parts": rows}
    facts = {name: words(value) for name, value in settings.items()}
    chart = structure_chart(rows, shown, graph.name)
    first, last = ((row["m"], row["average_degree"]["mean"]) for row in (rows[0], rows[-1]))
    said = f"From m = {first[0]} to {last[0]} the average degree goes from {first[1]:.2g} to {last[1]:.2g}."
    return Finding("structure", heading, said, [table], [chart], payload, facts)


def structure_chart(rows: Sequence[dict[str, Any]], shown: Sequence[str], graph: str) -> Chart:
    """Chart each measure against m, as mean ± one standard deviation over epochs. Isolated nodes are shown as a
    percentage of the nodes of a part.
    """
    m: list[float] = [row["m"] for row in rows]
    views = []
    for name in shown:
        scale = [100 / row["nodes"]["mean"] if name == "isolated" else 1.0 for row in rows]
        values = [{"mean": s * r[name]["mean"], "ci95": s * r[name]["sd"]} for s, r in zip(scale, rows, strict=True)]
        log = name in ("edges", "largest_component") and min(value["mean"] for value in values) > 0
        label = "isolated nodes (%)" if name == "isolated" else STRUCTURE[name]
        y = Axis("", log=log, zero=name in ("homophily", "isolated"))
        views.append(View(label, "line", Axis("m", log=True, ticks=m), y, [points("RNS", m, values)]))
    return Chart("structure", f"{graph}: the structure of a part", views, together=True)


def _text(value: dict[str, float]) -> str:
    mean, sd = (f"{number:,.0f}" if number >= 99.5 else f"{number:.2g}" for number in (value["mean"], value["sd"]))
    return f"{mean} ± {sd}" if value["sd"] > 1e-9 * abs(value["mean"]) else mean
