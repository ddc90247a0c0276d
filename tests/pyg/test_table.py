"""The table of PyG's modules on the page is what they do."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_table_of_modules_is_what_they_do() -> None:
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / "docs" / "pyg_table.py"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        now = script["page"]()
    assert script["PAGE"].read_text(encoding="utf-8") == now, "run python docs/pyg_table.py"
