"""A chart as a Vega-Lite specification: the page draws it in the browser, ``draw`` draws it into a file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import vl_convert

from handful.errors import HandfulError
from handful.files import write_aside
from handful.finding import Axis, Chart, Finding, Mark, Series, View

COLORS = {
    "ink": ("#1b2230", "#e7eaf1"),
    "soft": ("#5d6678", "#a3acbd"),
    "faint": ("#8b93a3", "#7a8498"),
    "grid": ("#e9ecf2", "#262d3b"),
    "card": ("#ffffff", "#171c27"),
    "c0": ("#2859c5", "#7aa2ff"),
    "c1": ("#e0701a", "#ff9d4d"),
    "c2": ("#2f9e5f", "#5fd08f"),
    "c3": ("#a64ca6", "#d98be0"),
    "c4": ("#c23b4b", "#ff7b89"),
    "c5": ("#8a6d3b", "#cfae74"),
    "c6": ("#2a9db0", "#5fd0e0"),
    "c7": ("#b58a00", "#e8c547"),
    "c8": ("#5b6472", "#aab4c5"),
    "c9": ("#d6558f", "#ff9cc8"),
}
"""Light and dark. A specification has the light ones; the page puts the variables of its style in their place."""
INK, SOFT, FAINT, GRID, CARD, *PALETTE = (light for light, _ in COLORS.values())
FORMATS = ("svg", "png", "pdf")
FEW = 24
"""A line with at most so many points shows them."""
LETTER = 7.0
"""The width of a letter in pixels, about."""
PHONE = 270
"""The width of a plot on a phone."""
WIDTH, HEIGHT = 560, 280
TICK = (
    "datum.value == 0 || (abs(datum.value) >= 0.001 && abs(datum.value) < 1e6) "
    "? format(datum.value, ',.6~r') : format(datum.value, '.3~e')"
)
"""A tick as text."""
MOST_TICKS = 7
PANEL_WIDTH, PANEL_HEIGHT = 210, 150
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""


def shared() -> dict[str, Any]:
    """What every specification has: the look, the names of hidden series, and the width of the page's plot if known."""
    axis = {"labelColor": SOFT, "titleColor": SOFT, "titleFontWeight": "normal", "labelFontSize": 12, "tickSize": 0}
    return {
        "background": CARD,
        "padding": 12,
        "params": [{"name": "hidden", "value": []}, {"name": "across", "value": 0}],
        "config": {
            "font": "system-ui, -apple-system, Segoe UI, DejaVu Sans, Helvetica, Arial, sans-serif",
            "view": {"stroke": None},
            "axis": {**axis, "titleFontSize": 12, "gridColor": GRID, "domainColor": FAINT, "labelPadding": 6},
            "legend": {"labelColor": INK, "labelFontSize": 12, "titleColor": SOFT},
            "title": {"color": INK, "subtitleColor": SOFT, "fontSize": 14, "subtitleFontSize": 12, "anchor": "start"},
        },
    }


def spec(drawn: Chart | View, width: int = WIDTH) -> dict[str, Any]:
    """The specification of a view, of the first view of a chart, or of all panels of a chart whose views are together.

    >>> view = View("loss", "line", Axis("epoch"), Axis("loss", log=True), [Series("RNS", [1, 2], [3.0, 0.3])])
    >>> spec(view)["layer"][0]["encoding"]["y"]["axis"]["title"]
    ['loss (log)']
    """
    if isinstance(drawn, View):
        return {**shared(), **view_spec(drawn, width=width), "title": drawn.name}
    if not drawn.together:
        return {**shared(), **view_spec(drawn.views[0], drawn, width)}
    panels = [view_spec(view, drawn) for view in drawn.views]
    title = {"text": drawn.title, "offset": 16}
    return {**shared(), "title": title, "columns": panel_columns(len(panels)), "concat": panels}


