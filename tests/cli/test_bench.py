"""``handful bench`` as a user meets it."""

from __future__ import annotations

import pytest

from cli.run import handful
from handful.bench.epoch import MEANINGLESS

pytest.importorskip("torch_geometric")

EPOCH = ("--graph", "synthetic?nodes=200&degree=6&features=8&classes=3", "--hidden", 8, "--layers", 2, "--rounds", 1)


@pytest.mark.slow
def test_epoch() -> None:
    result = handful("bench", "epoch", *EPOCH, "--parts", 2, "--json")
    assert result.code == 0, result.stderr
    told = result.json
    ways = {"pyg_edge_index", "pyg_csr", "handful_fp32", "handful_bf16", "floor_fp32"}
    assert ways <= set(told["seconds"]) == set(told["pieces"])
    assert (told["nodes"], told["parts"], told["device"]) == (200, 2, "cpu")
    over = told["seconds"]["handful_fp32"] / told["seconds"]["floor_fp32"]
    assert told["ratio"]["handful_fp32_over_floor"] == pytest.approx(over)


@pytest.mark.triton
@pytest.mark.slow
def test_gpu() -> None:
    """Without a GPU: in Triton's interpreter, at toy size, and saying that this has no meaning."""
    result = handful(
        "bench", "gpu", "--rounds", 1, "--parts", 1, "--graph", "synthetic?nodes=20&degree=2&classes=2", "--hidden", 4
    )
    assert result.code == 0, result.stderr
    assert "| PyG, edge_index |" in result.stdout
    assert "| handful fp32 |" in result.stdout
    assert MEANINGLESS in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", ["loader", "memory", "ranks", "samplers", "scale"])
def test_what_is_a_script_says_how_to_run_it(name: str) -> None:
    result = handful("bench", name, "--rounds", 3)
    assert result.code == 2
    assert f"python -m benchmarks.{name}" in result.stderr


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("epoch", (*EPOCH, "--graph", "debain"), "did you mean debian"),
    ],
)
def test_a_mistake_is_one_line(command: str, options: tuple[object, ...], message: str) -> None:
    result = handful("bench", command, *options)
    assert result.code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
