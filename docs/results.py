"""Puts kept results into the pages: ``python docs/results.py [NAME=FOLDER …]``, or ``make results-docs FROM='…'``.

A record, ``docs/results/NAME.json``, has what a command printed: its tables, its sentence, the checksums of its
pictures, and how it was made (command, date, commit, CPU). ``NAME=FOLDER`` makes one of the finding in a folder that a
command left (``--out``), and copies those of its pictures that ``docs/img`` has as ``NAME-CHART.svg``. ``FOLDER`` alone
names it as the finding is named, and ``COMMIT=…`` before the command says which commit made it, where that is not the
checkout's. Then every page is written anew between

    <!-- result NAME.2 -->               the second table of the record, and how it was made
    <!-- result NAME.2 rows: A; B -->    some of its rows
    <!-- result NAME.2 only: A; B -->    some of its columns
    <!-- result NAME.2: ROW / COLUMN --> one of its cells
    <!-- result NAME.2: ROW / COLUMN minus ROW / COLUMN -->       a difference of two cells
    <!-- result NAME.2: ROW / COLUMN divided by ROW / COLUMN -->  a ratio of two cells
    <!-- result NAME words -->           its sentence

and ``<!-- /result -->``. A test fails where a page and its record differ.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RECORDS, PICTURES = DOCS / "results", DOCS / "img"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("tutorials/*.md"))]
REGION = re.compile(r"(?P<open><!-- result (?P<what>.+?) -->)(?P<inside>.*?)(?P<close><!-- /result -->)", re.DOTALL)
WHAT = re.compile(r"(?P<name>[\w-]+)(?:\.(?P<table>\d+))?(?P<rest>.*)", re.DOTALL)
OURS = ("--out", "--root", "--jobs", "--threads")
"""Options that say where a command ran, and not what it computed."""
MINUS, OVER = "minus", "divided by"
MARKS = {0: "", 1: "**", 2: "*"}
Record = dict[str, Any]


# -- pages ------------------------------------------------------------------------------------------------------------


def read_records() -> dict[str, Record]:
    """All records by name."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(RECORDS.glob("*.json"))}


def write_page(text: str, records: dict[str, Record]) -> str:
    """A page with what its regions stand for.

    >>> record = {"tables": [{"head": ["", "R"], "rows": [["RNS", "0.3"]]}]}
    >>> write_page("R is <!-- result it.1: RNS / R --><!-- /result -->.", {"it": record})
    'R is <!-- result it.1: RNS / R -->0.3<!-- /result -->.'
    """
    return REGION.sub(lambda match: match["open"] + show(match["what"], records) + match["close"], text)


def show(what: str, records: dict[str, Record]) -> str:
    """What a region stands for.

    Raises:
        SystemExit: there is no such record, table, row or column.
    """
    asked = WHAT.fullmatch(what)
    if asked is None or asked["name"] not in records:
        raise SystemExit(f"<!-- result {what} -->: there is no record docs/results/{asked and asked['name']}.json")
    record, rest = records[asked["name"]], asked["rest"].strip()
    try:
        if asked["table"] is None:
            return str(record[rest])
        table = record["tables"][int(asked["table"]) - 1]
        head, rows = table["head"], table["rows"]
        if rest.startswith(":"):
            places = re.split(f" ({MINUS}|{OVER}) ", rest[1:])
            first, *second = (_cell(head, rows, place) for place in places[::2])
            return calculate(first, second[0], places[1]) if second else first
        kind, _, names = rest.partition(":")
        wanted = [name.strip() for name in names.split(";")]
        if kind == "rows":
            rows = [next(cells for cells in rows if f"{cells[0]},".startswith(f"{name},")) for name in wanted]
        if kind == "only":
            places = [0, *(head.index(name) for name in wanted)]
            head, rows = [head[i] for i in places], [[cells[i] for i in places] for cells in rows]
    except (KeyError, IndexError, ValueError, StopIteration):
        raise SystemExit(f"<!-- result {what} -->: the record has no such table, row or column") from None
    how = f"\n{made(record)}\n" if asked["table"] == "1" else ""  # once is enough for all tables of a record
    return f"\n\n{markdown(head, rows)}{how}\n"