def panel_columns(panels: int) -> int:
    """How many panels stand side by side.

    >>> [panel_columns(n) for n in (1, 2, 3, 4, 5, 8)]
    [1, 2, 3, 2, 3, 4]
    """
    return panels if panels <= 3 else 2 if panels == 4 else 4 if panels in (7, 8) or panels > 9 else 3


def view_spec(view: View, chart: Chart | None = None, width: int = WIDTH) -> dict[str, Any]:
    """A view without what is ``shared``: titled as a panel if the views of its chart are together."""
    view = _named_categories(view)
    together = chart is not None and chart.together
    panels = chart.views if chart is not None and together else []
    width, height = (PANEL_WIDTH, PANEL_HEIGHT) if together else (width, HEIGHT)
    title: dict[str, Any] = {"text": wrap(view.name, 34), "fontSize": 13, "fontWeight": "normal"}
    if chart is not None and not together:
        title = {"text": wrap(chart.title, int(width / 7)), "offset": 12}
        if len(chart.views) > 1:
            title["subtitle"] = view.name
    alike = [one for one in panels if one.y == view.y and view.y.label] or [view]
    x, y = _axis(view, "x", width), _axis(replace(view, series=[s for one in alike for s in one.series]), "y", width)
    if not y["axis"]["title"] and any(one.y.label or one.y.log for one in panels):
        y["axis"]["title"] = [" "]  # so that the titles of a row of panels stand in line
    names = list(dict.fromkeys(series.name for series in view.series))
    layers: list[dict[str, Any]] = []
    legend = _legend(view, width) if legend_of(view) else None
    for mark in dict.fromkeys(series.mark or view.mark for series in view.series):
        own = [series for series in view.series if (series.mark or view.mark) == mark]
        layers.append(_layers(view, mark, own, x, y, legend))
        legend = None
    if view.mark == "bar" and "×" in view.y.label:
        rule = {"type": "rule", "stroke": FAINT, "strokeDash": [4, 4], "tooltip": None}
        layers.append({"data": {"values": [{"y": 1}]}, "mark": rule, "encoding": {"y": y | {"field": "y"}}})
    if _labelled(view):
        layers += _labels(view, x, y)
    if _crowded(view):
        offset = {"field": "name", "type": "nominal", "scale": {"domain": names, "paddingInner": 0.15}}
        for layer in layers:
            if "layer" in layer:
                layer["encoding"]["xOffset"] = offset
    described = f"{chart.title}: {view.name}" if chart is not None else view.name
    return {"description": described, "title": title, "width": width, "height": height, "layer": layers}


def legend_of(view: View) -> list[tuple[str, str, bool]]:
    """The name and colour of each series of a view, and whether it is the paper's; empty where no legend is needed."""
    view = _named_categories(view)
    own = all(set(series.x) <= {series.name} for series in view.series)
    if len(view.series) < 2 or own or _labelled(view):
        return []
    return list(dict.fromkeys((series.name, _color(series), series.paper) for series in view.series))


def draw(drawn: Chart | View, path: Path) -> None:
    """Draw what ``spec`` specifies into ``path``, in the format of its suffix: svg, png or pdf.

    Raises:
        HandfulError: it is another format.
    """
    write_svg(vl_convert.vegalite_to_svg(spec(drawn)), path)


def write_svg(svg: str, path: Path) -> None:
    """Put the picture ``svg`` into ``path``, in the format of its suffix: svg, png or pdf.

    Raises:
        HandfulError: it is another format.
    """
    kind = path.suffix.lstrip(".").lower()
    if kind == "svg":
        write_aside(path, lambda aside: aside.write_text(svg, encoding="utf-8"))
    elif kind in FORMATS:
        data = vl_convert.svg_to_png(svg, scale=2) if kind == "png" else vl_convert.svg_to_pdf(svg)
        write_aside(path, lambda aside: aside.write_bytes(data))
    else:
        raise HandfulError(f"a picture must end in .{', .'.join(FORMATS)}; got '{path.name}'")


