from __future__ import annotations

import json
from pathlib import Path

import pytest

from handful.errors import HandfulError, RunError
from handful.report.records import read_records, write_finding
from handful.report.tables import Cell
from made_records import SAMPLERS, SEEDS, write_everything, write_job, write_run, write_samplers


def test_a_finding_comes_back_with_its_runs(tmp_path: Path) -> None:
    write_samplers(tmp_path)
    (record,) = read_records(tmp_path)
    assert (record.name, record.title) == ("samplers", "ogbn-arxiv · 40 epochs")
    assert record.rows[-1][1] == Cell("72.50 ± 0.40", 1)
    assert [runs.name for runs in record.runs] == list(SAMPLERS)  # as tables have them, not by letter
    assert all(sorted(runs.seeds) == sorted(SEEDS) for runs in record.runs)
    assert record.asked == {"budget": "laptop", "seeds": "42, 123"}
    assert record.environment["handful"]
    assert record.payload["graph"] == "ogbn-arxiv"


def test_runs_of_no_study_are_a_table_by_graph(tmp_path: Path) -> None:
    for m in (2, 16, 4):
        write_job(tmp_path / f"m-{m}", "rns", 0.7 + m / 1000, 0.1)
    write_run(tmp_path / "elsewhere" / "seed-1", "full", 1, 0.9, 0.2, graph="debian")
    debian, arxiv = sorted(read_records(tmp_path), key=lambda record: record.title)
    assert [row[0].text for row in arxiv.rows] == ["m-2", "m-4", "m-16"]
    assert [row[1].rank for row in arxiv.rows] == [0, 2, 1]
    assert debian.title.startswith("debian")
    assert debian.rows[0][0].text == "elsewhere"
    assert "±" not in debian.rows[0][1].text  # one seed has no interval


def test_a_folder_of_seeds_is_a_run_by_itself(tmp_path: Path) -> None:
    write_run(tmp_path / "mine" / "seed-1", "rns", 1, 0.7, 0.1)
    (record,) = read_records(tmp_path / "mine")
    assert record.rows[0][0].text == "mine"


def test_a_run_that_has_not_ended_is_said_to_go_on(tmp_path: Path) -> None:
    for seed in SEEDS:
        write_run(tmp_path / f"seed-{seed}", "rns", seed, 0.7, 0.1)
    (tmp_path / "seed-42" / "result.json").unlink()
    (record,) = read_records(tmp_path)
    assert record.rows[0][-1].text == "123"
    assert record.words.startswith("Not ended")
    assert len(record.runs[0].histories) == 2


def test_everything_below_a_folder_is_found_once(tmp_path: Path) -> None:
    names = [record.name for record in read_records(write_everything(tmp_path))]
    assert names[:2] == ["regimes", "samplers"]  # as `handful study` lists them
    assert names[-1] == "runs"
    assert len(names) == len(set(names)) == 16


def test_a_configuration_says_how_a_run_was_trained(tmp_path: Path) -> None:
    write_job(tmp_path / "rns", "rns", 0.7, 0.1)
    found = read_records(tmp_path)[0].runs[0].configuration()
    assert found["sampler"] == "rns (parts = 4)"
    assert found["hidden"] == "128"
    assert found["lr"] == "0.01"
    assert found["patience"] == "none"
    assert "seed" not in found


def test_an_empty_or_missing_folder_is_an_error_that_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(HandfulError, match="holds no record: give the --out"):
        read_records(tmp_path)
    with pytest.raises(HandfulError, match="is not a folder"):
        read_records(tmp_path / "nowhere")


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    write_finding(tmp_path, "samplers", "t", "w", ["a"], [[Cell("b")]], {})
    with pytest.raises(RunError, match=r"samplers\.json"):
        read_records(tmp_path)
    (tmp_path / "samplers.json").write_text(json.dumps([1]))
    with pytest.raises(RunError, match="does not hold a JSON object"):
        read_records(tmp_path)
