from __future__ import annotations

import pytest

from handful.studies.beside import beside_paper, paper_number, points_beside


def test_numbers_of_the_paper_or_none() -> None:
    assert paper_number("tab:main-results", "ogbn-arxiv", "rns")["test"]["mean"] == 0.7251
    assert paper_number("tab:main-results", "debian", "rns") is None
    assert paper_number("tab:no-such-table") is None


def test_a_table_of_every_entry_that_has_the_paper_s_number() -> None:
    rows = [
        {
            "sampler": "rns",
            "test": {"mean": 0.71, "ci95": 0.002},
            "seconds": {"mean": 250.0},
            "peak_memory_bytes": {"ram": 2.5e9, "gpu": None},
            "paper": paper_number("tab:main-results", "ogbn-arxiv", "rns"),
        },
        {"sampler": "mine", "test": {"mean": 0.5, "ci95": 0.1}, "paper": None},
    ]
    table = beside_paper({"metric": "accuracy", "rows": rows})
    assert table is not None
    assert table.head == ["", "test (%)", "paper", "seconds", "paper", "GPU (GB)", "paper", "RAM (GB)", "paper"]
    (cells,) = [[cell.text for cell in row] for row in table.rows]
    assert cells == ["RNS", "71.00 ± 0.20", "72.51 ± 0.19", "250", "100", "–", "2.38", "2.50", "1.51"]


def test_entries_are_named_by_what_is_above_them() -> None:
    cell = {"full": {"mean": 0.5, "ci95": 0.0}, "paper": paper_number("tab:graphland_rns", "tolokers-2", "rl")}
    entry = {"dataset": "tolokers-2", "metric": "average_precision", "rl": cell, "rh": cell}
    table = beside_paper({"datasets": [entry]})
    assert table is not None
    assert table.head == ["", "full (%)", "paper", "RNS (%)", "paper"]
    assert [row[0].text for row in table.rows] == ["tolokers-2 · RL", "tolokers-2 · RH"]
    target = {"target": 0.88, "epoch": 2.0, "paper": {"epoch": 2.5}}
    speeds = beside_paper({"metric": "accuracy", "targets": [target]})
    assert speeds is not None
    assert [cell.text for cell in speeds.rows[0]] == ["88.00 %", "2.00", "2.50"]


def test_what_is_no_share_is_neither_scaled_nor_in_percent() -> None:
    entry = {"sampler": "rns", "test": {"mean": 12.5, "ci95": 0.5}, "paper": {"mean": 11.0, "ci95": 1.0}}
    table = beside_paper({"metric": "mae", "rows": [entry]})
    assert table is not None
    assert table.head == ["", "test", "paper"]
    assert [cell.text for cell in table.rows[0]] == ["RNS", "12.5 ± 0.5", "11 ± 1"]


def test_a_number_alone_is_of_the_test_metric_and_none_is_out_of_memory() -> None:
    alone = beside_paper(
        {"metric": "accuracy", "cells": [{"regime": "rns", "test": None, "paper": {"mean": 0.8, "ci95": 0.01}}]}
    )
    assert alone is not None
    assert [cell.text for cell in alone.rows[0]] == ["RNS", "–", "80.00 ± 1.00"]
    gat = {"model": "gat", "full": None, "rns": None, "paper": {"full": None, "rns": None}}
    broken = beside_paper({"metric": "accuracy", "models": [gat]})
    assert broken is not None
    assert [cell.text for cell in broken.rows[0]] == ["GAT", "–", "OOM", "–", "OOM"]
    assert beside_paper({"rows": [{"sampler": "rns", "paper": None}], "graph": "debian"}) is None


def test_points_of_the_paper_are_marked() -> None:
    ours, paper = points_beside("RNS", ["a", "b"], [{"mean": 0.5, "ci95": 0.1}, None], [None, {"mean": 0.6}], 3, 100)
    assert (ours.y, ours.low, ours.high) == ([50.0, None], [40.0, None], [60.0, None])
    assert (paper.name, paper.paper, paper.color, paper.y) == ("RNS, paper", True, 3, [None, pytest.approx(60)])
    assert len(points_beside("RNS", ["a"], [0.5], [None], 0, 100)) == 1
