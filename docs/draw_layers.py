"""Draws the layers of the import contracts in ``pyproject.toml``: ``python docs/draw_layers.py`` writes
``docs/img/layers.svg``; a test holds the picture to the contracts."""

from __future__ import annotations

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "img" / "layers.svg"
SAYS = {
    "cli": "parse, call one public function, print",
    "bench": "measured against peers, as ratios",
    "report": "draws findings; knows nothing else",
    "studies": "the paper's experiments; each returns a finding",
    "theory": "what the paper proves, made runnable",
    "runs": "open_run: a run folder, ready to use",
    "estimators": "NodeClassifier, NodeRegressor",
    "experiment": "what to train, on what, how, as one value",
    "predict": "classes and probabilities by the user's ids",
    "training": "gather, loss, loop, records",
    "pyg": "drop-in loaders",
    "datasets": "graphs by name, file or table",
    "shuffle": "an epoch as one shuffle: to files, to ranks",
    "plan": "memory, disk, traffic and time before anything runs",
    "nn": "one file per backbone",
    "samplers": "structure only: nodes, layers, targets",
    "trim": "a sample cut to what its loss can see",
    "mean_field": "stand-ins for missing neighbours",
    "batch": "a stack of bipartite layers, with features and labels",
    "adjacency": "one layer's edges",
    "convert": "PyG, scipy, networkx",
    "storage": "graphs on disk",
    "graph": "validated at the door",
    "ranks": "what several processes tell each other",
    "kernels": "arrays alone: the hot loops and their twins",
    "finding": "words, tables and charts as data",
    "settings": "how to train",
    "vocabulary": "names people read",
    "statistics": "means and intervals",
    "random": "every draw has a name",
    "files": "never half-written",
    "notebook": "tables for notebooks",
    "signals": "put away first",
    "budget": "how much memory",
    "errors": "what, where, what to do",
    "version": "one place",
}
"""What each room holds, in a few words."""
WIDTH, ROW, GAP, PAD = 860, 46, 8, 16


def layers() -> list[list[str]]:
    """The rooms of each layer, the highest first, as the contract names them."""
    config = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in config["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]


def drawn() -> str:
    """The picture: a room may use the rooms in the rows below it, not those beside or above it."""
    rows = layers()
    height = 2 * PAD + len(rows) * (ROW + GAP) + 14
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" role="img" aria-label="The layers of handful">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for i, rooms in enumerate(rows):
        wide = (WIDTH - 2 * PAD - GAP * (len(rooms) - 1)) / len(rooms)
        top = PAD + i * (ROW + GAP)
        for j, room in enumerate(rooms):
            left = PAD + j * (wide + GAP)
            shade = f"hsl(220 60% {97 - 1.2 * i:.1f}%)"
            out.append(
                f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{ROW}" rx="7" fill="{shade}" '
                'stroke="#c9d3e6"/>'
            )
            middle = left + wide / 2
            out.append(
                f'<text x="{middle:.1f}" y="{top + 19}" text-anchor="middle" font-size="14" font-weight="600" '
                f'fill="#1b2230">{room}</text>'
            )
            out.append(
                f'<text x="{middle:.1f}" y="{top + 36}" text-anchor="middle" font-size="11.5" '
                f'fill="#5d6678">{SAYS[room]}</text>'
            )
    out.append(
        f'<text x="{WIDTH / 2}" y="{height - 9}" text-anchor="middle" font-size="11.5" fill="#5d6678">'
        "A room may use the rooms in the rows below it, not those beside or above it.</text>"
    )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
