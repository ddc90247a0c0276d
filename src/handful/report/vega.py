"""Convert a chart to a Vega-Lite specification. The HTML page draws the specification in the browser; ``draw`` draws it
into a file.

``assets/chart.json`` contains the common style of all charts. This module adds the data, the scales and the titles.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template
from textwrap import wrap
from typing import Any

import vl_convert

from handful.errors import HandfulError
from handful.files import write_aside
from handful.finding import Axis, Chart, Finding, Mark, Series, View

ASSETS = files("handful.report") / "assets"
COLORS: dict[str, list[str]] = json.loads((ASSETS / "colors.json").read_text(encoding="utf-8"))
"""The light and the dark value of each colour, by name. A specification uses the light colours, and the page replaces
them by CSS variables.
"""
LIGHT = {name: light for name, (light, _) in COLORS.items()}
PALETTE = [*LIGHT.values()][5:]
TEXT = Template((ASSETS / "chart.json").read_text(encoding="utf-8"))
LOOK: dict[str, dict[str, Any]] = json.loads(TEXT.substitute(LIGHT))
SHARED = LOOK["shared"]
"""The part that all specifications share: the style, and parameters for the names of the hidden series and the width of
the plot.
"""
FORMATS: dict[str, Callable[[str], bytes]] = {
    "svg": str.encode,
    "png": partial(vl_convert.svg_to_png, scale=2),
    "pdf": vl_convert.svg_to_pdf,
}
"""For each file suffix, the function that converts SVG text to the bytes of the file."""
FEW = 24
"""A line with at most this many points is drawn with a dot at each point."""
LETTER = 7.0
"""The approximate width of a letter in pixels."""
WIDTH, HEIGHT = 560, 280
PANEL_WIDTH, PANEL_HEIGHT = 210, 150
MOST_TICKS = 7


def spec(chart: Chart) -> dict[str, Any]:
    """The specification of a chart. It shows all views if they are panels, otherwise only the first view.

    >>> view = View("loss", "line", Axis("epoch"), Axis("loss", log=True), [Series("RNS", [1, 2], [3.0, 0.3])])
    >>> spec(Chart("curves", "Training", [view]))["layer"][0]["encoding"]["y"]["axis"]["title"]
    ['loss (log)']
    """
    if not chart.together:
        return {**SHARED, **view_spec(chart.views[0], chart)}
    panels = [view_spec(view, chart) for view in chart.views]
    title = {"text": chart.title, "offset": 16}
    return {**SHARED, "title": title, "columns": panel_columns(len(panels)), "concat": panels}


def panel_columns(panels: int) -> int:
    """The number of panels per row, if there are ``panels`` panels.

    >>> [panel_columns(n) for n in (1, 2, 3, 4, 5, 8)]
    [1, 2, 3, 2, 3, 4]
    """
    return panels if panels <= 3 else 2 if panels == 4 else 4 if panels in (7, 8) or panels > 9 else 3


def view_spec(view: View, chart: Chart) -> dict[str, Any]:
    """The specification of one view of ``chart``, without the part ``SHARED``."""
    view = _named_categories(view)
    if chart.together:
        width, height, panels = PANEL_WIDTH, PANEL_HEIGHT, chart.views
        title: dict[str, Any] = {"text": wrap(view.name, 34), "fontSize": 13, "fontWeight": "normal"}
    else:
        width, height, panels = WIDTH, HEIGHT, [view]
        title = {"text": wrap(chart.title, int(width / 7)), "offset": 12}
        title |= {"subtitle": view.name} if len(chart.views) > 1 else {}
    legend = _legend(view, width) if legend_of(view) else None
    shared = {"description": f"{chart.title}: {view.name}", "title": title, "width": width, "height": height}
    if view.mark == "star":
        return {**shared, "layer": _star(view, legend)}
    alike = [one for one in panels if one.y == view.y and view.y.label] or [view]
    x, y = _axis(view, "x", width), _axis(replace(view, series=[s for one in alike for s in one.series]), "y", width)
    if not y["axis"]["title"] and any(one.y.label or one.y.log for one in panels):
        y["axis"]["title"] = [" "]  # so that the titles of a row of panels are aligned
    layers = []
    for mark in dict.fromkeys(series.mark or view.mark for series in view.series):
        layers.append(_series_layer(view, mark, x, y, legend))
        legend = None
    if view.mark == "bar" and "×" in view.y.label:
        layers.append(_layer("one", y=y))
    return {**shared, "layer": layers}


def legend_of(view: View) -> list[tuple[str, str, bool]]:
    """The legend of a view: for each series its name, its colour, and whether its numbers are from the paper. The
    result is empty if no legend is needed.
    """
    view = _named_categories(view)
    if len(view.series) < 2 or all(set(series.x) <= {series.name} for series in view.series):
        return []
    return list(dict.fromkeys((series.name, _color(series), series.paper) for series in view.series))


def draw(chart: Chart, path: Path) -> None:
    """Draw ``spec(chart)`` into the file ``path``. The suffix of the file determines the format: ``svg``, ``png`` or
    ``pdf``.

    Raises:
        HandfulError: the file has none of these suffixes.
    """
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise HandfulError(f"a picture must end in .{', .'.join(FORMATS)}; got '{path.name}'")
    write_aside(path, lambda aside: aside.write_bytes(FORMATS[kind](vl_convert.vegalite_to_svg(spec(chart)))))


def write_charts(finding: Finding, folder: Path) -> None:
    """Draw every chart of ``finding`` into files in ``folder``: the first view, or all panels, as ``NAME.svg``. Each
    other view is drawn as ``NAME-VIEW.svg``.
    """
    for chart in finding.charts:
        for i, view in enumerate(chart.views[:1] if chart.together else chart.views):
            shown = replace(chart, views=[view, *(v for v in chart.views if v is not view)])
            draw(shown, folder / f"{chart.name}{f'-{slug(view.name)}' if i else ''}.svg")


def slug(text: str) -> str:
    """Convert ``text`` to lower-case words with hyphens, for a file name.

    >>> slug("ogbn-arxiv: R(w)")
    'ogbn-arxiv-r-w'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "chart"


