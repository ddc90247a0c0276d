"""The report: one HTML file for all records in a folder. No network, light and dark, on a phone and in print."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import handful
from handful.files import write_text
from handful.report.charts import LABELS, Chart, charts_of
from handful.report.latex import latex_table
from handful.report.records import Record, Runs, read_records
from handful.report.tables import Cell, markdown, percent

NAMES = {
    "test": "test (%)",
    "full": "full (%)",
    "rns": "RNS (%)",
    "seconds": "seconds",
    "epoch_seconds": "seconds an epoch",
    "gpu_gb": "GPU (GB)",
    "ram_gb": "RAM (GB)",
    "epoch": "epoch time (×)",
    "epochs": "epochs (×)",
    "start": "time (×)",
    "nostart": "without start-up (×)",
}
"""The measures for which the paper has numbers, as a column says them."""


@dataclass(frozen=True)
class Written:
    """What ``write_report`` wrote."""

    path: Path
    records: int
    tables: int
    charts: int


def write_report(folder: Path, path: Path | None = None) -> Written:
    """Write ``report.html`` into ``folder``, or into ``path``, for all that is recorded there."""
    records = read_records(folder)
    charts: list[Chart] = []
    tables = 0
    sections, links = [], []
    for i, record in enumerate(records):
        own = charts_of(record)
        shown = list(_tables(record))
        figures = "".join(_figure(chart, len(charts) + at) for at, chart in enumerate(own))
        charts += own
        tables += len(shown)
        place = f"record-{i}"
        links.append(f'<a href="#{place}">{html.escape(f"{record.name}: {record.title}")}</a>')
        sections.append(
            f'<section id="{place}"><p class="kicker">{html.escape(record.name)}</p>'
            f'<h2>{html.escape(record.title)}</h2><p class="words">{html.escape(record.words)}</p>{"".join(shown)}'
            f'<div class="charts">{figures}</div></section>'
        )
    title = records[0].title if len(records) == 1 else f"{folder.resolve().name}: {len(records)} records"
    body = (
        f'<header><h1>{html.escape(title)}</h1><button type="button" id="theme">light / dark</button></header>'
        '<p class="lead">Best in bold, second best in italics. Charts show more where they are pointed at; '
        "a name in a legend hides and shows its series.</p>"
        + (f"<nav>{''.join(links)}</nav>" if len(links) > 1 else "")
        + "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>"
        + "".join(sections)
        + _how(records)
        + f"<footer>Made by handful {handful.__version__} from the records beside this file.</footer>"
    )
    target = path or folder / "report.html"
    write_text(target, _document(title, body, charts))
    return Written(target, len(records), tables, len(charts))


def _document(title: str, body: str, charts: Sequence[Chart]) -> str:
    assets = files("handful.report") / "assets"
    style, script = ((assets / f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    # A title with "</script>" in it must not end the script.
    data = json.dumps([chart.to_json() for chart in charts], ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f'<body>{body}<script type="application/json" id="charts">{data}</script>'
        f"<script>{script}</script></body></html>\n"
    )


# -- a record ---------------------------------------------------------------------------------------------------------


def _tables(record: Record) -> Iterator[str]:
    """The study's own table, and ours beside the paper's where the data set is the same."""
    if record.rows:
        yield table_html(record.head, record.rows, record.title)
    beside = beside_paper(record.payload)
    if beside is not None:
        yield "<h3>Beside the paper</h3>" + table_html(*beside, f"{record.title}, beside the paper")


def _figure(chart: Chart, number: int) -> str:
    wide = ' class="wide"' if chart.wide else ""
    return f'<figure{wide} data-chart="{number}"><figcaption>{html.escape(chart.title)}</figcaption></figure>'


def _how(records: Sequence[Record]) -> str:
    """Configuration and seeds of every record, then what they were made with, once where that is the same."""
    out = "<h2>Configuration</h2>"
    made: dict[str, list[str]] = {}
    for record in records:
        shared, head, rows = configurations(record.runs)
        seeds = sorted({seed for runs in record.runs for seed in runs.seeds})
        facts = record.asked | shared | ({"seeds": ", ".join(map(str, seeds))} if seeds else {})
        name = f"{record.name}: {record.title}"
        out += f"<h3>{html.escape(name)}</h3>{facts_html(facts)}"
        if rows:
            out += table_html(head, rows, f"{name}, configurations")
        environment = record.environment or environment_of(record.runs)
        if environment:
            made.setdefault(facts_html(environment), []).append(record.name)
    out += "<h2>Made with</h2>"
    for listed, names in made.items():
        out += (f"<h3>{html.escape(', '.join(names))}</h3>" if len(made) > 1 else "") + listed
    return out


def configurations(runs: Sequence[Runs]) -> tuple[dict[str, str], list[str], list[list[Cell]]]:
    """What all runs have in common, and a table of what differs between them."""
    all_ = [one.configuration() for one in runs]
    names = list(dict.fromkeys(name for config in all_ for name in config))
    differ = [name for name in names if len({config.get(name, "") for config in all_}) > 1]
    shared = {name: all_[0][name] for name in names if name not in differ}
    if not differ:
        return shared, [], []
    rows = [
        [Cell(one.title), *(Cell(config.get(name, "–")) for name in differ)]
        for one, config in zip(runs, all_, strict=True)
    ]
    return shared, ["Run", *differ], rows


def environment_of(runs: Sequence[Runs]) -> dict[str, str]:
    """What the runs say of where they ran."""
    found: dict[str, list[str]] = {}
    for one in runs:
        for config in one.configs:
            for name, value in config.get("environment", {}).items():
                found.setdefault(name, []).append(str(value))
    return {name: ", ".join(dict.fromkeys(values)) for name, values in found.items()}


# -- the paper --------------------------------------------------------------------------------------------------------


def beside_paper(payload: dict[str, Any]) -> tuple[list[str], list[list[Cell]]] | None:
    """A row for every entry of ``payload`` that has the paper's numbers with it: each of ours, then the paper's."""
    found = [(label, _ours(entry), _paper(entry)) for label, entry in _entries(payload, ())]
    names = [name for name in NAMES if any(name in paper for _, _, paper in found)]
    if not names:
        return None
    head = ["", *(column for name in names for column in (NAMES[name], "paper"))]
    rows = []
    for label, ours, paper in found:
        cells = [Cell(_text(values.get(name))) for name in names for values in (ours, paper)]
        rows.append([Cell(label), *cells])
    return head, rows


def _entries(value: Any, where: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every dict with a ``paper`` in it, named by the texts above and in it."""
    if isinstance(value, list):
        for inner in value:
            yield from _entries(inner, where)
    elif isinstance(value, dict):
        keys = ("dataset", "regime", "optimizer", "model", "sampler", "fanout", "target")
        here = (*where, *(_label(value[key]) for key in keys if key in value and value[key] is not None))
        if value.get("paper"):
            yield " · ".join(here), value
            return
        for key, inner in value.items():
            yield from _entries(inner, (*here, key.upper()) if key in ("rl", "rh") else here)


