"""Format tables for a terminal, Markdown, LaTeX and CSV. The best value is bold and the second best is in italics,
except in CSV.
"""

from __future__ import annotations

import io
import json
import re
from csv import writer
from importlib.resources import files

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from handful.finding import Table

LATEX = json.loads((files("handful.report") / "assets" / "latex.json").read_text(encoding="utf-8"))
PLAIN, MATH, ACCENTS = (LATEX[kind] for kind in ("escapes", "signs", "accents"))
SIGNS = re.compile(rf"(?:\w[{''.join(ACCENTS)}]|[{re.escape(''.join(MATH))}])")


def markdown(table: Table) -> str:
    """Format a table in Markdown, without its title."""
    marks = {0: "", 1: "**", 2: "*"}
    lines = [table.head, ["---", *["---:"] * (len(table.head) - 1)]]
    lines += [[f"{marks[c.rank]}{c.text}{marks[c.rank]}" for c in row] for row in table.rows]
    return "".join("| " + " | ".join(text.replace("|", r"\|") for text in line) + " |\n" for line in lines)


def rich_table(table: Table) -> RichTable:
    """Format a table for a terminal."""
    styles = {0: "", 1: "bold", 2: "italic"}
    out = RichTable(title=table.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    out.show_header = any(table.head)
    for i, name in enumerate(table.head):
        texts = [row[i].text for row in table.rows if row[i].text]
        numbers = sum(text[0] in "0123456789+-−–" for text in texts) * 2 > len(texts)
        out.add_column(name, justify="right" if i and numbers else "left", no_wrap=i == 0, overflow="fold")
    for row in table.rows:
        out.add_row(*[Text(cell.text, style=styles[cell.rank]) for cell in row])
    return out


def csv(table: Table) -> str:
    """Format a table as comma-separated values, without its title.

    >>> from handful.finding import Cell
    >>> csv(Table("", ["Method", "Seeds"], [[Cell("RNS"), Cell("1, 2")]]))
    'Method,Seeds\\nRNS,"1, 2"\\n'
    """
    out = io.StringIO()
    writer(out, lineterminator="\n").writerows([table.head, *([cell.text for cell in row] for row in table.rows)])
    return out.getvalue()


def latex(table: Table) -> str:
    """Format a table as a LaTeX float with its title as the caption. The document needs ``\\usepackage{booktabs}``."""
    marks = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\textit{{{}}}"}
    head = list(map(latex_text, table.head))
    rows = [[marks[cell.rank].format(latex_text(cell.text)) for cell in row] for row in table.rows]
    lines = [" & ".join(row) + " \\\\\n" for row in (head, *rows)]
    return rf"""\begin{{table}}
\centering
\caption{{{latex_text(table.title)}}}
\begin{{tabular}}{{l{"r" * (len(head) - 1)}}}
\toprule
{lines[0]}\midrule
{"".join(lines[1:])}\bottomrule
\end{{tabular}}
\end{{table}}
"""


def latex_text(text: str) -> str:
    """Convert ``text`` to LaTeX: special characters are escaped, and symbols such as ± are written in math mode.

    >>> latex_text("72.51 ± 0.19 %")
    '72.51 $\\\\pm$ 0.19 \\\\%'
    """

    def formula(match: re.Match[str]) -> str:
        sign = match[0]
        return f"${MATH[sign]}$" if sign in MATH else rf"$\{ACCENTS[sign[1]]}{{{sign[0]}}}$"

    return SIGNS.sub(formula, text.translate(str.maketrans(PLAIN)))