# -- layers -----------------------------------------------------------------------------------------------------------


def _layer(name: str, **encoding: Any) -> dict[str, Any]:
    """The layer ``name`` of ``chart.json``, with the additional encodings ``encoding``."""
    layer = LOOK["layers"][name]
    return {**layer, "encoding": {**layer.get("encoding", {}), **encoding}}


def _series_layer(view: View, mark: Mark, x: dict[str, Any], y: dict[str, Any], legend: Any) -> dict[str, Any]:
    """The Vega layer for all series with the mark ``mark``, including their error bars or bands."""
    series = [one for one in view.series if (one.mark or view.mark) == mark]
    styles = {
        one.name: (_color(one), LIGHT["card"] if one.paper else _color(one), [3, 2] if one.paper else [1, 0])
        for one in view.series
    }
    stroke, fill, dashes = (_by_name(styles, style, legend) for style in zip(*styles.values(), strict=True))
    dash = {"strokeDash": dashes} if any(one.paper for one in view.series) else {}
    main = {"stroke": stroke, "fill": fill, "tooltip": _tooltip(view)}
    spread = any(one.low or one.high for one in series)
    color = {"value": LIGHT["ink"]} if mark == "bar" else {"field": "hue", "type": "nominal", "scale": None}
    # If an end of an error bar is unknown, the bar ends at the point itself, without a cap.
    whiskers = [_layer("range", stroke=color), _layer("from", fill=color), _layer("to", fill=color)] if spread else []
    if mark == "line":
        dots = "few" if all(len(one.x) <= FEW for one in series) else "many"
        layers = [*([_layer("band")] if spread else []), _layer("line", **dash), _layer(dots, **main)]
        layers += [_layer("ring")] if any(one.best is not None for one in series) else []
    elif mark == "dot":
        layers = [*whiskers, _layer("dot", **main)]
    else:
        base = {"y2": {"datum": y["scale"]["domain"][0] if view.y.log else 0}}
        layers = [_layer("bar", **main, **base, **dash), *whiskers]
    encoding = {"x": x, "y": y}
    if _crowded(view):
        beside = {"domain": list(styles), "paddingInner": 0.15}
        encoding["xOffset"] = {"field": "name", "type": "nominal", "scale": beside}
    return {
        "data": {"values": [row for one in series for row in _rows(view, one, gaps=mark == "line")]},
        "transform": [{"filter": "indexof(hidden, datum.name) < 0"}],
        "encoding": encoding,
        "layer": layers,
    }


