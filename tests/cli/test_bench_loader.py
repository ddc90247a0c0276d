"""``handful bench loader`` as a user meets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli.run import handful
from handful.cli import bench_loader

SMALL = ("--nodes", 2000, "--edges", 20_000, "--rounds", 1)


def test_json_has_what_the_documentation_says() -> None:
    result = handful("bench", "loader", *SMALL, "--json")
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


def test_table_for_people_and_other_parts() -> None:
    result = handful("bench", "loader", *SMALL, "--parts", "3")
    assert result.code == 0, result.stderr
    assert "PyG / handful" in " ".join(result.stdout.split())
    assert "a few batches timed" not in result.stdout


def test_both_loaders_are_given_the_same_graph() -> None:
    data = bench_loader.synthetic_data(500, 4000, seed=1)
    said: list[str] = []
    result = bench_loader.measure(data, [2], rounds=2, seed=0, say=said.append)
    assert (result["nodes"], result["edges"]) == (500, data.num_edges)
    rounds = [text for text in said if text.startswith("round")]
    assert [text.partition(": ")[2] for text in rounds] == ["handful_m2…", "handful_csr_m2…", "pyg_m2…"] * 2


def test_an_epoch_that_is_only_started_scales_all_but_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(bench_loader, "perf_counter", lambda: clock[0])

    class Loader:
        def __len__(self) -> int:
            return 101

        def __iter__(self) -> Iterator[int]:
            clock[0] += 20  # what is paid once
            for i in range(len(self)):
                clock[0] += 1
                yield i

    assert bench_loader.started_epoch(Loader(), count=6) == 121
    assert clock[0] == 26
    assert bench_loader.whole_epoch(Loader()) == 121


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--parts", "0"), "--parts must lie between 1 and the number of nodes, 2000"),
        (("--parts", "3000"), "--parts must lie between"),
        (("--parts", "ten"), "--parts takes whole numbers"),
        (("--edges", 1_000_000), "degree must be between"),
    ],
)
def test_a_mistake_is_one_line(options: tuple[object, ...], message: str) -> None:
    result = handful("bench", "loader", *SMALL, *options)
    assert result.code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
