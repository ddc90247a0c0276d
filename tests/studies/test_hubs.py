from __future__ import annotations

from pathlib import Path

import pytest

from handful.studies import Request
from handful.studies.budget import benchmark
from handful.studies.hubs import BESIDE, SCALE, VALUES, in_words
from handful.training.metrics import METRICS
from studies.smoke import GRAPH, laptop, smoke, trained_here


def test_every_share_of_hubs_has_a_row(tmp_path: Path) -> None:
    base = benchmark(Request(budget="smoke"), GRAPH, "rns", SCALE)
    options = base.sampler.options()
    jobs = {
        f"hubs-{'none' if v is None else v}": base.with_(sampler=type(base.sampler)(**{**options, "hubs": v}))
        for v in VALUES["smoke"]
    }
    jobs |= {name: benchmark(Request(budget="smoke"), GRAPH, name, SCALE) for name in BESIDE}
    trained_here(jobs, tmp_path)
    found = smoke("hubs", tmp_path)
    rows = found.payload["rows"]
    assert [row["name"] for row in rows] == list(jobs)
    none, share, auto, full, _ = rows
    assert (none["hubs"], share["hubs"]) == (0, 15)
    assert none["edges"] < share["edges"]
    assert full["R"]["mean"] == pytest.approx(0, abs=1e-9)
    assert [row[0].text for row in found.tables[0].rows] == [row["label"] for row in rows]
    assert (none["label"], share["label"]) == ("none", "largest 5%")
    assert auto["label"].startswith("auto (")
    test, *_ = found.charts[0].views
    assert test.series[0].y == [pytest.approx(100 * row["test"]["mean"]) for row in rows[:3]]


def test_words() -> None:
    rows = [
        {"name": name, "label": name, "hubs": n, "share": n / 100, "test": {"mean": test}, "R": {"mean": R}}
        | {"epoch_seconds": {"mean": seconds}}
        for name, n, test, R, seconds in [
            ("hubs-none", 0, 0.7, 0.4, 1.0),
            ("hubs-0.05", 5, 0.73, 0.1, 1.2),
            ("hubs-auto", 3, 0.72, 0.2, 1.1),
        ]
    ]
    assert in_words(rows, METRICS["accuracy"]) == (
        "Against no hubs: hubs-0.05: +3.00 points, R 4 times smaller, an epoch 1.20 times as long; "
        "hubs-auto: +2.00 points, R 2 times smaller, an epoch 1.10 times as long."
    )
    assert "nothing to compare" in in_words(rows[1:], METRICS["accuracy"])


@pytest.mark.slow
def test_on_debian(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in laptop("hubs", tmp_path).payload["rows"]}
    assert rows["hubs-0.05"]["test"]["mean"] > rows["hubs-none"]["test"]["mean"] + 0.015
    assert rows["hubs-0.05"]["R"]["mean"] < rows["hubs-none"]["R"]["mean"] / 3