def _label(value: Any) -> str:
    """A name as people read it; a number is a target."""
    return f"{100 * value:.1f}%" if isinstance(value, float) else LABELS.get(str(value), str(value))


def _ours(entry: dict[str, Any]) -> dict[str, Any]:
    memory = entry.get("peak_memory_bytes") or {}
    return {**entry, **{f"{kind}_gb": size / 1e9 for kind, size in memory.items() if size is not None}}


def _paper(entry: dict[str, Any]) -> dict[str, Any]:
    """The paper's numbers by measure; one that stands alone is of the test metric, and none is out of memory."""
    paper: dict[str, Any] = entry["paper"]
    return {"test": paper} if "mean" in paper else {k: "OOM" if v is None else v for k, v in paper.items()}


def _text(value: Any) -> str:
    """A metric in percent with its interval; anything else as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "ci95" in value:
        return percent(value)
    number = value["mean"] if isinstance(value, dict) else value
    return "–" if number is None or number != number else f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


# -- HTML -------------------------------------------------------------------------------------------------------------


def table_html(head: Sequence[str], rows: Sequence[Sequence[Cell]], title: str) -> str:
    """A table, best and second best marked, with its LaTeX and Markdown."""
    marks = {0: ("", ""), 1: ("<b>", "</b>"), 2: ("<i>", "</i>")}
    lines = []
    for row in rows:
        cells = "".join(f"<td>{marks[c.rank][0]}{html.escape(c.text)}{marks[c.rank][1]}</td>" for c in row)
        lines.append(f"<tr>{cells}</tr>")
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    return (
        f'<div class="card" data-name="{html.escape(title)}"><div class="scroll"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
        f'<div class="sources">{_source("LaTeX", latex_table(head, rows, title))}'
        f"{_source('Markdown', markdown(head, rows))}</div></div>"
    )


def facts_html(facts: dict[str, str]) -> str:
    """Names and values, one pair a line."""
    pairs = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    return f'<dl class="card">{pairs}</dl>'


def _source(name: str, text: str) -> str:
    return f"<details><summary>{name}</summary><pre>{html.escape(text)}</pre></details>"
