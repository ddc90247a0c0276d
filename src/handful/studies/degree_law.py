"""The degrees of a random part: the exact law against what is sampled, and its exponent against the graph's."""

from __future__ import annotations

import numpy as np

from handful.datasets import load
from handful.report.tables import Cell
from handful.samplers.random_node import RandomNodes
from handful.studies import Finding, Request
from handful.theory.pictures import degree_lines
from handful.theory.powerlaw import fit_power_law
from handful.theory.thinning import edge_survival, thinned_degree_law

PARTS = (1, 2, 4, 8, 16)
EPOCHS = {"smoke": 1, "laptop": 10, "paper": 100}


def run(request: Request) -> Finding:
    """Sample parts of the graph asked for (else debian), edges taken in both directions."""
    seed = request.seeds[0]
    graph = load(request.graph or "debian", root=request.root, seed=seed).to_undirected().without_loops().coalesce()
    degrees = graph.in_degree.cpu().numpy()
    laws, sampled, rows, payload = {}, {}, [], []
    for i, m in enumerate(PARTS):
        request.report(i, len(PARTS), f"m = {m}")
        laws[m] = thinned_degree_law(degrees, m)
        counts, edges, alphas = np.zeros(len(laws[m])), [], []
        for epoch in range(EPOCHS[request.budget]):
            kept = 0
            for _, adjacency in RandomNodes(m).subgraphs(graph, seed, epoch):
                own = adjacency.degree.cpu().numpy()
                counts += np.bincount(own, minlength=len(counts))
                alphas.append(fit_power_law(own).alpha)
                kept += adjacency.num_edges
            edges.append(kept / graph.num_edges)
        sampled[m] = counts / counts.sum()
        gap = float(np.abs(np.cumsum(sampled[m]) - np.cumsum(laws[m])).max())
        alpha = float(np.nanmean(alphas))
        survival = edge_survival(graph.num_nodes, m)
        payload.append(
            {"m": m, "alpha": alpha, "survival": survival, "survival_sampled": float(np.mean(edges)), "distance": gap}
        )
        cells = [str(m), f"{survival:.4f}", f"{np.mean(edges):.4f}", f"{gap:.1e}", f"{alpha:.2f}"]
        rows.append([Cell(text) for text in cells])
    request.report(len(PARTS), len(PARTS), "done")
    full = payload[0]["alpha"]
    off = max(abs(row["alpha"] - full) for row in payload)
    return Finding(
        payload={"graph": graph.name, "parts": payload},
        title=f"{graph.name} · {EPOCHS[request.budget]} partitions for each m",
        head=["m", "edge survival", "sampled", "sup of law − sample", "α of a part"],
        rows=rows,
        words=f"Parts keep the exponent {full:.2f} of the whole graph to within {off:.2f}.",
        pictures={"degree-law.svg": degree_lines(laws, sampled, graph.name)},
    )
