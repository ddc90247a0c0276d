"""``handful info``: a graph's row in the paper's table of datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from handful.cli import params as p
from handful.cli.app import app, emit

if TYPE_CHECKING:
    from handful.finding import Table


@app.command()
def info(
    graph: p.Graph,
    split: p.Split = None,
    root: p.Root = None,
    sources: Annotated[int, typer.Option(help="Searches from random nodes, for the distances.", min=1)] = 16,
    sweeps: Annotated[int, typer.Option(help="Searches, each from a node farthest from the last.", min=0)] = 8,
    seed: Annotated[int, typer.Option(help="Of the sources, and of splits that are drawn.", min=0)] = 0,
    threads: p.Threads = None,
    as_json: p.Json = False,
) -> None:
    """The graph's statistics: size, density, components, homophily, distances, classes, features and split."""
    from handful.datasets import load
    from handful.theory.structure import statistics

    data = load(graph, split=split, root=root, seed=seed)
    found = statistics(data, sources, sweeps, seed).as_dict()
    result = {"graph": data.name, **found, "metric": data.metric}
    emit(result, as_json, [info_table(result)])


def info_table(result: dict[str, Any]) -> Table:
    """The result for people."""
    from handful.finding import Cell, Table

    split = result["split"]
    rows = {
        "nodes": f"{result['nodes']:,}",
        "edges": f"{result['edges']:,} (each direction counts)",
        "density": f"{result['density']:.2e}",
        "average degree": f"{result['average_degree']:.2f}",
        "isolated nodes": f"{result['isolated']:,}",
        "connected components": f"{result['components']:,}",
        "homophily": f"edge {_number(result['homophily'])}, adjusted {_number(result['adjusted_homophily'])}, "
        f"unbiased {_number(result['unbiased_homophily'])}",
        "diameter": f"at least {result['diameter']}",
        "average distance": f"about {result['average_distance']:.2f}" if result["edges"] else "–",
        "classes": str(result["classes"] or "–"),
        "features": f"{result['features']:,}" if result["features"] else "–",
        "train / val / test": " / ".join(f"{size:,}" for size in split.values()) if split else "no split",
        "metric": result["metric"].replace("_", " "),
    }
    kind = "" if result["undirected"] else ", directed; measured with both directions of every edge"
    return Table(f"{result['graph']}{kind}", ["", ""], [[Cell(name), Cell(text)] for name, text in rows.items()])


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"
