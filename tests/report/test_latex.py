from __future__ import annotations

import pytest

from handful.report.latex import MATH, PLAIN, latex_table, latex_text
from handful.report.tables import Cell


@pytest.mark.parametrize(
    ("text", "latex"),
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
def test_signs_become_mathematics_and_the_rest_is_escaped(text: str, latex: str) -> None:
    assert latex_text(text) == latex


def test_no_sign_that_is_known_is_left() -> None:
    assert latex_text("".join([*MATH, *PLAIN, "L̄", "L̃"])).isascii()


def test_a_table_has_rules_ranks_and_a_column_for_each_name() -> None:
    rows = [[Cell("RNS"), Cell("72.51 ± 0.19", 1), Cell("1")], [Cell("Full"), Cell("72.28", 2), Cell("2")]]
    lines = latex_table(["Method", "Test (%)", "Seconds"], rows, "ogbn-arxiv · 5 seeds").splitlines()
    assert lines[3] == r"\begin{tabular}{lrr}"
    assert r"\caption{ogbn-arxiv $\cdot$ 5 seeds}" in lines
    assert r"RNS & \textbf{72.51 $\pm$ 0.19} & 1 \\" in lines
    assert r"Full & \textit{72.28} & 2 \\" in lines
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert all(line.count(" & ") == 2 for line in lines if line.endswith(r"\\"))
