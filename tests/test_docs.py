"""The documentation site: every page is in the navigation, every command on its page, every example is code."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from typer.main import get_command

import handful
from handful import cli
from handful.finding import Cell, Finding, Table
from handful.report.page import write_finding

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


def hook(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"[\w/-]+\.md", str(yaml.safe_load(text)["nav"]))) == set(PAGES)


def test_the_walk_to_the_first_step_is_short_and_names_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = re.findall(r"^\d+\. `([\w/]+\.py)`", text, re.MULTILINE)
    assert 15 < len(walk) <= 25
    for path in walk:
        assert (ROOT / "src" / "handful" / path).exists(), path


def test_the_pictures_are_those_of_their_script() -> None:
    for name, draw in hook("draw_ideas").PICTURES.items():
        assert (ROOT / "docs" / "img" / f"{name}.svg").read_text(encoding="utf-8") == draw(), name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        place = ROOT / "docs" / page
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", place.read_text(encoding="utf-8")):
            found = (place.parent / target).resolve()
            assert found.exists(), f"{page}: {target}"
            assert found.is_relative_to(ROOT / "docs"), f"{page}: {target} is not on the site"


def test_the_page_of_commands_has_all_of_them_with_their_options() -> None:
    commands = hook("commands")
    text = commands.on_page_markdown("before <!-- commands --> after")
    for name, command in get_command(cli.app).commands.items():
        assert bool(re.search(rf"^## handful {name}\b", text, re.MULTILINE)) is not command.hidden, name
    for part in ("## handful bench epoch", "`--epochs`", "handful train GRAPH [OPTIONS]", "| `residual` |"):
        assert part in text
    assert commands.on_page_markdown("see [commands](a.md)") == "see [commands](a.md)"


def test_examples_of_docstrings_become_code() -> None:
    pytest.importorskip("griffe", reason="comes with handful[docs]")
    fenced = hook("doctests").fenced
    assert fenced("What.\n\n>>> f()\n[1, 3]\n\nMore.") == "What.\n\n```pycon\n>>> f()\n[1, 3]\n```\n\nMore."
    assert fenced("What.\n>>> f()\n1") == "What.\n\n```pycon\n>>> f()\n1\n```"
    assert fenced("No example.") == "No example."


def test_the_page_of_python_names_things_that_exist() -> None:
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    for path in names:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path
    documented = {path.rpartition(".")[2] for path in names}
    assert {"Experiment", "Graph", "fit", "load", "open_run"} <= documented & set(handful.__all__)


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    assert "handful compare" in page


# -- results ----------------------------------------------------------------------------------------------------------

MEASURED = ("reproduce", "theory", "survey", "performance")
NUMBER = re.compile(r"[*(]*[+-]?\d[\d.,]*(e-?\d+)?[*)%]*( ?(±|→).*)?")


def test_pages_have_what_the_records_have() -> None:
    results = hook("results")
    records = results.read_records()
    used = set()
    for page in results.PAGES:
        text = page.read_text(encoding="utf-8")
        assert results.write_page(text, records) == text, f"{page.name}: run python docs/results.py"
        used |= {match["what"].split(".")[0].split()[0] for match in results.REGION.finditer(text)}
    assert used == set(records)


def test_a_record_says_how_it_was_made_and_has_its_pictures() -> None:
    results = hook("results")
    for name, record in results.read_records().items():
        assert all(record[key] for key in ("command", "date", "commit", "cpu")), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"]), name
        for picture, checksum in record["pictures"].items():
            assert results.checksum(results.PICTURES / picture) == checksum, f"{name}: {picture} is another picture"


@pytest.mark.parametrize("page", MEASURED)
def test_no_table_of_numbers_is_typed(page: str) -> None:
    text = hook("results").REGION.sub("", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    typed = [row for row in rows if any(NUMBER.fullmatch(cell.strip()) for cell in row.strip("|").split("|"))]
    assert not typed


def test_a_finding_becomes_a_record_and_the_page_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = hook("results")
    folder, page = tmp_path / "study", tmp_path / "page.md"
    monkeypatch.setattr(results, "RECORDS", tmp_path)
    monkeypatch.setattr(results, "PAGES", [page])
    table = Table("A table", ["Method", "R"], [[Cell("RNS"), Cell("0.3", 1)], [Cell("full"), Cell("1.2 ± 0.5")]])
    table.rows.append([Cell("all, full"), Cell("|0|")])
    made = {"command": "handful study parts --graph debian --out /some/where"}
    write_finding(Finding("parts", "A title", "RNS it is.", [table], environment=made), folder)
    page.write_text(
        "It says <!-- result mine words -->x<!-- /result --> <!-- result mine.1: RNS / R --><!-- /result -->\n"
        "<!-- result mine.1: RNS / R divided by full / R --><!-- /result -->\n"
        "<!-- result mine.1: RNS / R minus full / R --><!-- /result -->\n"
        "<!-- result mine.1 rows: all -->\nold\n<!-- /result -->\n"
    )
    results.main([f"mine={folder}"])
    text = page.read_text()
    assert "words -->RNS it is.<!-- /result -->" in text
    assert "/ R -->0.3<!-- /result -->" in text
    assert "divided by full / R -->0.25<!-- /result -->" in text
    assert "minus full / R -->-0.9<!-- /result -->" in text
    assert "| all, full | \\|0\\| |" in text
    assert "| RNS |" not in text
    assert "`handful study parts --graph debian`" in text
    assert results.write_page(text, results.read_records()) == text
    for wrong in ("nothing.1", "mine.2", "mine.1: RNS / S", "mine.1: RNS / R minus RNS / S", "mine nothing"):
        with pytest.raises(SystemExit, match="result"):
            results.write_page(f"<!-- result {wrong} --><!-- /result -->", results.read_records())
