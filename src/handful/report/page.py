"""A self-contained HTML page: no network, light and dark, readable on a phone and in print."""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numba
import torch

import handful
from handful.files import write_text
from handful.kernels.threads import get_threads
from handful.report.tables import Cell

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --soft: #667; --line: #d8dce4; --best: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaf0; --paper: #14171f; --soft: #9aa; --line: #333a48; --best: #6fd6ae; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
       max-width: 60rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .2rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0 0 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { padding: .45rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--soft); }
b.first { color: var(--best); } figure { margin: 0; background: #fff; border-radius: .5rem; padding: .5rem; }
figure svg { width: 100%; height: auto; display: block; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .2rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; } }
"""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, as HTML."""

    title: str
    body: str


def table_html(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table, best and second best marked."""
    marks = {0: ("", ""), 1: ('<b class="first">', "</b>"), 2: ("<i>", "</i>")}
    lines = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
    for row in rows:
        cells = "".join(f"<td>{marks[c.rank][0]}{html.escape(c.text)}{marks[c.rank][1]}</td>" for c in row)
        lines.append(f"<tr>{cells}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def figure_html(svg: Path, alt: str) -> str:
    """A picture inside the page; an SVG has nothing to fetch."""
    text = re.sub(r"^.*?(?=<svg)", "", svg.read_text(encoding="utf-8"), flags=re.DOTALL)
    return f'<figure role="img" aria-label="{html.escape(alt)}">{text}</figure>'


def facts_html(facts: dict[str, str]) -> str:
    """Names and values, one pair a line."""
    return "<dl>" + "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def environment() -> dict[str, str]:
    """What the numbers were made with."""
    return {
        "handful": handful.__version__,
        "torch": torch.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {get_threads()} threads",
    }


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Put the page into ``path``."""
    body = "".join(f"<section><h2>{html.escape(s.title)}</h2>{s.body}</section>" for s in sections)
    write_text(
        path,
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f'<body><h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>{body}</body></html>\n',
    )
