from __future__ import annotations

import io

import pytest
from rich.console import Console

from handful.finding import Cell, Table
from handful.report.tables import MATH, PLAIN, csv, latex, latex_text, markdown, rich_table

TABLE = Table(
    "ogbn-arxiv · 5 seeds",
    ["Method", "Test (%)", "Seconds"],
    [[Cell("RNS"), Cell("72.51 ± 0.19", 1), Cell("1,0")], [Cell("Full"), Cell("72.28", 2), Cell("2")]],
)


def test_markdown_marks_ranks_and_keeps_bars_apart() -> None:
    lines = ["| Method | Test (%) | Seconds |", "| --- | ---: | ---: |", "| RNS | **72.51 ± 0.19** | 1,0 |"]
    assert markdown(TABLE).splitlines()[:3] == lines
    assert markdown(Table("", ["|α|"], [])).startswith(r"| \|α\| |")


def test_csv_quotes_commas() -> None:
    assert csv(TABLE).splitlines()[1] == 'RNS,72.51 ± 0.19,"1,0"'


def test_a_terminal_shows_every_cell() -> None:
    out = io.StringIO()
    Console(file=out, width=100).print(rich_table(TABLE))
    for text in ("ogbn-arxiv · 5 seeds", "Test (%)", "72.51 ± 0.19", "Full"):
        assert text in out.getvalue()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("72.51 ± 0.19", r"72.51 $\pm$ 0.19"),
        ("Test (%)", r"Test (\%)"),
        ("L_full − L̄", r"L\_full $-$ $\bar{L}$"),
        ("Var(L̂_k)", r"Var($\hat{L}$\_k)"),
        ("‖∇L̄‖²", r"$\|$$\nabla$$\bar{L}$$\|$$^2$"),
        (r"a\b & {c}", r"a\textbackslash{}b \& \{c\}"),
        ("1.77×", r"1.77$\times$"),
        ("", ""),
    ],
)
def test_signs_become_mathematics_and_the_rest_is_escaped(text: str, expected: str) -> None:
    assert latex_text(text) == expected


def test_no_sign_that_is_known_is_left() -> None:
    assert latex_text("".join([*MATH, *PLAIN, "L̄", "L̃"])).isascii()


def test_latex_has_rules_ranks_and_a_column_for_each_name() -> None:
    lines = latex(TABLE).splitlines()
    assert lines[3] == r"\begin{tabular}{lrr}"
    assert r"\caption{ogbn-arxiv $\cdot$ 5 seeds}" in lines
    assert r"RNS & \textbf{72.51 $\pm$ 0.19} & 1,0 \\" in lines
    assert r"Full & \textit{72.28} & 2 \\" in lines
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert all(line.count(" & ") == 2 for line in lines if line.endswith(r"\\"))
