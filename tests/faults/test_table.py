"""``docs/faults.md``: every fault has a test that exists, and every reproduction of a fault that was found is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
HEADS = ("fault", "bug")
ROWS = [row for row in re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE) if row[0] not in HEADS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_row_names_tests_that_exist(row: tuple[str, str, str]) -> None:
    named = re.findall(r"`([\w/]*test_\w+\.py)(?:::(test_\w+))?`", row[2])
    assert named
    for file, function in named:
        path = ROOT / file if "/" in file else ROOT / "tests" / "faults" / file
        functions = re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert functions
        assert not function or function in functions
