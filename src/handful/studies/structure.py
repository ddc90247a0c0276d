"""What random node sampling does to the graph as m grows: edges, components, diameter, distances, homophily."""

from __future__ import annotations

from handful.datasets import load
from handful.report.tables import Cell
from handful.studies import Finding, Request, presets
from handful.studies.budget import graph_of
from handful.theory.pictures import CURVES, structure_curves
from handful.theory.structure import structure

VALUES = {"smoke": (1, 4), "laptop": (1, 2, 4, 8, 16), "paper": (1, *range(2, 11))}
EPOCHS = {"smoke": 1, "laptop": 5}


def run(request: Request) -> Finding:
    """Mean ± standard deviation over epochs, full passes over all parts; the paper has 5."""
    graph, seed = graph_of(request, "ogbn-arxiv"), request.seeds[0]
    values = VALUES[request.budget]
    epochs = EPOCHS.get(request.budget) or presets.protocol("fig:sampling-properties")["epochs"]
    total, done = epochs * sum(values), 0

    def report(m: int) -> None:
        nonlocal done
        done += 1
        request.report(done, total, f"m = {m}")

    data = load(graph, root=request.root, seed=seed)
    rows = structure(data, values, epochs, seed, report=report)
    shown = [name for name in CURVES if rows[0][name]["mean"] == rows[0][name]["mean"]]
    first, last = (row["diameter_lower_bound"]["mean"] for row in (rows[0], rows[-1]))
    return Finding(
        payload={"graph": data.name, "epochs": epochs, "parts": rows},
        title=f"{data.name} · a part, mean over {epochs} epoch{'s' * (epochs > 1)}",
        head=["m", *(CURVES[name] for name in shown)],
        rows=[[Cell(str(row["m"])), *(Cell(_text(row[name]["mean"])) for name in shown)] for row in rows],
        words=f"From m = {values[0]} to {values[-1]} the diameter goes from {first:.1f} to {last:.1f}.",
        pictures={"structure.svg": structure_curves(rows, data.name)},
    )


def _text(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