def _cell(head: list[str], rows: list[list[str]], place: str) -> str:
    """The cell at ``ROW / COLUMN``."""
    row, column = (part.strip() for part in place.split(" / "))
    return str(next(cells for cells in rows if cells[0] == row)[head.index(column)]).strip("*")


def calculate(first: str, second: str, how: str) -> str:
    """The ratio of two cells by three digits, or their difference by one decimal less than they have: both are rounded.

    >>> calculate("**1.52** (1,449)", "1.59 ± 0.1", OVER), calculate("75.04", "74.71", MINUS)
    ('0.956', '0.3')
    """
    a, b = (re.search(r"[+-]?\d[\d,]*(?:\.(\d+))?(?:e[+-]?\d+)?", cell) for cell in (first, second))
    if a is None or b is None:
        raise ValueError(f"{first} or {second} is no number")
    x, y = (float(match[0].replace(",", "")) for match in (a, b))
    if how == OVER:
        return f"{x / y:.3g}"
    return f"{x - y:.{max(1, min(len(match[1] or '') for match in (a, b)) - 1)}f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table; the numbers are on the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", cell) for cell in line) + " |\n" for line in lines)


def made(record: Record) -> str:
    """How a record was made, in a line."""
    where = ", ".join(record[key] for key in ("cpu", "note") if record.get(key))
    return f"`{record['command']}` · {record['date']} · commit {record['commit']} · {where}"


# -- records ----------------------------------------------------------------------------------------------------------


def keep(name: str, folder: Path) -> None:
    """Make the record ``name``, or that of the finding's own name, of the finding in ``folder``."""
    file = folder / "finding.json"
    if not file.exists():
        raise SystemExit(f"{folder} has no finding.json: give the folder that a command left (--out)")
    finding = json.loads(file.read_text(encoding="utf-8"))
    name = name or finding["name"]
    pictures = {}
    for picture in sorted(folder.glob("*.svg")):
        copy = PICTURES / f"{name}-{picture.name}".replace(f"{name}-{finding['name']}", name)
        if copy.exists():  # a page shows it
            shutil.copyfile(picture, copy)
            pictures[copy.name] = checksum(copy)
    tables = [
        {
            "title": table["title"],
            "head": table["head"],
            "rows": [[mark(cell) for cell in row] for row in table["rows"]],
        }
        for table in finding["tables"]
    ]
    record = {
        "command": public(finding["environment"].get("command", f"handful study {finding['name']}")),
        "date": f"{datetime.fromtimestamp(file.stat().st_mtime):%Y-%m-%d}",
        "commit": commit(),
        "cpu": processor(),
        "words": finding["words"],
        "facts": finding["facts"],
        "tables": tables,
        "pictures": pictures,
    }
    RECORDS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\n\s+(\"[^\[\]{}]*?\")\n\s+\]", lambda m: "[" + re.sub(r"\n\s+", " ", m[1]) + "]", text)
    (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def mark(cell: dict[str, Any]) -> str:
    """A cell of a finding as Markdown has it."""
    return MARKS[cell["rank"]] + str(cell["text"]) + MARKS[cell["rank"]]


def public(command: str) -> str:
    """A command without the options that say where it ran.

    >>> public("handful study parts --graph debian --out /tmp/x")
    'handful study parts --graph debian'
    """
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in OURS:
            next(words, None)
        elif word.partition("=")[0] not in OURS:
            kept.append(word)
    return shlex.join(kept)


def checksum(file: Path) -> str:
    """The first half of a file's SHA-256."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:32]


def commit() -> str:
    """The commit that made the finding: ``$COMMIT``, else that of the checkout."""
    return (
        os.environ.get("COMMIT")
        or subprocess.run(
            ["git", "rev-parse", "--short=7", "HEAD"], cwd=DOCS, capture_output=True, text=True, check=True
        ).stdout.strip()
    )


def processor() -> str:
    """The CPU and how many of its cores are here."""
    info = Path("/proc/cpuinfo").read_text()
    name = re.findall(r"model name\s*: (.*)", info)[0]
    return f"{name}, {len(re.findall(r'^processor', info, re.MULTILINE))} cores"


def main(asked: list[str]) -> None:
    """Make the records that are asked for, then write the pages."""
    for one in asked:
        name, _, folder = one.rpartition("=")
        keep(name, Path(folder))
    records = read_records()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(write_page(text, records), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
