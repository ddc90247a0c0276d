"""Two commits by turns: what is judged, and that the processes answer. Nothing is timed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handful.bench.harness import Turns, measure_by_turns
from scripts import ROOT, script

against = script("against")


def test_the_median_ratio_decides_and_the_quartiles_are_told() -> None:
    verdict = against.Verdict([0.9, 1.0, 1.2, 1.3, 9.0])
    assert (verdict.ratio, verdict.spread, verdict.slower) == (1.2, (1.0, 1.3), True)
    assert not against.Verdict([0.9, 1.0, 1.2, 1.3, 9.0], limit=1.25).slower
    assert against.Verdict([1.05]).spread == (1.05, 1.05)


@pytest.mark.parametrize(
    ("seconds", "measured", "slower"),
    [([1.0], 1, False), ([2.0, 1.0], 2, False), ([2.0, 1.5], 2, True)],
)
def test_what_seems_slower_is_measured_once_more(seconds: list[float], measured: int, slower: bool) -> None:
    left = list(seconds)
    turns, verdict = against.judge(lambda: Turns({"other": [1.0], "this": [left.pop(0)]}))
    assert len(seconds) - len(left) == measured
    assert verdict.slower == slower
    assert turns.seconds["this"] == [seconds[measured - 1]]


STUB = """
import json, os, sys
print(json.dumps({"package": os.environ["PYTHONPATH"] + sys.argv[1]}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": len(line.strip()), "cpu": 1}), flush=True) if line != "end\\n" else sys.exit(3)
"""


def stub(folder: Path, package: str = "/handful/__init__.py") -> Any:
    script = folder / "stub.py"
    script.write_text(STUB)
    return against.Side(folder, [str(script), package])


def test_two_processes_are_asked_by_turns(tmp_path: Path) -> None:
    sides = {"other": stub(tmp_path), "this": stub(tmp_path)}
    said: list[str] = []
    works = {name: partial(side.ask, "pass") for name, side in sides.items()}
    turns = measure_by_turns(works, 2, said.append)
    assert turns.seconds == {"other": [4.0, 4.0], "this": [4.0, 4.0]}
    for side in sides.values():
        assert side.cpu == [1, 1]
        side.close()
        assert side.process.returncode == 0


def test_a_process_that_has_ended_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has ended with code 3"):
        stub(tmp_path).ask("end")


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="was imported"):
        stub(tmp_path, package="/../elsewhere/handful/__init__.py")


@pytest.mark.slow
def test_the_worker_does_its_works() -> None:
    graph = "synthetic?nodes=200&degree=6&features=8&classes=3"
    side = against.Side(ROOT / "src", [against.WORKER, graph, graph])
    assert side.ask("pass") > 0
    assert side.ask("epoch") > 0
    side.close()
    assert side.process.returncode == 0


def test_a_commit_that_does_not_exist_ends_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        against.sources_of("no-such-commit", tmp_path)
    assert end.value.code == 2
    assert "no-such-commit" in capfd.readouterr().err
