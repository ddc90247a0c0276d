"""Tables in LaTeX, with the rules of booktabs: best in bold, second best in italics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handful.report.tables import Cell

PLAIN = {
    "\\": r"\textbackslash{}",
    **{char: "\\" + char for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "…": r"\ldots{}",
    "ö": r"\"o",
    "ü": r"\"u",
}
MATH = {
    "±": r"\pm",
    "×": r"\times",
    "·": r"\cdot",
    "−": "-",
    "≠": r"\neq",
    "≥": r"\geq",
    "≤": r"\leq",
    "∝": r"\propto",
    "∇": r"\nabla",
    "‖": r"\|",
    "|": "|",
    "<": "<",
    ">": ">",
    "Δ": r"\Delta",
    "α": r"\alpha",
    "σ": r"\sigma",
    "²": "^2",
    "ᵖ": "^p",
    "→": r"\to",
}
ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar"}
SIGNS = re.compile(rf"(?:\w[{''.join(ACCENTS)}]|[{re.escape(''.join(MATH))}])")
MARKS = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\textit{{{}}}"}


def latex_text(text: str) -> str:
    """``text`` for LaTeX: its special characters escaped, its signs as mathematics.

    >>> latex_text("72.51 ± 0.19 %")
    '72.51 $\\\\pm$ 0.19 \\\\%'
    """
    out, at = [], 0
    for match in SIGNS.finditer(text):
        out.append(_escaped(text[at : match.start()]))
        sign = match[0]
        formula = MATH[sign] if sign in MATH else rf"\{ACCENTS[sign[1]]}{{{sign[0]}}}"
        out.append(f"${formula}$")
        at = match.end()
    return "".join([*out, _escaped(text[at:])])


def latex_table(head: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """The table as a float; the document needs ``\\usepackage{booktabs}``."""
    lines = [" & ".join(map(latex_text, head)) + r" \\", r"\midrule"]
    lines += [" & ".join(MARKS[cell.rank].format(latex_text(cell.text)) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(PLAIN.get(char, char) for char in text)
