"""A line of the history: what it holds, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts import script

pytest.importorskip("torch_geometric")
record = script("record")


def line(commit: str, cpu: str = "a", **values: float) -> dict[str, Any]:
    return {
        "commit": commit,
        "date": "2026-01-01T00:00:00+00:00",
        "cpu": cpu,
        **dict.fromkeys(record.MEASURES, 1.0),
        **values,
    }


def test_a_commit_has_one_line_for_each_processor(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert record.read_history(path) == []
    for one in (line("1"), line("2"), line("1", cpu="b"), line("1", lines=2)):
        record.add_line(one, path)
    assert record.read_history(path) == [line("2"), line("1", cpu="b"), line("1", lines=2)]


def test_the_commit_and_the_machine_are_known() -> None:
    told = record.identify()
    assert len(told["commit"].removesuffix("-dirty")) >= 7
    assert told["cpu"]
    assert told["threads"] >= 1


def test_the_processor_time_of_a_command() -> None:
    assert record.cpu_seconds(["-c", "pass"]) > 0
    with pytest.raises(RuntimeError, match="ended with code 3"):
        record.cpu_seconds(["-c", "raise SystemExit(3)"])


@pytest.mark.slow
def test_every_measure_is_measured() -> None:
    graph = "synthetic?nodes=200&degree=6&features=8&classes=3"
    said: list[str] = []
    found = (
        record.measure_size() | record.measure_start(1, said.append) | record.measure_pass(500, 4000, 1, said.append)
    )
    found |= record.measure_loader(500, 4000, 1, said.append) | record.measure_epoch(graph, 1, said.append)
    assert set(found) == set(record.MEASURES)
    assert all(value > 0 for value in found.values())


def test_the_history_has_a_row_for_every_line_and_a_panel_for_every_measure() -> None:
    history = script("history")
    lines = [line("1234567890ab"), line("2"), line("3", cpu="b")]
    table, chart = history.history_table(lines), history.history_chart(lines)
    assert [row[0].text for row in table.rows] == ["1234567", "2", "3"]
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert [view.name for view in chart.views] == list(record.MEASURES.values())
    assert [series.x for series in chart.views[0].series] == [[1, 2], [3]]
