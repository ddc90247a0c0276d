"""The report in a real browser: ``make test-browser``."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from browser import CHROMIUM, Browser, wait_for
from handful.report.page import write_report
from made_records import write_everything

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed; `make test-browser` installs it"),
]
SHOTS = os.environ.get("HANDFUL_SCREENSHOTS")
"""A folder to keep pictures of the page in, for people to look at."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_everything(tmp_path_factory.mktemp("records"))).path


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile", tmp_path) as one:
        yield one
        assert one.problems == []
        assert all(address.startswith(("file:", "data:", "blob:", "about:")) for address in one.asked)


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("light", 1100, False), ("dark", 1100, True), ("phone", 390, False)]
)
def test_every_chart_is_drawn_and_nothing_overflows(
    browser: Browser, page: Path, name: str, width: int, dark: bool
) -> None:
    browser.look(width, dark=dark)
    browser.open(page)
    charts = browser.ask("[...document.querySelectorAll('figure')].map(f => f.querySelectorAll('svg .mark').length)")
    assert len(charts) == page.read_text().count("<figure")
    assert min(charts) > 0
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert "NaN" not in browser.ask("document.querySelector('body').innerHTML")
    light = browser.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(light) < 150) == dark
    outside = browser.ask(
        "[...document.querySelectorAll('figure')].filter(f => f.querySelector('svg').getBoundingClientRect().right > "
        "f.getBoundingClientRect().right).length"
    )
    assert outside == 0
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"report-{name}.png")


def test_print_is_light_without_buttons(browser: Browser, page: Path) -> None:
    browser.look(800, dark=True, media="print")
    browser.open(page)
    assert browser.ask("getComputedStyle(document.querySelector('figcaption')).color") == "rgb(27, 34, 48)"
    assert browser.ask("getComputedStyle(document.querySelector('.tools button')).display") == "none"


def test_the_button_turns_light_into_dark_and_back(browser: Browser, page: Path) -> None:
    browser.look(1100)
    browser.open(page)
    ink = "getComputedStyle(document.body).color"
    before = browser.ask(ink)
    assert browser.ask(f"(document.getElementById('theme').click(), {ink})") != before
    assert browser.ask(f"(document.getElementById('theme').click(), {ink})") == before


CURVES = "[...document.querySelectorAll('figure')].find(f => f.textContent.startsWith('ogbn-arxiv: through'))"


def test_buttons_of_a_chart_change_what_it_shows(browser: Browser, page: Path) -> None:
    browser.look(1100)
    browser.open(page)
    lines = f"{CURVES}.querySelectorAll('path.mark').length"
    assert browser.ask(lines) == 6
    browser.ask(f"{CURVES}.querySelector('.legend button').click()")
    assert browser.ask(lines) == 5
    press = "[...{}.querySelectorAll('.tools button')].find(b => b.textContent === '{}').click()"
    browser.ask(press.format(CURVES, "seconds"))
    assert "seconds of training" in browser.ask(f"{CURVES}.querySelector('svg').textContent")
    browser.ask(press.format(CURVES, "loss"))
    flat = browser.ask(f"{CURVES}.querySelector('path.mark').getAttribute('d')")
    browser.ask(press.format(CURVES, "log"))
    assert browser.ask(f"{CURVES}.querySelector('path.mark').getAttribute('d')") != flat


def test_pointing_tells_the_values(browser: Browser, page: Path) -> None:
    browser.look(1100)
    browser.open(page)
    browser.ask(f"{CURVES}.scrollIntoView()")
    x, y = browser.ask(
        f"(b => [b.left + b.width / 2, b.top + 5])({CURVES}.querySelector('circle.mark:last-of-type')"
        ".getBoundingClientRect())"
    )
    browser.move(x, y)
    tip = browser.ask(f"(t => [t.hidden, t.innerText])({CURVES}.querySelector('.tip'))")
    assert tip[0] is False
    assert "epoch: " in tip[1]
    assert tip[1].count("●") == 6


def test_downloads_are_files(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.look(1100, dark=True)
    browser.open(page)
    for kind in ("svg", "png", "csv"):
        browser.ask(f"{CURVES}.querySelector('[data-save={kind}]').click()")
    name = "ogbn-arxiv-through-training"
    svg = wait_for(tmp_path / f"{name}-epochs.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "var(--" not in svg
    assert "Neighbour sampling" in svg  # a file has its own legend
    with Image.open(wait_for(tmp_path / f"{name}-epochs.png")) as picture:
        assert picture.width == 1520
        assert picture.getpixel((5, 5))[:3] == (255, 255, 255)  # light, whatever the page is
        assert len(picture.getcolors(1 << 20)) > 100
    with wait_for(tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["series"] for row in rows} >= {"RNS", "Full graph"}
    assert len(rows) == 3 * 6 * 8
    browser.ask("document.querySelector('#record-1 .card [data-save=csv]').click()")
    table = wait_for(tmp_path / "ogbn-arxiv-40-epochs.csv").read_text(encoding="utf-8")
    assert "rns,72.50 ± 0.40,12.0,1.00" in table


def test_the_source_of_a_table_can_be_copied(browser: Browser, page: Path) -> None:
    browser.look(1100)
    browser.open(page)
    browser.ask("document.querySelector('.sources summary').click()")
    assert browser.ask("document.querySelector('.sources pre').offsetHeight > 50")
    browser.ask("document.querySelector('.sources details button').click()")
    assert browser.ask("document.querySelector('.sources details button').textContent") == "copied"
