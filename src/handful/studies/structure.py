"""What random node sampling does to the graph as m grows: edges, components, diameter, distances, homophily."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from handful.errors import HandfulError
from handful.finding import Axis, Cell, Chart, Finding, Series, Table, View
from handful.graph import Graph
from handful.theory.structure import structure
from handful.vocabulary import STRUCTURE, words


def sampled_structure(
    graph: Graph,
    values: Sequence[int],
    epochs: int,
    seed: int,
    sources: int = 16,
    sweeps: int = 4,
    report: Callable[[int], None] | None = None,
) -> Finding:
    """Every measure of a part for each m in ``values``, from ``epochs`` random partitions.

    Args:
        graph: of which only the topology and, for homophily, the labels matter.
        values: the numbers of parts.
        epochs: random partitions for each m.
        seed: of partitions and sources.
        sources: searches from random nodes of each part.
        sweeps: searches, each from a node farthest from the last.
        report: called after every part with its m.
    """
    for m in values:
        if not 1 <= m <= max(1, graph.num_nodes):
            raise HandfulError(f"parts: m lies between 1 and the number of nodes, {graph.num_nodes}, got {m}")
    rows = structure(graph, values, epochs, seed, sources, sweeps, report)
    shown = [name for name in STRUCTURE if rows[0][name]["mean"] == rows[0][name]["mean"]]
    cells = [[Cell(STRUCTURE[name]), *(Cell(_text(row[name])) for row in rows)] for name in shown]
    heading = f"{graph.name} · a part of m, mean ± sd over {epochs} epoch{'s' * (epochs > 1)}"
    settings = {"epochs": epochs, "sources": sources, "sweeps": sweeps, "seed": seed}
    return Finding(
        "structure",
        heading,
        conclude(rows),
        [Table(heading, ["", *(f"m = {row['m']}" for row in rows)], cells)],
        [structure_chart(rows, shown, graph.name)],
        {"graph": graph.name, "epochs": epochs, "settings": settings, "parts": rows},
        {name: words(value) for name, value in settings.items()},
    )


def structure_chart(rows: Sequence[dict[str, Any]], shown: Sequence[str], graph: str) -> Chart:
    """Every measure against m, mean ± one standard deviation over epochs; isolated nodes as a share of the part."""
    m: list[float] = [row["m"] for row in rows]
    views = []
    for name in shown:
        scale = [100 / row["nodes"]["mean"] if name == "isolated" else 1.0 for row in rows]
        mean = [s * row[name]["mean"] for s, row in zip(scale, rows, strict=True)]
        sd = [s * row[name]["sd"] for s, row in zip(scale, rows, strict=True)]
        low, high = ([v + sign * d for v, d in zip(mean, sd, strict=True)] for sign in (-1, 1))
        log = name in ("edges", "largest_component") and min(mean) > 0
        label = "isolated nodes (%)" if name == "isolated" else STRUCTURE[name]
        y = Axis("", log=log, zero=name in ("homophily", "isolated"))
        views.append(View(label, "line", Axis("m", log=True, ticks=m), y, [Series("RNS", m, mean, low, high)]))
    return Chart("structure", f"{graph}: what sampling does to the graph", views, together=True)


def conclude(rows: Sequence[dict[str, Any]]) -> str:
    """How far the graph falls apart between the smallest and the largest m."""
    ends = (min(rows, key=lambda row: row["m"]), max(rows, key=lambda row: row["m"]))
    (m, most), degree = (row["m"] for row in ends), [row["average_degree"]["mean"] for row in ends]
    share = [row["largest_component"]["mean"] / row["nodes"]["mean"] for row in ends]
    return (
        f"From m = {m} to {most} the average degree goes from {degree[0]:.2g} to {degree[1]:.2g}, and the largest "
        f"component from {share[0]:.0%} to {share[1]:.0%} of the nodes of a part."
    )


def _text(value: dict[str, float]) -> str:
    mean, sd = (f"{number:,.0f}" if number >= 99.5 else f"{number:.2g}" for number in (value["mean"], value["sd"]))
    return f"{mean} ± {sd}" if value["sd"] > 1e-9 * abs(value["mean"]) else mean
