"""The report: one HTML page that shows findings. The page needs no network, has a light and a dark style, and works on
phones and in print.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from handful.errors import RunError, readable
from handful.files import home, read_bytes, seal, unseal, write_json, write_text
from handful.finding import Chart, Finding
from handful.report.tables import csv, latex, markdown
from handful.report.vega import COLORS, LIGHT, SHARED, legend_of, panel_columns, slug, view_spec, write_charts
from handful.version import __version__

FINDING = "finding.json"
VARIABLES = {light: f"var(--{name})" for name, light in LIGHT.items()}
"""For each light colour, the CSS variable that replaces it on the page. The variable has a light and a dark value."""
TEMPLATES = Environment(loader=PackageLoader("handful.report", "assets"), autoescape=True, undefined=StrictUndefined)
TEMPLATES.trim_blocks = TEMPLATES.lstrip_blocks = True
TEMPLATES.filters |= {"csv": csv, "latex": latex, "markdown": markdown, "slug": slug}


def write_finding(finding: Finding, folder: Path) -> Path:
    """Write a finding to ``folder``: the finding and its payload as JSON, the tables as Markdown, the charts as SVG,
    and the page.

    Returns:
        The path of the page.
    """
    write_json(folder / f"{finding.name}.json", finding.payload)
    texts = [f"# {finding.title}\n", *([f"{finding.words}\n"] if finding.words else [])]
    texts += [f"**{table.title}**\n\n{markdown(table)}" for table in (*finding.tables, *finding.below)]
    write_text(folder / "table.md", "\n".join(texts))
    write_charts(finding, folder)
    page = folder / "report.html"
    write_text(page, render([finding]))
    write_json(folder / FINDING, seal(finding.to_json()))  # last: if it exists, the other files do too
    return page


def read_findings(folder: Path) -> tuple[list[Finding], dict[str, str]]:
    """Read all findings in ``folder`` and its subfolders, without their payloads. Also return an error message for each
    unreadable file.
    """
    findings, unreadable = [], {}
    for file in sorted(folder.rglob(FINDING)):
        try:
            with readable(FINDING, "run the command that made it again", RunError):
                findings.append(Finding.from_json(unseal(json.loads(read_bytes(file)))))
        except RunError as error:
            unreadable[str(file.relative_to(folder))] = str(error)
    return findings, unreadable


def render(findings: Sequence[Finding], title: str = "", unreadable: Mapping[str, str] | None = None) -> str:
    """Render the page as HTML. ``title`` is the title of a page with several findings. A page with a single finding has
    the title of the finding.
    """
    charts: list[dict[str, Any]] = []
    made: dict[tuple[tuple[str, str], ...], list[str]] = {}
    sections = []
    for finding in findings:
        own = [_draw(finding, chart) for chart in finding.charts]
        sections.append((finding, list(enumerate(own, len(charts)))))
        charts += own
        if finding.environment:
            made.setdefault(tuple(finding.environment.items()), []).append(finding.name)
    single = len(findings) == 1 and not unreadable
    paper = any(one.paper for f in findings for chart in f.charts for view in chart.views for one in view.series)
    shown = {"title": findings[0].title if single else title, "single": single, "sections": sections, "made": made}
    data = {"shared": SHARED, "colors": VARIABLES, "charts": charts}
    always = {"colors": COLORS, "data": data, "vega": _vega(), "version": __version__}
    page = TEMPLATES.get_template("page.html.jinja")
    return page.render(**shown, **always, unreadable=unreadable or {}, paper=paper)


def _draw(finding: Finding, chart: Chart) -> dict[str, Any]:
    """Convert a chart to the data that the template and the script of the page need."""
    stem = slug(chart.name if chart.name == finding.name else f"{finding.name}-{chart.name}")
    views = []
    for i, view in enumerate(chart.views):
        file = stem + (f"-{slug(view.name)}" if i and not chart.together else "")
        legend = [(name, VARIABLES[color], paper) for name, color, paper in legend_of(view)]
        drawn = {"axes": [view.x.label, view.y.label], "spec": view_spec(view, chart)}
        views.append({"name": view.name, "file": file, "legend": legend, **drawn})
    return {"title": chart.title, "together": chart.together, "columns": panel_columns(len(views)), "views": views}


@cache
def _vega() -> Markup:
    """The JavaScript code that draws charts in a browser. Making this bundle takes seconds, so it is
    cached in a file.
    """
    kept = home() / f"vega-{version('vl-convert-python')}.js"
    try:
        made = kept.read_text(encoding="utf-8")
    except OSError:
        made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
        with suppress(OSError):  # without a writable folder, the bundle is made again
            write_text(kept, made)
    return Markup(made.replace("</script", "<\\/script"))
