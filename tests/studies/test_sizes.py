"""The parts of RNS, the fanout of neighbour sampling, and samplers with equal targets in a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphs import make_graph
from handful import Experiment
from handful.studies import presets
from handful.studies.sizes import (
    FIELD_PARTS,
    SAMPLERS,
    STEPS,
    VALUES,
    WEIGHTS,
    settings_of,
    size_sampler,
    spread,
    targets,
)
from studies.smoke import laptop, smoke
from studies.test_grid import grid


def test_every_m(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("parts", tmp_path)
    assert [str(job.sampler) for job in untrained.values()] == [
        "rns(parts=1)", "rns(parts=2)", "rns(parts=4, fraction=0.5)"
    ]  # fmt: skip
    assert [point.get("m") for point in found.payload["curve"]] == [*VALUES["smoke"], None]
    assert [row[0].text for row in found.tables[0].rows] == ["1", "2", "fraction 1/2"]
    assert [row[1].rank for row in found.tables[0].rows] == [0, 2, 1]
    assert "fraction 1/2" in found.words
    views = {view.name: view.series[0] for view in found.charts[0].views}
    assert list(views) == ["test", "val", "seconds", "peak_ram_bytes"]
    assert views["test"].x == [1, 2]
    assert views["test"].y == pytest.approx([50, 51])
    assert views["peak_ram_bytes"].y == [1, 1]


def test_fanouts_as_deep_as_the_model(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("fanout", tmp_path)
    space = [own["fanout"] for own in presets.search_space("neighbor") if len(own["fanout"]) <= 3]
    names = [",".join(map(str, fanout)) for fanout in space]
    assert [cell["fanout"] for cell in found.payload["cells"]] == names
    assert list(untrained) == [f"fanout-{name.replace(',', '-')}" for name in names]
    assert [job.sampler.options()["fanout"] for job in untrained.values()] == [tuple(fanout) for fanout in space]
    test, *_ = found.charts[0].views
    assert test.series[0].x == [f"[{name}]" for name in names]


@pytest.mark.parametrize("steps", [2, 8])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_batch_has_its_share_of_the_targets(
    name: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDFUL_HOME", str(tmp_path))
    graph = make_graph(1200)
    wanted = len(graph.train_nodes) / steps
    found = targets(size_sampler(name, graph, steps), graph, seed=3, batches=8 if steps == 8 else 2)
    assert found == pytest.approx(wanted, rel=0.15)


def test_every_sampler_at_every_size(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("batch-size", tmp_path)
    assert len(found.tables[0].rows) == len(SAMPLERS)
    places = [(cell["sampler"], cell["batches"]) for cell in found.payload["cells"]]
    assert places == [(name, steps) for steps in STEPS["smoke"] for name in SAMPLERS]
    series = found.charts[0].views[0].series
    assert series[0].x == [cell["targets"] for cell in found.payload["cells"] if cell["sampler"] == "rns"]


def test_the_spread_within_rows_and_columns() -> None:
    cells = {
        ("rns", "2"): [0.7],
        ("saint", "2"): [0.72],
        ("rns", "8"): [0.6],
        ("saint", "8"): [0.66],
        ("full", "8"): None,
    }
    assert spread(grid(cells), "column") == pytest.approx(0.04)
    assert spread(grid(cells), "row") == pytest.approx(0.08)
    assert spread(grid({("rns", "2"): [0.7]}), "row") != spread(grid({("rns", "2"): [0.7]}), "row")  # NaN


def test_every_m_and_weight_of_the_stand_in_has_a_row(untrained: dict[str, Experiment], tmp_path: Path) -> None:
    found = smoke("mean-field", tmp_path)
    rows = found.payload["rows"]
    assert [(row["m"], row["lambda"]) for row in rows] == [
        (m, v) for m in FIELD_PARTS["smoke"] for v in WEIGHTS["smoke"]
    ]
    for (row, job), value in zip(zip(rows, untrained.values(), strict=True), WEIGHTS["smoke"], strict=True):
        assert job.sampler.options()["parts"] == row["m"]
        assert {name: getattr(job.settings, name) for name in settings_of(value)} == settings_of(value)
        assert row["R"]["mean"] > 0


@pytest.mark.slow
def test_the_mean_field_on_debian(tmp_path: Path) -> None:
    found = laptop("mean-field", tmp_path, epochs=10)
    rows = {(row["m"], row["lambda"]): row["test"]["mean"] for row in found.payload["rows"]}
    for m in (8, 16):
        assert rows[m, None] + 0.01 < rows[m, 0.0]
        assert rows[m, 0.0] < rows[m, 1.0]
    assert rows[4, 1.0] - rows[16, 1.0] < 0.01  # m hardly matters any more
