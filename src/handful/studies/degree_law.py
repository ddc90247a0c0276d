"""The degrees of a random part: the exact law against what is sampled, and its exponent against the graph's."""

from __future__ import annotations

import numpy as np

from handful.datasets import load
from handful.finding import Axis, Chart, Finding, Series, View, text_table
from handful.samplers import RandomNodes
from handful.studies.budget import Request
from handful.theory.powerlaw import fit_power_law
from handful.theory.thinning import edge_survival, thinned_degree_law
from handful.vocabulary import PARTS

VALUES = (1, 2, 4, 8, 16)
EPOCHS = {"smoke": 1, "laptop": 10, "paper": 100}


def run(request: Request) -> Finding:
    """The degrees of a random part: the exact law against what is sampled, and its exponent against the graph's.

    Parts of the graph asked for (else debian), edges taken in both directions.
    """
    seed = request.seeds[0]
    graph = load(request.graph or "debian", root=request.root, seed=seed).to_undirected().without_loops().coalesce()
    degrees = graph.in_degree.cpu().numpy()
    rows, payload, tails = [], [], []
    for i, m in enumerate(request.each(VALUES, "m = {}".format)):
        law = thinned_degree_law(degrees, m)
        counts, edges, alphas = np.zeros(len(law)), [], []
        for epoch in range(EPOCHS[request.budget]):
            kept = 0
            for _, adjacency in RandomNodes(m).subgraphs(graph, seed, epoch):
                own = adjacency.degree.cpu().numpy()
                counts += np.bincount(own, minlength=len(counts))
                alphas.append(fit_power_law(own).alpha)
                kept += adjacency.num_edges
            edges.append(kept / graph.num_edges)
        sampled = counts / counts.sum()
        tails += tail_lines(m, law, sampled, i)
        gap = float(np.abs(np.cumsum(sampled) - np.cumsum(law)).max())
        alpha = float(np.nanmean(alphas))
        survival = edge_survival(graph.num_nodes, m)
        payload.append(
            {"m": m, "alpha": alpha, "survival": survival, "survival_sampled": float(np.mean(edges)), "distance": gap}
        )
        rows.append([str(m), f"{survival:.4f}", f"{np.mean(edges):.4f}", f"{gap:.1e}", f"{alpha:.2f}"])
    full = payload[0]["alpha"]
    off = max(abs(row["alpha"] - full) for row in payload)
    m_values: list[float] = list(VALUES)
    x = Axis(PARTS, log=True, ticks=m_values)
    survival_lines = [
        Series(title, m_values, [row[key] for row in payload], color=i)
        for i, (key, title) in enumerate({"survival": "exact", "survival_sampled": "sampled"}.items())
    ]
    share = Axis("share of nodes with degree ≥ k; line: law, dots: sample", log=True)
    views = [
        View("degrees", "line", Axis("degree k", log=True), share, tails),
        View("edges", "line", x, Axis("share of edges that survive", log=True), survival_lines),
        View("exponent", "line", x, Axis("α of a part"), [Series("α", m_values, [row["alpha"] for row in payload])]),
    ]
    heading = f"{graph.name} · {EPOCHS[request.budget]} partitions for each m"
    return Finding(
        "degree-law",
        heading,
        f"Parts keep the exponent {full:.2f} of the whole graph to within {off:.2f}.",
        [text_table(heading, ["m", "edge survival", "sampled", "sup of law − sample", "α of a part"], rows)],
        [Chart("degree-law", f"{graph.name}: degrees in a part, law and sample", views)],
        {"graph": graph.name, "parts": payload},
    )


def tail_lines(m: int, law: np.ndarray, sampled: np.ndarray, color: int) -> list[Series]:
    """P(degree ≥ k) for some k: the exact law as a line, what was sampled as dots, as far down as samples go."""
    exact, seen = (np.cumsum(p[::-1])[::-1] for p in (law, sampled))
    at = np.unique(np.geomspace(1, max(1, len(seen) - 1), 30).astype(int))
    at = at[(at < len(seen)) & (seen[np.minimum(at, len(seen) - 1)] > 0)]
    return [
        Series(f"m = {m}", at.tolist(), exact[at].tolist(), color=color),
        Series(f"m = {m}", at.tolist(), seen[at].tolist(), color=color, mark="dot"),
    ]