def _by_name(names: Iterable[str], values: Iterable[Any], legend: Any) -> dict[str, Any]:
    """The encoding that maps the name of a series to a value, such as its colour."""
    scale = {"domain": list(names), "range": list(values)}
    return {"field": "name", "type": "nominal", "legend": legend, "scale": scale}


def _star(view: View, legend: Any) -> list[dict[str, Any]]:
    """The layers of a star: the edges, the neighbours around the node, and the node."""
    values = [row for one in view.series for row in _rows(view, one)]
    most, colors = max(abs(row["y"]) for row in values), {one.name: _color(one) for one in view.series}
    for row in values:
        row |= {"turn": view.x.of.index(row["x"]) / len(view.x.of), "share": abs(row["y"]) / (most or 1)}
        row["lines"] = wrap(row["x"], 16)[:3]
    fill = _by_name(colors, colors.values(), legend)
    marks = [_layer("edge"), _layer("neighbour", fill=fill, tooltip=_tooltip(view)), _layer("neighbour name")]
    node = {"data": {"values": [{"lines": wrap(view.x.label, 16)}]}}
    around = _layer("star") | {"data": {"values": values}, "layer": marks}
    return [around, *(_layer(name) | node for name in ("centre", "behind the name", "centre name"))]


def _rows(view: View, series: Series, gaps: bool = False) -> list[dict[str, Any]]:
    """The data of a series: a row for each point. If ``gaps``, a missing number also has a row, so that a line has a
    gap there.

    In a row, ``low`` and ``high`` are the values of the series, and ``from`` and ``to`` are the ends of the error bar
    as it is drawn.
    """
    rows = []
    unknown = [None] * len(series.x)
    points = zip(series.x, series.y, series.low or unknown, series.high or unknown, strict=True)
    for i, (x, y, low, high) in enumerate(points):
        row: dict[str, Any] = {"name": series.name, "hue": _color(series), "x": x}
        ends = {end: value for end, value in (("low", low), ("high", high)) if value is not None}
        if not (view.x.of or _shown(x, view.x.log)):
            continue
        if _shown(y, view.y.log):
            shown = [end if _shown(end, view.y.log) else y for end in (low, high)]
            span = " to ".join("?" if end is None else f"{end:,.5g}" for end in (low, high)) if ends else "one value"
            row |= {"y": y, **ends, "from": shown[0], "to": shown[1], "span": span}
            rows.append(row | ({"best": True} if i == series.best else {}))
        elif gaps:
            rows.append(row | {"y": None})
    return rows


def _tooltip(view: View) -> list[dict[str, Any]]:
    text, number = {"type": "nominal"}, {"type": "quantitative", "format": ",.6~g"}
    return [
        {"field": "name", "title": "series", **text},
        {"field": "x", "title": view.x.label or "at", **(text if view.x.of else number)},
        {"field": "y", "title": view.y.label or view.name, **number, "format": ",.5~g"},
        *([{"field": "span", "title": "range", **text}] if any(one.low or one.high for one in view.series) else []),
    ]


def _legend(view: View, width: int) -> dict[str, Any]:
    across = max(1, min(len(view.series), int(width / (max(len(series.name) for series in view.series) * LETTER + 34))))
    if across > 1 and any(series.paper for series in view.series):
        across -= across % 2  # the series of the paper is beside ours
    return LOOK["legend"] | {"columns": across, "symbolType": "square" if view.mark == "bar" else "circle"}