def write_charts(finding: Finding, folder: Path, kind: str = "svg") -> list[Path]:
    """Draw every chart of ``finding`` into ``folder``: ``NAME.svg`` its first view, ``NAME-VIEW.svg`` the others."""
    written = []
    for chart in finding.charts:
        for i, view in enumerate(chart.views[:1] if chart.together else chart.views):
            shown = replace(chart, views=[view, *(v for v in chart.views if v is not view)])
            written.append(folder / f"{chart.name}{f'-{slug(view.name)}' if i else ''}.{kind}")
            draw(shown, written[-1])
    return written


def slug(text: str) -> str:
    """``text`` as a part of the name of a file.

    >>> slug("ogbn-arxiv: R(w)")
    'ogbn-arxiv-r-w'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "chart"


# -- layers -----------------------------------------------------------------------------------------------------------


def _layers(
    view: View, mark: Mark, series: Sequence[Series], x: dict[str, Any], y: dict[str, Any], legend: Any
) -> dict[str, Any]:
    """The series of one kind of mark: spread below, marks above."""
    rows = [row for one in series for row in _rows(view, one, gaps=mark == "line")]
    spread = any("low" in row or "high" in row for row in rows)
    known_end = {end: f"isValid(datum.{end})" + f" && datum.{end} > 0" * view.y.log for end in ("low", "high")}
    hue = {"field": "hue", "type": "nominal", "scale": None}
    y_from = y | {"field": "from"}
    layers: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    if spread and mark == "line":
        area = {"type": "area", "fillOpacity": 0.15, "tooltip": None}
        layers.append({"mark": area, "encoding": {"y": y_from, "y2": {"field": "to"}, "fill": hue}})
    elif spread:
        color: dict[str, Any] = {"value": INK} if mark == "bar" else hue
        rule = {"type": "rule", "strokeWidth": 1.4, "tooltip": None}
        bars.append({"mark": rule, "encoding": {"y": y_from, "y2": {"field": "to"}, "stroke": color}})
        cap = {"type": "tick", "orient": "horizontal", "size": 9, "thickness": 1.4, "opacity": 1, "tooltip": None}
        bars += [
            {"transform": [{"filter": known}], "mark": cap, "encoding": {"y": y | {"field": end}, "fill": color}}
            for end, known in known_end.items()
        ]
    unique = {one.name: one for one in view.series}
    names = list(unique)
    strokes = {"domain": names, "range": [_color(one) for one in unique.values()]}
    fills = {"domain": names, "range": [CARD if one.paper else _color(one) for one in unique.values()]}
    named = {"field": "name", "type": "nominal", "legend": legend}
    dashes = {"domain": names, "range": [[3, 2] if one.paper else [1, 0] for one in unique.values()]}
    dash = {"strokeDash": named | {"scale": dashes}} if any(one.paper for one in view.series) else {}
    main = {"stroke": named | {"scale": strokes}, "fill": named | {"scale": fills}, "tooltip": _tooltip(view)}
    if mark == "line":
        line = {"type": "line", "strokeWidth": 2, "strokeJoin": "round", "tooltip": None}
        detail = {"field": "name", "type": "nominal"}
        layers.append({"mark": line, "encoding": {"detail": detail, "stroke": hue, **dash}})
        few = all(len(one.x) <= FEW for one in series)
        layers.append({"mark": {"type": "point", "size": 34, "opacity": 1 if few else 0}, "encoding": main})
        if any(one.best is not None for one in series):
            ring = {"type": "point", "size": 150, "strokeWidth": 2, "filled": False, "opacity": 1, "tooltip": None}
            layers.append({"transform": [{"filter": "datum.best"}], "mark": ring, "encoding": {"stroke": hue}})
    elif mark == "dot":
        layers += [*bars, {"mark": {"type": "point", "size": 80, "opacity": 1, "strokeWidth": 2}, "encoding": main}]
    else:
        bar: dict[str, Any] = {"type": "bar", "orient": "vertical", "strokeWidth": 1.2, "cornerRadius": 1}
        if not view.x.of:
            bar["size"] = 14
        base = {"y2": {"datum": y["scale"]["domain"][0] if view.y.log else 0}}
        layers += [{"mark": bar, "encoding": main | base | dash}, *bars]
    shown = [{"filter": "indexof(hidden, datum.name) < 0"}]
    if spread:  # an end that is not known, or not above 0 on a log scale, is not drawn
        shown += [
            {"calculate": f"{known} ? datum.{end} : datum.y", "as": to}
            for (end, known), to in zip(known_end.items(), ("from", "to"), strict=True)
        ]
        texts = [f"(isValid(datum.{end}) ? format(datum.{end}, ',.5~g') : '?')" for end in ("low", "high")]
        either = "isValid(datum.low) || isValid(datum.high)"
        both = " + ' to ' + ".join(texts)
        shown.append({"calculate": f"{either} ? {both} : 'one value'", "as": "span"})
    return {
        "data": {"values": rows},
        "transform": shown,
        "encoding": {"x": x, "y": y},
        "layer": layers,
    }


def _rows(view: View, series: Series, gaps: bool) -> list[dict[str, Any]]:
    """A row for each point. ``gaps`` keeps a place without a number, where a line breaks."""
    rows = []
    for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        if not (view.x.of or _shown(x, view.x.log)):
            continue
        row: dict[str, Any] = {"name": series.name, "hue": _color(series), "x": x}
        if _shown(y, view.y.log):
            ends = {"low": series.low[i] if series.low else None, "high": series.high[i] if series.high else None}
            rows.append(row | {"y": y} | {end: value for end, value in ends.items() if value is not None})
            if i == series.best:
                rows[-1]["best"] = True
        elif gaps:
            rows.append(row | {"y": None})
    return rows


def _tooltip(view: View) -> list[dict[str, Any]]:
    shown = [{"field": "name", "type": "nominal", "title": "series"}]
    kind = {"type": "nominal"} if view.x.of else {"type": "quantitative", "format": ",.6~g"}
    shown.append({"field": "x", "title": view.x.label or "at", **kind})
    shown.append({"field": "y", "title": view.y.label or view.name, "type": "quantitative", "format": ",.5~g"})
    if any(series.low or series.high for series in view.series):
        shown.append({"field": "span", "type": "nominal", "title": "range"})
    return shown


def _legend(view: View, width: int) -> dict[str, Any]:
    longest = max(len(series.name) for series in view.series)
    symbol = "square" if view.mark == "bar" else "circle"
    across = max(1, min(len(view.series), int(width / (longest * LETTER + 34))))
    if across > 1 and any(series.paper for series in view.series):
        across -= across % 2  # the paper's beside ours
    style = {"symbolType": symbol, "symbolOpacity": 1, "symbolSize": 80, "symbolStrokeWidth": 2, "labelLimit": 0}
    return {"orient": "bottom", "title": None, "columns": across, "offset": 14, **style}


def _labels(view: View, x: dict[str, Any], y: dict[str, Any]) -> list[dict[str, Any]]:
    """The name of each series beside its only point, where it covers no other point, bar or name.

    A page is as wide as its reader has it, and what stands close together on a phone is apart on a screen: a place is
    as good as it is at both widths.
    """
    rows = [row for one in view.series for row in _rows(view, one, gaps=False)]
    taken: dict[int, list[Box]] = {width: [] for width in (PHONE, WIDTH)}
    sides = []
    for row in rows:
        ends = [row["y"], *(row[end] for end in ("low", "high") if _shown(row.get(end), view.y.log))]
        low, py, high = (HEIGHT - _place(value, y["scale"], HEIGHT) for value in (min(ends), row["y"], max(ends)))
        for width, boxes in taken.items():
            px = _place(row["x"], x["scale"], width)
            boxes += [(px - 7, py - 7, px + 7, py + 7), (px - 5, high, px + 5, low)]
        sides.append([*_SIDES, ("center", 0, round(high - py) - 10), ("center", 0, round(low - py) + 10)])
    placed: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for row, own in zip(rows, sides, strict=True):
        where = {side: _beside(row, side, x, y) for side in own}
        costs = {side: sum(_cost(box, width, taken[width]) for width, box in where[side].items()) for side in own}
        best = own[0]
        for side in own[1:]:
            best = side if costs[side] < costs[best] - 1 else best
        for width, box in where[best].items():
            taken[width].append(box)
        placed.setdefault(best, []).append(row)
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "text", "align": align, "dx": dx, "dy": dy, "fontSize": 12, "fill": INK, "tooltip": None},
            "encoding": {"x": x, "y": y, "text": {"field": "name", "type": "nominal"}},
        }
        for (align, dx, dy), rows in placed.items()
    ]


_SIDES = [("left", 10, 0), ("right", -10, 0), ("center", 0, -15), ("center", 0, 16)]
_SIDES += [(align, dx, dy) for dy in (-14, 14, -26, 26) for align, dx in (("left", 8), ("right", -8))]
"""Where the name of a point may stand; above and below its bar are others."""


def _beside(row: dict[str, Any], side: tuple[str, int, int], x: dict[str, Any], y: dict[str, Any]) -> dict[int, Box]:
    """What the name of a point covers on this side of it, by the width of the plot."""
    (align, dx, dy), long = side, len(row["name"]) * LETTER
    top = HEIGHT - _place(row["y"], y["scale"], HEIGHT) + dy - 7
    boxes = {}
    for width in (PHONE, WIDTH):
        left = _place(row["x"], x["scale"], width) + dx - {"left": 0, "center": long / 2, "right": long}[align]
        boxes[width] = (left, top, left + long, top + 14)
    return boxes


def _cost(box: Box, width: int, taken: list[Box]) -> float:
    """How much of a name is outside the plot, or on something else."""
    left, top, right, bottom = box
    outside = max(0, -left) + max(0, right - width) + max(0, -top) + max(0, bottom - HEIGHT)
    return outside * 14 + sum(_overlap(box, other) for other in taken)


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _place(value: float, scale: dict[str, Any], length: float) -> float:
    bend = math.log if scale["type"] == "log" else float
    value, low, high = (bend(number) for number in (value, *scale["domain"]))
    return length * (value - low) / (high - low)


# -- what a view is ---------------------------------------------------------------------------------------------------


def _named_categories(view: View) -> View:
    """Series of one point each in one and the same category: their names are the categories."""
    if len(view.x.of) != 1 or len(view.series) < 2 or any(len(series.x) != 1 for series in view.series):
        return view
    names = [series.name for series in view.series]
    return replace(view, x=replace(view.x, of=names), series=[replace(one, x=[one.name]) for one in view.series])


def _labelled(view: View) -> bool:
    """Whether names stand beside points instead of in a legend."""
    several = len(view.series) > 1 and not view.x.of and view.mark == "dot"
    return several and all(len(series.x) == 1 and series.mark in (None, "dot") for series in view.series)


def _crowded(view: View) -> bool:
    """Whether a category holds points of several series, which then stand side by side."""
    places = [place for series in view.series for place in set(series.x)]
    return bool(view.x.of) and len(places) > len(set(places))


def _color(series: Series) -> str:
    return PALETTE[series.color % len(PALETTE)]


def _shown(value: Any, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


# -- axes -------------------------------------------------------------------------------------------------------------


def _axis(view: View, which: str, width: int) -> dict[str, Any]:
    """The position channel: its scale with a domain, and its axis with ticks and their labels."""
    axis: Axis = getattr(view, which)
    title = [axis.label] if axis.label else []
    if axis.log and not (which == "x" and axis.ticks):
        title = [f"{axis.label} (log)".strip()]
    look: dict[str, Any] = {"title": wrap(title[0], max(28, int(width / 7))) if title else None, "grid": which == "y"}
    if which == "y":
        look |= {"titleAngle": 0, "titleAlign": "left", "titleAnchor": "end", "titleX": 0, "titleY": -10}
        look |= {"titleBaseline": "bottom", "domain": False}
    if axis.of:
        return {"field": which, "type": "nominal", "scale": _bands(view), "axis": look | _category_labels(axis.of)}
    low, high = domain(view, which)
    scale = {"type": "log" if axis.log else "linear", "domain": [low, high], "nice": False}
    scale |= {} if axis.log else {"zero": False}
    look |= {"tickCount": 6, "labelExpr": TICK, "labelOverlap": True}
    ticks = _log_ticks(low, high) if axis.log else []
    if axis.ticks:
        look["values"] = axis.ticks
    elif axis.whole and high - low < 8:
        look["values"] = list(range(math.ceil(low), math.floor(high) + 1))
    elif ticks:
        look["values"] = ticks
    return {"field": which, "type": "quantitative", "scale": scale, "axis": look}


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 times them where few lie in the range; nothing where even these are fewer than two.

    >>> _log_ticks(0.03, 4), _log_ticks(3, 2e7), _log_ticks(1.1, 1.9)
    ([0.05, 0.1, 0.2, 0.5, 1.0, 2.0], [10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0, 10000000.0], [])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for sizes, step in (((1, 2, 5), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        ticks = [float(f"{size}e{p}") for p in powers if p % step == 0 for size in sizes]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks if len(ticks) > 1 else []


def _bands(view: View) -> dict[str, Any]:
    """Categories in their order; few bars are not wide, and the bars of a category stand close to each other."""
    if _crowded(view):
        inner = 0.3
    elif view.mark == "bar":
        inner = max(0.3, 1 - 0.12 * len(view.x.of))
    else:
        inner = 0.0
    return {"type": "band", "domain": view.x.of, "paddingInner": inner, "paddingOuter": inner / 2}


def _category_labels(names: Sequence[str]) -> dict[str, Any]:
    """In lines where there is room, otherwise slanted."""
    lines = [wrap(name, 14) or [""] for name in names]
    room = len(names) * (max(len(line) for name in lines for line in name) * LETTER + 12)
    slanted = f"(across || width) < {room:.0f}"
    found = f"{json.dumps(lines, ensure_ascii=False)}[indexof({json.dumps(names, ensure_ascii=False)}, datum.value)]"
    return {
        "labelExpr": f"{slanted} ? datum.label : {found}",
        "labelAngle": {"expr": f"{slanted} ? -32 : 0"},
        "labelAlign": {"expr": f"{slanted} ? 'right' : 'center'"},
        "labelBaseline": {"expr": f"{slanted} ? 'middle' : 'top'"},
        "labelLimit": 150,
        "labelOverlap": False,
        "domain": True,
    }


def domain(view: View, which: str) -> tuple[float, float]:
    """The ends of an axis of numbers, a little beyond what it shows; bars stand on 0, or below the lowest if log."""
    axis: Axis = getattr(view, which)
    values = [float(tick) for tick in axis.ticks]
    for series in view.series:
        ends: list[list[Any]] = [series.x] if which == "x" else [series.y, series.low, series.high]
        values += [float(value) for end in ends for value in end if _shown(value, axis.log)]
    bars = which == "y" and any((series.mark or view.mark) == "bar" for series in view.series)
    values += [1.0] if bars and "×" in axis.label else []
    values += [0.0] if (bars or axis.zero) and not axis.log else []
    low, high = min(values, default=1.0), max(values, default=10.0)
    if axis.log:
        pad = max(1.05, (high / low) ** 0.06)
        return low / (max(1.6, pad**3) if bars else pad), high * pad
    pad = 0.06 * (high - low or abs(high) or 1)
    if axis.whole and high - low < 4:  # room for two whole numbers
        return math.floor(low - pad), math.ceil(high + pad)
    flat = bars or axis.zero
    return (low if flat and low == 0 else low - pad), (high if flat and high == 0 else high + pad)
