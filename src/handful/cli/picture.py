"""``handful picture``: what each sampler does, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.app import GraphArgument, JsonOption, RootOption, SplitOption, app, emit_json, out

FORMATS = ("svg", "png", "pdf")


@app.command()
def picture(
    graph: GraphArgument,
    out_path: Annotated[str, typer.Option("--out", help="The picture to write: .svg, .png or .pdf.")] = "samplers.svg",
    split: SplitOption = None,
    root: RootOption = None,
    seed: Annotated[int, typer.Option(help="For the part of a large graph that is shown, and every draw.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """What each sampler makes of a small graph, or of a part of a large one: the paper's Figure 1."""
    from handful.datasets import load
    from handful.errors import HandfulError
    from handful.report.picture import draw_samplers, panels, small_graph

    path = Path(out_path)
    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise HandfulError(f"--out must end in .{', .'.join(FORMATS)}; got '{out_path}'")
    whole = load(graph, split=split, root=root)
    if whole.num_nodes == 0:
        raise HandfulError(f"graph '{graph}' has no nodes to draw")
    small = small_graph(whole, seed)
    shown = panels(small, seed)
    part = small.num_nodes < whole.num_nodes
    note = f"{whole.name}: {whole.num_nodes:,} nodes"
    if part:
        note = f"{small.num_nodes} neighbouring nodes of {whole.name}, which has {whole.num_nodes:,}"
    draw_samplers(small, shown, note, path)
    if as_json:
        drawn = [
            {
                "sampler": panel.sampler.name,
                "options": panel.sampler.options(),
                "nodes": len(panel.nodes),
                "targets": len(panel.targets),
                "edges": panel.edges.shape[1],
            }
            for panel in shown
        ]
        emit_json(
            {"graph": whole.name, "nodes": whole.num_nodes, "shown": small.num_nodes, "panels": drawn, "out": str(path)}
        )
    else:
        out.print(f"{path}: {note}", soft_wrap=True)
