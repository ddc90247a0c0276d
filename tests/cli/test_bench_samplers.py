import json

import pytest
from typer.testing import CliRunner

import handful.cli.bench_samplers as bench_samplers
from handful.cli.app import app
from handful.datasets.synthetic import BlockModel, generate

SMALL = ["--nodes", "3000", "--edges", "30000", "--seeds", "1500", "--hidden", "8", "--layers", "2"]


def run(*options: str) -> str:
    result = CliRunner().invoke(app, ["bench", "samplers", *options], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_every_sampler_has_a_row_that_adds_up() -> None:
    payload = json.loads(run(*SMALL, "--json"))
    assert payload["copy_bytes_per_second"] > 0
    assert payload["seeds"] == 1500
    rows = {row["sampler"]: row for row in payload["samplers"]}
    assert list(rows) == ["neighbor", "saint", "cluster", "ladies", "rns"]
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


def test_an_epoch_can_be_cut_short_and_training_left_out() -> None:
    text = run(*SMALL, "--limit", "0", "--no-train")
    assert "cut short by --limit" in text
    assert "step, s" not in text


def test_blocks_stand_in_for_clusters() -> None:
    graph = bench_samplers.with_narrow_features(generate(BlockModel(nodes=100, classes=2, degree=4, features=0)))
    batches = list(bench_samplers.joined_blocks(graph, 10, 4))
    assert [len(nodes) for nodes, _ in batches] == [40, 40, 20]
    assert sorted(v for nodes, _ in batches for v in nodes.tolist()) == list(range(100))
    assert all(
        len(set(nodes.tolist()) & set(range(10 * k, 10 * k + 10))) in (0, 10) for nodes, _ in batches for k in range(10)
    )
