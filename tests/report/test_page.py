from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import handful.cli.report  # noqa: F401  (adds the command)
from handful.cli.app import app
from handful.report.page import beside_paper, write_report
from handful.report.tables import Cell
from made_records import payloads, write_everything, write_samplers, write_study


class Page(HTMLParser):
    """The tags of a page that are still open, its links, and its text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href") and value]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_is_whole_and_asks_the_network_for_nothing(tmp_path: Path) -> None:
    written = write_report(write_everything(tmp_path))
    text = written.path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert all(link.startswith("#record-") for link in page.links)
    assert re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert (written.records, written.charts) == (16, text.count("<figure"))
    assert str(tmp_path) not in text  # no paths of this machine


def test_every_table_comes_in_latex_and_markdown(tmp_path: Path) -> None:
    text = write_report(write_samplers(tmp_path)).path.read_text(encoding="utf-8")
    pre = "".join(Page(text).texts["pre"])
    assert r"rns & \textbf{72.50 $\pm$ 0.40} & 12.0 & 1.00 \\" in pre
    assert "| rns | **72.50 ± 0.40** | 12.0 | 1.00 |" in pre
    assert text.count("<table>") * 2 == text.count("<pre>")


def test_configuration_seeds_and_environment_stand_at_the_end(tmp_path: Path) -> None:
    text = write_report(write_samplers(tmp_path)).path.read_text(encoding="utf-8")
    end = text[text.index("<h2>Configuration</h2>") : text.index("<footer>")]
    facts = "".join(Page(end).texts["dd"])
    for fact in ("42, 123", "ogbn-arxiv", "laptop", "sage", "0.01"):
        assert fact in facts
    assert "rns (parts = 4)" in "".join(Page(end).texts["td"])  # the samplers differ: they are in a table
    assert "<dt>torch</dt>" in end


def test_texts_of_records_cannot_break_the_page(tmp_path: Path) -> None:
    wicked = "</script><script>alert(1)</script>"
    payload = payloads()["parts"] | {"graph": wicked}
    text = write_report(write_study(tmp_path, "parts", payload, wicked, [[Cell(wicked), Cell("1")]])).path.read_text()
    assert "<script>alert" not in text
    assert Page(text).open == []
    data = re.search(r'id="charts">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])[0]["title"].startswith(wicked)


def test_ours_stand_beside_the_papers_for_every_table_of_it(tmp_path: Path) -> None:
    def row(name: str, label: str) -> list[str]:
        found = beside_paper(payloads()[name])
        assert found is not None
        return [cell.text for cells in found[1] if cells[0].text == label for cell in cells[1:]]

    assert row("regimes", "RNS · SGD+M") == ["77.00 ± 0.40", "82.60 ± 0.20"]
    assert row("architectures", "GCN") == ["77.00 ± 0.40", "77.55 ± 0.30", "79.00 ± 0.40", "80.81 ± 0.25"]
    assert row("architectures", "GAT") == ["–", "OOM", "–", "OOM"]
    assert row("graphland", "pokec-regions · RH") == ["50.00", "38.20 ± 0.56", "55.00", "47.79 ± 0.50"]
    assert row("speedup", "90.0%") == ["1.70", "1.77", "6.10", "6.72", "5.20", "6.32", "–", "11.74"]
    assert row("fanout", "30,10") == ["80.00 ± 0.40", "80.21 ± 0.35", "50.00", "58.72", "–", "1.85", "1.00", "10.07"]
    write_samplers(tmp_path)
    found = beside_paper(json.loads((tmp_path / "samplers.json").read_text()))
    assert found is not None
    assert [cell.text for cell in found[1][-1]][:5] == ["RNS", "72.50 ± 0.40", "72.51 ± 0.19", "32.00", "100"]


def test_a_graph_that_the_paper_does_not_have_has_no_such_table(tmp_path: Path) -> None:
    write_samplers(tmp_path, graph="debian")
    assert beside_paper(json.loads((tmp_path / "samplers.json").read_text())) is None
    assert "Beside the paper" not in write_report(tmp_path).path.read_text()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_command_writes_the_page(tmp_path: Path, elsewhere: bool) -> None:
    write_samplers(tmp_path / "in")
    page = tmp_path / "page.html" if elsewhere else tmp_path / "in" / "report.html"
    options = ["--out", str(page)] if elsewhere else []
    result = CliRunner().invoke(app, ["report", str(tmp_path / "in"), *options, "--json"], catch_exceptions=False)
    assert json.loads(result.stdout) == {"path": str(page), "records": 1, "tables": 2, "charts": 2}
    assert page.read_text().startswith("<!doctype html>")
