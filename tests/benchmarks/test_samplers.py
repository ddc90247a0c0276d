from __future__ import annotations

import pytest

from handful.datasets.synthetic import BlockModel, generate
from handful.errors import HandfulError
from scripts import script

samplers = script("samplers")


@pytest.mark.slow
def test_every_sampler_has_a_row_that_adds_up() -> None:
    result = samplers.bench_samplers(3000, 30_000, 1500, limit=20, training=(8, 2), layers=2, say=lambda word: None)
    assert result["copy_bytes_per_second"] > 0
    assert result["seeds"] == 1500
    rows = {row["sampler"]: row for row in result["samplers"]}
    assert {name: row["batches"] for name, row in rows.items()} == {
        "neighbor": 2,
        "saint": 1,
        "cluster": 10,
        "ladies": 2,
        "rns": 10,
    }
    for row in rows.values():
        assert row["whole_epoch"]
        loops = row["sampler"] == "ladies"  # which adds one to every row
        assert 0 < row["edges_sampled"] <= row["edges_read"] * (1.2 if loops else 1)
        assert row["edges_per_second"] == pytest.approx(row["edges_sampled"] / row["seconds"])
        assert row["step_seconds"] > 0
    assert [row[0].text for row in samplers.samplers_table(result).rows] == list(rows)
    assert len(samplers.notes(result)) > len(rows)


@pytest.mark.slow
def test_an_epoch_can_be_cut_short_and_training_left_out() -> None:
    result = samplers.bench_samplers(3000, 30_000, 1500, limit=0, training=None, layers=2, say=lambda word: None)
    assert result["training"] is None
    assert not any("step_seconds" in row for row in result["samplers"])
    assert not all(row["whole_epoch"] for row in result["samplers"])
    assert "step, s" not in samplers.samplers_table(result).head
    assert all(row[1].text.endswith("…") for row in samplers.samplers_table(result).rows if row[0].text != "saint")


def test_more_training_nodes_than_nodes_are_refused() -> None:
    with pytest.raises(HandfulError, match="seeds is 4000, more than the 3000 nodes"):
        samplers.bench_samplers(3000, 30_000, 4000, 1, None, 2, print)


def test_blocks_stand_in_for_clusters() -> None:
    graph = samplers.with_narrow_features(generate(BlockModel(nodes=100, classes=2, degree=4, features=0)))
    batches = list(samplers.joined_blocks(graph, 10, 4))
    assert [len(nodes) for nodes, _ in batches] == [40, 40, 20]
    assert sorted(v for nodes, _ in batches for v in nodes.tolist()) == list(range(100))
    assert all(
        len(set(nodes.tolist()) & set(range(10 * k, 10 * k + 10))) in (0, 10) for nodes, _ in batches for k in range(10)
    )
