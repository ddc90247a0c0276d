"""``handful picture``: what each sampler does, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli import params as p
from handful.cli.app import app, emit


@app.command()
def picture(
    graph: p.Graph,
    out_path: Annotated[str, typer.Option("--out", help="The picture to write: .svg, .png or .pdf.")] = "samplers.svg",
    split: p.Split = None,
    root: p.Root = None,
    seed: Annotated[int, typer.Option(help="For the part of a large graph that is shown, and every draw.", min=0)] = 0,
    as_json: p.Json = False,
) -> None:
    """What each sampler makes of a small graph, or of a part of a large one: the paper's Figure 1."""
    from handful.datasets import load
    from handful.errors import HandfulError
    from handful.report.picture import draw_samplers
    from handful.report.vega import FORMATS
    from handful.studies.picture import sampler_picture

    path = Path(out_path)
    if path.suffix.lstrip(".").lower() not in FORMATS:
        raise HandfulError(f"--out must end in .{', .'.join(FORMATS)}; got '{out_path}'")
    whole = load(graph, split=split, root=root)
    shown = sampler_picture(whole, seed)
    draw_samplers(shown, path)
    panels = [
        {
            "sampler": panel.method,
            "options": panel.options,
            "nodes": len(panel.nodes),
            "targets": len(panel.targets),
            "edges": panel.edges.shape[1],
        }
        for panel in shown.panels
    ]
    payload = {"graph": whole.name, "nodes": whole.num_nodes, "shown": len(shown.place), "panels": panels}
    emit({**payload, "out": str(path)}, as_json, [], f"{path}: {shown.note}")
