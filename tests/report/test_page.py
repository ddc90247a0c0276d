from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import handful.report
from handful.files import seal, write_json
from handful.finding import Cell, Table
from handful.report.page import read_findings, render, write_finding
from made_records import findings, regimes, samplers

WICKED = "</script><script>alert(1)</script>"


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


def test_the_page_is_whole(tmp_path: Path) -> None:
    text = render(findings(), "Everything")
    page = Page(text)
    assert page.open == []
    assert all(link.startswith(("#finding-", "data:text/csv")) for link in page.links)
    assert text.count("<figure") == 11
    assert str(tmp_path) not in text  # no paths of this machine
    assert page.texts["h1"] == ["Everything"]


def test_one_finding_names_its_title_once_and_leads_with_its_words() -> None:
    text = render([samplers()], "")
    body = text[text.index("<body>") : text.index('<script type="application/json"')]
    page = Page(body)
    assert page.texts["h1"] == ["ogbn-arxiv · 40 epochs"]
    assert [title for title in page.texts["h3"] if title.strip()] == ["Beside the paper", "What differs"]
    assert body.index("RNS is +0.23") < body.index("<table")
    assert "<nav" not in body
    assert "smoke run" not in body


def test_every_table_comes_in_latex_markdown_and_csv() -> None:
    text = render([samplers()], "").split('<script type="module">')[0]
    pre = "".join(Page(text + "</body></html>").texts["pre"])
    assert r"RNS & \textbf{72.50 $\pm$ 0.40} & 12.0 & 1.00 \\" in pre
    assert "| RNS | **72.50 ± 0.40** | 12.0 | 1.00 |" in pre
    assert text.count("<table>") * 2 == text.count("<pre>")
    assert text.count("<table>") == text.count("data:text/csv")


def test_a_smoke_run_and_what_failed_are_said() -> None:
    text = render([samplers(facts={"budget": "smoke"}, failed=("gat: no memory",))], "")
    assert "A smoke run: it shows that the study works, its numbers mean nothing." in text
    assert "gat: no memory" in text
    assert text.index("A smoke run") < text.index('class="words"')  # before anybody reads a number


def test_what_all_were_made_with_stands_once() -> None:
    same = {"torch": "2.13.0"}
    two = [samplers(environment=same), samplers(environment=same, name="other")]
    assert render(two, "Two").count("<dt>torch</dt>") == 1
    assert render([two[0], samplers(environment={"torch": "1"})], "Two").count("<dt>torch</dt>") == 2


def test_texts_cannot_break_the_page() -> None:
    chart = regimes()
    series = [*chart.views[0].series]
    object.__setattr__(series[0], "name", WICKED)
    object.__setattr__(chart, "title", WICKED)
    text = render([samplers(title=WICKED, tables=[Table(WICKED, [WICKED], [[Cell(WICKED)]])], charts=[chart])], "")
    assert "<script>alert" not in text
    assert Page(text).open == []
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["charts"][0]["title"] == WICKED


def test_a_finding_is_a_folder_and_comes_back(tmp_path: Path) -> None:
    one = samplers(charts=[regimes()])
    write_finding(one, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"finding.json", "samplers.json", "table.md", "report.html", "regimes.svg"}
    (back,), unreadable = read_findings(tmp_path)
    assert unreadable == {}
    assert back == replace(one, payload={})
    assert "| RNS | **72.50 ± 0.40**" in (tmp_path / "table.md").read_text(encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_finding(one, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_one_that_cannot_be_read_does_not_cost_the_page(tmp_path: Path) -> None:
    write_finding(samplers(charts=[]), tmp_path / "good")
    for name, text in (("old", '{"study": "parts", "title": "t"}'), ("broken", "{"), ("list", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "finding.json").write_text(text)
    found, unreadable = read_findings(tmp_path)
    assert [finding.name for finding in found] == ["samplers"]
    assert list(unreadable) == ["broken/finding.json", "list/finding.json", "old/finding.json"]
    assert "format 1" in unreadable["old/finding.json"]
    text = render(found, "Some", unreadable)
    assert "old/finding.json" in text
    assert "run the command that made it again" in text


def test_everything_below_a_folder_is_found(tmp_path: Path) -> None:
    for i, finding in enumerate(findings()):
        write_json(tmp_path.joinpath(*"abc"[: i % 3], finding.name, "finding.json"), seal(finding.to_json()))
    found, unreadable = read_findings(tmp_path)
    assert unreadable == {}
    assert {one.name: one for one in found} == {one.name: replace(one, payload={}) for one in findings()}


def test_the_report_knows_findings_and_nothing_else() -> None:
    known = ("finding", "vocabulary", "files", "errors", "report", "version")
    allowed = tuple(f"handful.{name}" for name in known)
    for file in Path(handful.report.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name == "handful" or not name.startswith("handful") or name.startswith(allowed), (file, name)
                assert not name.startswith(("matplotlib", "torch"))
