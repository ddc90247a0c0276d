from __future__ import annotations

from io import StringIO

import pytest

from handful.notebook import Bar, html_table


def test_what_a_user_wrote_is_text_and_not_html() -> None:
    assert "<td>a &lt; b</td>" in html_table("t", {"rule": "a < b"})


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_of_80_columns_that_is_drawn_anew() -> None:
    stream = Terminal()
    bar = Bar(40, "epochs", stream)
    for done in range(41):
        bar.show(done, "loss 0.123 · best " + "x" * 90)
    bar.end()
    lines = stream.getvalue().split("\r")
    assert 2 < len(lines) <= 43
    assert "━━━ 40/40 epochs · loss 0.123" in lines[-1]
    assert all(len(line.split("\x1b")[0]) <= 80 for line in lines)
    assert stream.getvalue().count("\n") == 1


def test_a_file_gets_the_last_line_alone() -> None:
    stream = StringIO()
    bar = Bar(2, "epochs", stream)
    for done in range(3):
        bar.show(done, f"loss {done}")
    bar.end()
    assert stream.getvalue() == "2/2 epochs · loss 2\n"


@pytest.mark.slow
def test_a_notebook_has_a_bar_and_tables() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = (
        "import handful as hf\ngraph = hf.load('synthetic?nodes=200&degree=4')\ngraph",
        "hf.fit('sage', graph, hf.RandomNodes(2), options={'hidden': 8, 'layers': 2}, epochs=3, progress=True)",
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, kernel_name="python3", timeout=300).execute()
    shown = [[out["data"]["text/html"] for out in cell["outputs"] if "data" in out] for cell in book.cells]
    assert "<caption>Graph synthetic</caption>" in shown[0][0]
    assert '<progress value="3" max="3">' in shown[1][0]
    assert "<caption>Run</caption>" in shown[1][1]
