"""The page in a real browser: ``make test-browser``."""

from __future__ import annotations

import base64
import csv
import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from browser import CHROMIUM, Browser, wait_for
from handful.files import write_text
from handful.report.page import render
from made_records import SAMPLERS, findings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed; `make test-browser` installs it"),
]
SHOTS = os.environ.get("HANDFUL_SCREENSHOTS")
"""A folder to keep pictures of the page in, for people to look at."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_text(path, render(findings(), "Everything", {"old/finding.json": "this finding has format 1"}))
    return path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile"), tmp_path_factory.mktemp("downloads")) as one:
        yield one


@pytest.fixture
def browser(shared: Browser) -> Iterator[Browser]:
    yield shared
    assert shared.problems == []
    assert all(address.startswith(("file:", "data:", "blob:", "about:")) for address in shared.asked)


def open_page(browser: Browser, page: Path, width: int = 1100, **look: object) -> None:
    browser.look(width, **look)  # type: ignore[arg-type]
    browser.open(page)
    browser.until("document.documentElement.dataset.ready === 'yes'")


def shoot(browser: Browser, name: str) -> None:
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"report-{name}.png")


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("light", 1100, False), ("dark", 1100, True), ("phone", 390, False)]
)
def test_every_chart_is_drawn_and_nothing_overflows(
    browser: Browser, page: Path, name: str, width: int, dark: bool
) -> None:
    open_page(browser, page, width, dark=dark)
    shoot(browser, name)
    shown = "[...document.querySelectorAll('.plot')].filter(p => p.offsetParent)"
    marks = browser.ask(f"{shown}.map(p => p.querySelectorAll('[role=graphics-symbol]').length)")
    assert len(marks) > 15
    assert min(marks) > 0
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert "NaN" not in browser.ask("[...document.querySelectorAll('svg')].map(s => s.outerHTML).join('')")
    ground = browser.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(ground) < 150) == dark
    outside = browser.ask(
        f"{shown}.filter(p => p.querySelector('svg').getBoundingClientRect().right > "
        "p.closest('figure').getBoundingClientRect().right + 1).length"
    )
    assert outside == 0
    names = browser.ask(f"{shown}.map(p => p.parentElement.querySelector('[role=graphics-document]')?.ariaLabel)")
    assert "ogbn-arxiv: through training: epochs" in names
    assert all(names)
    hints = browser.ask(
        "[...document.querySelectorAll('.card')].map(c => [c.querySelector('.hint'), "
        "c.querySelector('.scroll')]).filter(([h, s]) => h).map(([h, s]) => "
        "(getComputedStyle(h).visibility === 'visible') === (s.scrollWidth > s.clientWidth + 1))"
    )
    assert all(hints)


def test_what_a_person_sees_first(browser: Browser, page: Path) -> None:
    open_page(browser, page, 400)
    shoot(browser, "400")
    top = "(e => e.getBoundingClientRect().top)"
    first = "document.querySelector('#finding-1')"
    assert browser.ask(f"{top}({first}.querySelector('.words')) < {top}({first}.querySelector('table'))")
    smoke = "document.querySelector('#finding-2')"
    assert browser.ask(f"{top}({smoke}.querySelector('.banner')) < {top}({smoke}.querySelector('.words'))")
    folded = "[...document.querySelectorAll('details.how')]"
    assert browser.ask(f"{folded}.length") >= 2
    assert browser.ask(f"{folded}.every(d => !d.open && !d.querySelector('dl').checkVisibility())")
    wide = f"[...{first}.querySelectorAll('.card')].find(c => c.querySelector('.scroll').scrollWidth > 500)"
    assert browser.ask(f"getComputedStyle({wide}.querySelector('.hint')).visibility") == "visible"
    titles = browser.ask("[...document.querySelectorAll('h1, h2, h3, figcaption')].map(e => e.textContent)")
    assert len(set(titles)) == len(titles)  # each once


def test_print_is_light_without_buttons(browser: Browser, page: Path) -> None:
    open_page(browser, page, 800, dark=True, media="print")
    if SHOTS:
        pdf = browser.call("Page.printToPDF", printBackground=True)["data"]
        (Path(SHOTS) / "report-print.pdf").write_bytes(base64.b64decode(pdf))
    assert browser.ask("getComputedStyle(document.querySelector('figcaption')).color") == "rgb(27, 34, 48)"
    assert browser.ask("getComputedStyle(document.querySelector('.tools')).display") == "none"
    label = "document.querySelector('.plot .role-axis-label text')"
    assert browser.ask(f"getComputedStyle({label}).fill") == "rgb(93, 102, 120)"


def test_the_button_turns_light_into_dark_and_back_with_the_charts(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    inks = (
        "[getComputedStyle(document.body).color, "
        "getComputedStyle(document.querySelector('.plot .role-axis-label text')).fill]"
    )
    before = browser.ask(inks)
    after = browser.ask(f"(document.getElementById('theme').click(), {inks})")
    assert after[0] != before[0]
    assert after[1] != before[1]
    assert browser.ask(f"(document.getElementById('theme').click(), {inks})") == before


CURVES = "[...document.querySelectorAll('figure')].find(f => f.textContent.includes('ogbn-arxiv: through'))"
VIEW = f"{CURVES}.querySelector('.view:not([hidden])')"


def test_buttons_of_a_chart_change_what_it_shows(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    lines = f"{VIEW}.querySelectorAll('.mark-line path').length"
    assert browser.ask(lines) == len(SAMPLERS)
    browser.ask(f"{VIEW}.querySelector('.legend button').click()")
    browser.until(f"{lines} === {len(SAMPLERS) - 1}")
    press = "[...{}.querySelectorAll('.switch')].find(b => b.textContent === '{}').click()"
    for name, label in (("seconds", "seconds of training"), ("loss", "training loss (log)")):
        browser.ask(press.format(CURVES, name))
        browser.until(f"{VIEW}.textContent.includes('{label}')")
        assert browser.ask(f"{CURVES}.querySelectorAll('.view:not([hidden])').length") == 1
        assert browser.ask(f"{CURVES}.querySelector('.switch[aria-pressed=true]').textContent") == name


def test_pointing_tells_the_values(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    browser.ask(f"{CURVES}.scrollIntoView()")
    x, y = browser.ask(
        f"(b => [b.left + b.width / 2, b.top + b.height / 2])({VIEW}.querySelector('.mark-symbol path:last-of-type')"
        ".getBoundingClientRect())"
    )
    browser.move(x, y)
    browser.until("document.querySelector('#vg-tooltip-element.visible') !== null")
    tip = browser.ask("document.querySelector('#vg-tooltip-element').innerText")
    for part in ("epoch", "validation accuracy", "range", " to "):
        assert part in tip
    shoot(browser, "tip")


def test_downloads_are_files(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    open_page(browser, page, dark=True)
    for kind in ("svg", "png", "csv"):
        browser.ask(f"{CURVES}.querySelector('[data-save={kind}]').click()")
    svg = wait_for(tmp_path / "samplers-curves.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "var(--" not in svg
    assert "Neighbour sampling" in svg  # a file has its own legend
    assert "ogbn-arxiv: through training" in svg
    image = pytest.importorskip("PIL.Image")
    with image.open(wait_for(tmp_path / "samplers-curves.png")) as picture:
        assert picture.width > 1100
        assert picture.getpixel((5, 5))[:3] == (255, 255, 255)  # light, whatever the page is
        assert len(picture.getcolors(1 << 20)) > 100
    with wait_for(tmp_path / "samplers-curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["series"] for row in rows} >= {"RNS", "Full graph"}
    assert len(rows) == 3 * len(SAMPLERS) * 8
    browser.ask("document.querySelector('#finding-1 a[download]').click()")
    assert "RNS,72.50 ± 0.40,12.0,1.00" in wait_for(tmp_path / "samplers-1.csv").read_text(encoding="utf-8")
    panels = "[...document.querySelectorAll('figure.wide')][0]"
    browser.ask(f"{panels}.querySelector('[data-save=svg]').click()")
    assert "Gradient norm" in wait_for(tmp_path / "terms.svg").read_text(encoding="utf-8")


def test_the_source_of_a_table_can_be_copied(browser: Browser, page: Path) -> None:
    open_page(browser, page)
    browser.ask("document.querySelector('.sources summary').click()")
    assert browser.ask("document.querySelector('.sources pre').offsetHeight > 50")
    browser.ask("document.querySelector('.sources .copy').click()")
    browser.until("document.querySelector('.sources .copy').textContent === 'copied'")