# -- properties of views ----------------------------------------------------------------------------------------------


def _named_categories(view: View) -> View:
    """If each series has one point, and all points are in the same category, use the names of the
    series as categories.
    """
    if len(view.x.of) != 1 or len(view.series) < 2 or any(len(series.x) != 1 for series in view.series):
        return view
    names = [series.name for series in view.series]
    return replace(view, x=replace(view.x, of=names), series=[replace(one, x=[one.name]) for one in view.series])


def _crowded(view: View) -> bool:
    """Whether several series have points in the same category. Such points are drawn side by side."""
    places = [place for series in view.series for place in set(series.x)]
    return bool(view.x.of) and len(places) > len(set(places))


def _color(series: Series) -> str:
    return PALETTE[series.color % len(PALETTE)]


def _shown(value: Any, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


# -- axes -------------------------------------------------------------------------------------------------------------


def _axis(view: View, which: str, width: int) -> dict[str, Any]:
    """The Vega-Lite position channel for the axis ``which``: the scale with its domain, and the axis with its ticks and
    labels.
    """
    axis: Axis = getattr(view, which)
    log = axis.log and not (which == "x" and axis.ticks)
    title = wrap(f"{axis.label} (log)".strip() if log else axis.label, max(28, int(width / 7)))
    look = LOOK[which] | {"title": title or None}
    if axis.of:
        return {"field": which, "type": "nominal", "scale": _bands(view), "axis": look | _category_labels(axis.of)}
    low, high = domain(view, which)
    kind = {"type": "log"} if axis.log else {"type": "linear", "zero": False}
    ticks = axis.ticks
    if not ticks and axis.whole and high - low < 8:
        ticks = list(range(math.ceil(low), math.floor(high) + 1))
    elif not ticks and axis.log:
        ticks = _log_ticks(low, high)
    look |= LOOK["numbers"] | ({"values": ticks} if ticks else {})
    scale = {**kind, "domain": [low, high], "nice": False}
    return {"field": which, "type": "quantitative", "scale": scale, "axis": look}


def _log_ticks(low: float, high: float) -> list[float]:
    """The ticks of a log axis: powers of ten and, if there is room, 2 and 5 times the powers of ten. The result is
    empty if fewer than two ticks are in the range.

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
    """The scale of an axis of categories. The padding keeps bars narrow if there are only a few bars, and keeps the
    bars of a category together.
    """
    alone = max(0.3, 1 - 0.12 * len(view.x.of)) if view.mark == "bar" else 0.0
    inner = 0.3 if _crowded(view) else alone
    return {"type": "band", "domain": view.x.of, "paddingInner": inner, "paddingOuter": inner / 2}


def _category_labels(names: Sequence[str]) -> dict[str, Any]:
    """The label settings of an axis of categories. Labels have several lines if there is room; otherwise they are
    slanted.
    """
    lines = [wrap(name, 14) or [""] for name in names]
    room = len(names) * (max(len(line) for name in lines for line in name) * LETTER + 12)
    slanted = f"(across || width) < {room:.0f}"
    result = f"{json.dumps(lines, ensure_ascii=False)}[indexof({json.dumps(names, ensure_ascii=False)}, datum.value)]"
    places = {"labelAngle": "-32 : 0", "labelAlign": "'right' : 'center'", "labelBaseline": "'middle' : 'top'"}
    moved = {name: {"expr": f"{slanted} ? {either}"} for name, either in places.items()}
    return LOOK["categories"] | moved | {"labelExpr": f"{slanted} ? datum.label : {result}"}


def domain(view: View, which: str) -> tuple[float, float]:
    """The lower and upper end of a numeric axis, with padding. Bars start at 0. On a log scale, they start below the
    lowest value.
    """
    axis: Axis = getattr(view, which)
    fields = ("x",) if which == "x" else ("y", "low", "high")
    given = [value for one in view.series for name in fields for value in getattr(one, name)]
    values = [*axis.ticks, *(float(value) for value in given if _shown(value, axis.log))]
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
