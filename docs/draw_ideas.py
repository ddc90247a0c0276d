"""Draws the three pictures of ``how-it-works.md``: ``python docs/draw_ideas.py``.

Each function returns an SVG as text. Colours work on light and dark pages.
"""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).parent / "img"
COLOURS = ("#4c78a8", "#f58518", "#54a24b")
GREY, LINE = "#888888", "#999999"


def svg(width: int, height: int, *shapes: str) -> str:
    """A picture of these shapes."""
    page = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {page}>'
    arrow = (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>'
    )
    return "\n".join([head, arrow, *shapes, "</svg>"]) + "\n"


def circle(x: float, y: float, colour: str, text: str = "", empty: bool = False) -> str:
    """A node; an ``empty`` one is dashed."""
    style = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="4 3"' if empty else f'fill="{colour}"'
    return f'<circle cx="{x}" cy="{y}" r="15" {style}/>' + label(x, y + 5, text, colour if empty else "#ffffff")


def line(x: float, y: float, to_x: float, to_y: float, dashed: bool = False, arrow: bool = False) -> str:
    """An edge."""
    more = ' stroke-dasharray="4 3"' if dashed else ""
    more += ' marker-end="url(#end)"' if arrow else ""
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{LINE}" stroke-width="2"{more}/>'


def label(x: float, y: float, text: str, colour: str = GREY, anchor: str = "middle") -> str:
    """A text."""
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{text}</text>'


def box(x: float, y: float, width: float, text: str, colour: str) -> str:
    """A box with a text."""
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="40" rx="6" fill="none" stroke="{colour}" stroke-width="2"/>'
    return shape + label(x + width / 2, y + 25, text, colour)


def mean_field() -> str:
    """A node in the full graph, in its part, and in its part with the mean-field neighbour."""
    around = [(-70, -45), (-70, 45), (70, -45), (70, 45)]
    inside = [True, False, False, True]
    shapes = []
    for panel, title in enumerate(("full graph", "part: two neighbours are missing", "part + mean-field neighbour")):
        x, y = 125 + 260 * panel, 90
        for (dx, dy), here in zip(around, inside, strict=True):
            if here or panel == 0:
                shapes += [line(x, y, x + dx, y + dy), circle(x + dx, y + dy, COLOURS[0] if here else COLOURS[1])]
            elif panel == 1:
                shapes += [line(x, y, x + dx, y + dy, dashed=True), circle(x + dx, y + dy, GREY, empty=True)]
        if panel == 2:
            shapes += [line(x, y, x, y + 75), circle(x, y + 75, COLOURS[2], "μ")]
        shapes += [circle(x, y, COLOURS[0], "v"), label(x, 215, title)]
    return svg(770, 230, *shapes)


def one_pass() -> str:
    """The edge list is read once; an edge stays if both ends are in one part."""
    edges = [(0, 0), (0, 1), (1, 1), (2, 2), (2, 0), (1, 2), (2, 2), (0, 0)]
    shapes = [label(20, 30, "all edges, read once per epoch; colours are the parts of the two ends", anchor="start")]
    slots = [0, 0, 0]
    for place, (a, b) in enumerate(edges):
        x = 40 + 90 * place
        kept = a == b
        shapes += [line(x, 70, x + 40, 70, dashed=not kept), circle(x, 70, COLOURS[a]), circle(x + 40, 70, COLOURS[b])]
        if kept:
            at = 90 + 250 * a + 90 * slots[a]
            slots[a] += 1
            shapes.append(line(x + 20, 92, at + 20, 158, arrow=True))
            shapes += [line(at, 180, at + 40, 180), circle(at, 180, COLOURS[a]), circle(at + 40, 180, COLOURS[a])]
    shapes += [label(155 + 250 * part, 225, f"part {part + 1}", COLOURS[part]) for part in range(3)]
    return svg(770, 240, *shapes)


def loop() -> str:
    """The steps of an epoch."""
    names = ("split into m parts", "cut one part", "forward, backward", "step", "evaluate")
    shapes = []
    for place, name in enumerate(names):
        x, colour = 10 + 152 * place, COLOURS[0] if 0 < place < 4 else COLOURS[1]
        shapes.append(box(x, 60, 136, name, colour))
        if place:
            shapes.append(line(x - 16, 80, x, 80, arrow=True))
    for path in ("M534,60 V30 H230 V58", "M686,100 V135 H78 V102"):
        shapes.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="2" marker-end="url(#end)"/>')
    shapes += [label(382, 22, "for each part"), label(382, 155, "next epoch: a new random split")]
    return svg(770, 170, *shapes)


PICTURES = {"mean-field": mean_field, "one-pass": one_pass, "loop": loop}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
