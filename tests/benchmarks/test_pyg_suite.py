"""PyG's tests with and without ``enable()``: what differs, and what is worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import script

suite = script("pyg_suite")

TESTS = """
import pytest, torch
from torch_geometric.testing import onlyNeighborSampler

def test_same():
    pass

@onlyNeighborSampler
def test_gained():
    assert hasattr(torch.ops.pyg, "neighbor_sample")

def test_lost():
    assert not hasattr(torch.ops.pyg, "neighbor_sample")
"""


def test_worse_comes_first() -> None:
    without = {"a": ("skipped", ""), "b": ("passed", ""), "c": ("skipped", ""), "d": ("failed", "x")}
    with_ = {"a": ("passed", ""), "b": ("skipped", "no"), "c": ("failed", "why\n it failed"), "d": ("failed", "x")}
    table, lines = suite.compare(without, with_)
    assert lines == [
        "WORSE b: passed, then skipped: no",
        "WORSE c: skipped, then failed: why it failed",
        "a: skipped, then passed",
    ]
    assert "| failed | failed | 1 |" in table
    assert suite.compare(without, {})[1][0] == "WORSE a: skipped, then not run"


@pytest.mark.slow
def test_a_checkout_is_run_both_ways(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_some.py").write_text(TESTS)
    found = []
    for enabled in (False, True):
        outcomes = tmp_path / f"{enabled}.jsonl"
        suite.run(tmp_path, ["test"], 1, enabled, "", outcomes)
        found.append(suite.read(outcomes))
    _, lines = suite.compare(*found)
    assert [line.partition(": ")[0].rpartition("::")[2] for line in lines] == ["test_lost", "test_gained"]
    assert lines[0].startswith("WORSE ")
