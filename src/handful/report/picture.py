"""The batches of each sampler on a small graph (paper, Figure 1): the sampling process above, its result below.

``assets/samplers.svg.jinja`` is the drawing. This module computes the positions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from handful.finding import Panel, SamplerPicture
from handful.report.page import template

WIDE, HIGH = 290, 260
TINTS = 4
"""The number of background colours for sets of nodes."""


def samplers_svg(picture: SamplerPicture) -> str:
    """The picture as SVG: a column for each panel."""
    radius = round(float(np.clip(50 / np.sqrt(len(picture.place)), 5.5, 10)), 1)
    margin = 2.2 * radius
    upright = np.stack([picture.place[:, 0], 1 - picture.place[:, 1]], 1)
    at = (upright * (WIDE - 2 * margin, HIGH - 2 * margin) + margin).round(1)
    panels = [_placed(panel, at, picture.edges, radius) for panel in picture.panels]
    values = {"panels": panels, "edges": _lines(picture.edges.T, at), "note": picture.note}
    svg: str = template("samplers.svg.jinja").render(**values, radius=radius, wide=WIDE, high=HIGH)
    return svg.strip() + "\n"


def _placed(panel: Panel, at: np.ndarray, edges: np.ndarray, radius: float) -> dict[str, Any]:
    """The values of a panel for the template: points as pairs of numbers, lines and arrows as paths."""
    taken = set(panel.nodes.tolist())
    grounds = []
    for i, group in enumerate(panel.groups[:TINTS]):
        inside = edges[:, np.isin(edges, group).all(0)]
        kind = f"tint{i}" if taken >= set(group.tolist()) else "untaken"
        grounds.append((kind, at[group].tolist(), _lines(inside.T, at)))
    walks, roots = None, np.empty(0, int)
    if panel.walks is not None:
        steps = [(u, v, 0.18 if i % 2 else -0.18) for walk in panel.walks for i, (u, v) in enumerate(pairwise(walk))]
        walks = [_arrow(at[u], at[v], radius, bend) for u, v, bend in steps]
        roots = np.unique(panel.walks[:, 0])
    arrows = [_arrow(at[u], at[v], radius) for u, v in panel.edges.T] if panel.directed else []
    groups = {
        "rest": np.setdiff1d(np.arange(len(at)), panel.nodes),
        "helpers": np.setdiff1d(panel.nodes, panel.targets),
        "targets": panel.targets,
        "roots": roots,
    }
    return {
        "title": panel.title,
        "subtitle": panel.subtitle,
        "grounds": grounds,
        "walks": walks and list(filter(None, walks)),
        "arrows": list(filter(None, arrows)),
        "lines": "" if panel.directed else _lines(panel.edges.T, at),
        **{name: at[nodes].tolist() for name, nodes in groups.items()},
    }


def _lines(pairs: Iterable[np.ndarray], at: np.ndarray) -> str:
    """One line per pair of nodes, also if the pair has both directions."""
    once = sorted({(min(u, v), max(u, v)) for u, v in (map(int, pair) for pair in pairs)})
    return "".join(f"M{at[u][0]} {at[u][1]}L{at[v][0]} {at[v][1]}" for u, v in once)


def _arrow(start: np.ndarray, stop: np.ndarray, radius: float, bend: float = 0.0) -> str:
    """An arrow between the rims of two nodes; empty if they are too close."""
    delta = stop - start
    if np.hypot(*delta) < 2 * radius + 4:
        return ""
    middle = (start + stop) / 2 + bend * np.array([delta[1], -delta[0]])
    first, last = (end + (radius + 2) * (middle - end) / np.hypot(*(middle - end)) for end in (start, stop))
    return f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {last[0]:.1f} {last[1]:.1f}"
