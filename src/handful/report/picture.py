"""What each sampler does on a small graph (paper, Figure 1): above the sampling process, below what it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from handful.finding import Panel, SamplerPicture
from handful.report.vega import write_svg

RED, BLUE, GREY, PALE, INK, SOFT = "#d7263d", "#1f6fb4", "#b9c0c9", "#e3e6ea", "#2f3640", "#6b7480"
TINTS = ("#ffe3a8", "#cdeac0", "#d9d2f4", "#c6e5f3")
UNTAKEN = "#eef0f2"
WIDE, HIGH, GAP = 290, 260, 16
LEFT, TOP, BOTTOM = 50, 74, 78
FONT = "system-ui, -apple-system, Segoe UI, DejaVu Sans, Helvetica, Arial, sans-serif"
KEYS = ((RED, "target: its loss counts"), (BLUE, "helper: passes messages only"), (GREY, "not sampled"))


def draw_samplers(picture: SamplerPicture, path: Path) -> None:
    """Draw ``picture`` into ``path``, in the format of its suffix: svg, png or pdf.

    Raises:
        HandfulError: it is another format.
    """
    write_svg(samplers_svg(picture), path)


def samplers_svg(picture: SamplerPicture) -> str:
    """The picture as SVG: a column for each panel."""
    radius = float(np.clip(50 / np.sqrt(len(picture.place)), 5.5, 10))
    scaled = np.stack([picture.place[:, 0], 1 - picture.place[:, 1]], 1)
    across = LEFT + len(picture.panels) * (WIDE + GAP)
    below = TOP + HIGH + GAP
    high = below + HIGH + BOTTOM
    out = [
        _heading(LEFT - 26, TOP + HIGH / 2, "sampling process"),
        _heading(LEFT - 26, below + HIGH / 2, "sampled subgraph"),
    ]
    for column, panel in enumerate(picture.panels):
        left = LEFT + column * (WIDE + GAP)
        margin = 2.2 * radius
        at = scaled * (WIDE - 2 * margin, HIGH - 2 * margin) + margin
        out.append(_text(left + WIDE / 2, 30, panel.title, 18, bold=True))
        out.append(_text(left + WIDE / 2, 54, panel.subtitle, 13, SOFT))
        for top, inner in ((TOP, _process(panel, at, picture.edges, radius)), (below, _sample(panel, at, radius))):
            frame = f'<rect width="{WIDE}" height="{HIGH}" rx="8" fill="none" stroke="{PALE}"/>'
            out.append(f'<g transform="translate({left} {top})">{frame}{inner}</g>')
    widths = [8 * len(label) + 44 for _, label in KEYS]
    for i, (color, label) in enumerate(KEYS):
        x = (across - sum(widths)) / 2 + sum(widths[:i])
        out.append(_dots(np.array([[x, high - 46]]), color, 7))
        out.append(_text(x + 16, high - 41, label, 15, anchor="start"))
    out.append(_text(across / 2, high - 14, picture.note, 13, SOFT))
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 8 6" refX="7" refY="3" markerWidth="8" markerHeight="6" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M0 0L8 3L0 6Z" fill="{color}"/></marker>'
        for name, color in (("ink", INK), ("soft", SOFT))
    )
    title = escape(f"What each sampler draws. {picture.note}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{high}" viewBox="0 0 {across} {high}" '
        f'role="img" font-family="{FONT}"><title>{title}</title><defs>{heads}</defs>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(out)}</svg>\n'
    )


def _process(panel: Panel, at: np.ndarray, edges: np.ndarray, radius: float) -> str:
    chosen = set(panel.nodes.tolist())
    out = []
    for group, tint in zip(panel.groups, TINTS, strict=False):
        out.append(_ground(group, at, edges, tint if chosen >= set(group.tolist()) else UNTAKEN, radius))
    out.append(_lines(edges.T, at, "#d3d8de" if panel.groups else PALE, 1))
    if panel.walks is not None:
        for walk in panel.walks:
            for step, (u, v) in enumerate(pairwise(walk)):
                out.append(_arrow(at[u], at[v], radius, "ink", 0.18 if step % 2 else -0.18))
    else:
        out.append(_messages(panel, at, radius, "ink"))
    rest = np.setdiff1d(np.arange(len(at)), panel.nodes)
    out += [_dots(at[rest], GREY, 0.8 * radius), _nodes(panel, at, radius)]
    if panel.walks is not None:
        roots = at[np.unique(panel.walks[:, 0])]
        ring = f'r="{1.6 * radius:.1f}" fill="none" stroke="{INK}" stroke-width="1.4"'
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" {ring}/>' for x, y in roots]
    return "".join(out)


def _sample(panel: Panel, at: np.ndarray, radius: float) -> str:
    return _messages(panel, at, radius, "soft") + _nodes(panel, at, radius)


def _messages(panel: Panel, at: np.ndarray, radius: float, color: str) -> str:
    if not panel.directed:
        return _lines(panel.edges.T, at, SOFT, 1.7)
    return "".join(_arrow(at[u], at[v], radius, color) for u, v in panel.edges.T)


def _nodes(panel: Panel, at: np.ndarray, radius: float) -> str:
    helpers = np.setdiff1d(panel.nodes, panel.targets)
    return _dots(at[helpers], BLUE, radius) + _dots(at[panel.targets], RED, radius)


def _dots(at: np.ndarray, color: str, radius: float) -> str:
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in at)
    return f'<g fill="{color}" stroke="#ffffff" stroke-width="1.3">{circles}</g>'


def _lines(pairs: Iterable[np.ndarray], at: np.ndarray, color: str, width: float) -> str:
    """Each pair of nodes once, whichever way it goes."""
    once = sorted({(min(u, v), max(u, v)) for u, v in (map(int, pair) for pair in pairs)})
    path = "".join(f"M{at[u][0]:.1f} {at[u][1]:.1f}L{at[v][0]:.1f} {at[v][1]:.1f}" for u, v in once)
    return f'<path d="{path}" stroke="{color}" stroke-width="{width}" stroke-linecap="round"/>' if path else ""


def _arrow(start: np.ndarray, stop: np.ndarray, radius: float, color: str, bend: float = 0.0) -> str:
    """From the rim of a node to that of another; nothing if they are too near for one."""
    delta = stop - start
    if np.hypot(*delta) < 2 * radius + 4:
        return ""
    middle = (start + stop) / 2 + bend * np.array([delta[1], -delta[0]])
    first, last = (
        end + (radius + 2) * (middle - end) / max(float(np.hypot(*(middle - end))), 1e-9) for end in (start, stop)
    )
    curve = f"M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} {last[0]:.1f} {last[1]:.1f}"
    stroke = INK if color == "ink" else SOFT
    return f'<path d="{curve}" fill="none" stroke="{stroke}" stroke-width="1.7" marker-end="url(#{color})"/>'


def _ground(group: np.ndarray, at: np.ndarray, edges: np.ndarray, color: str, radius: float) -> str:
    """A soft ground under nodes and the edges among them."""
    inside = np.isin(edges[0], group) & np.isin(edges[1], group)
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.8 * radius:.1f}"/>' for x, y in at[group])
    return f'<g fill="{color}">{circles}</g>' + _lines(edges[:, inside].T, at, color, round(3.4 * radius, 1))


def _text(
    x: float, y: float, text: str, size: int, color: str = INK, bold: bool = False, anchor: str = "middle"
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )


def _heading(x: float, y: float, text: str) -> str:
    return f'<g transform="translate({x:.1f} {y:.1f}) rotate(-90)">{_text(0, 0, text, 15, bold=True)}</g>'
