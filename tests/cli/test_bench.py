"""``handful bench`` as a user meets it."""

from __future__ import annotations

import pytest

from cli.run import handful

pytest.importorskip("torch_geometric")

EPOCH = ("--graph", "synthetic?nodes=200&degree=6&features=8&classes=3", "--hidden", 8, "--layers", 2, "--rounds", 1)
LOADER = ("--nodes", 2000, "--edges", 20_000, "--rounds", 1)


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


@pytest.mark.slow
def test_loader() -> None:
    result = handful("bench", "loader", *LOADER, "--json")
    assert result.code == 0, result.stderr
    summary = result.json
    assert summary["nodes"] == 2000
    assert 18_000 < summary["edges"] <= 20_000
    seconds, ratio = summary["seconds"], summary["ratio"]
    assert {"pyg_m10", "handful_m10", "pyg_m50", "handful_m50", "handful_m2"} <= set(seconds)
    assert all(value > 0 for value in seconds.values())
    assert ratio["m10"] == pytest.approx(seconds["pyg_m10"] / seconds["handful_m10"])
    assert ratio["m50"] == pytest.approx(seconds["pyg_m50"] / seconds["handful_m50"])
    assert ratio["handful_m50_over_m2"] == pytest.approx(seconds["handful_m50"] / seconds["handful_m2"])
    assert summary["pyg_extrapolated"] == ["pyg_m50"]
    assert summary["peak_extra_memory_over_csr"] == summary["peak_extra_memory_over_csr_of"]["handful_m10"]
    people = handful("bench", "loader", *LOADER, "--parts", "3")
    assert people.code == 0, people.stderr
    assert "PyG" in people.stdout


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("loader", (*LOADER, "--parts", "0"), "parts must lie between 1 and the number of nodes, 2000"),
        ("loader", (*LOADER, "--parts", "3000"), "parts must lie between"),
        ("loader", (*LOADER, "--parts", "ten"), "--parts takes whole numbers"),
        ("loader", (*LOADER, "--edges", 1_000_000), "degree must be between"),
        ("epoch", (*EPOCH, "--graph", "debain"), "did you mean debian"),
    ],
)
def test_a_mistake_is_one_line(command: str, options: tuple[object, ...], message: str) -> None:
    result = handful("bench", command, *options)
    assert result.code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
