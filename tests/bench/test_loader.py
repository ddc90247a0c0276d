from __future__ import annotations

from collections.abc import Iterator

import pytest

from handful.bench import harness, loader
from handful.bench.loader import bench_loader, loader_table
from handful.errors import HandfulError

pytest.importorskip("torch_geometric")


@pytest.mark.slow
def test_both_loaders_are_given_the_same_graph_by_turns() -> None:
    said: list[str] = []
    result = bench_loader(500, 4000, [2], rounds=2, seed=1, say=said.append)
    assert (result["nodes"], result["edges"]) == (500, loader.synthetic_data(500, 4000, seed=1)[1].num_edges)
    assert set(result["seconds"]) == {"handful_m2", "handful_csr_m2", "pyg_m2"}
    assert sum("pyg_m2" in text for text in said) == 2
    assert result["ratio"]["m2"] > 0
    assert result["pyg_extrapolated"] == []


@pytest.mark.slow
def test_the_table_marks_what_was_not_run_to_its_end() -> None:
    result = bench_loader(500, 4000, [3, 25], rounds=1, seed=1, say=lambda word: None)
    table = loader_table(result)
    assert [row[0].text for row in table.rows] == ["2", "3", "25"]
    assert [row[1].text.endswith("*") for row in table.rows] == [False, False, True]
    assert table.rows[0][1].text == "–"  # PyG is not asked for the two parts that we are held against


def test_parts_beyond_the_nodes_are_refused() -> None:
    for parts in ([0], [600]):
        with pytest.raises(HandfulError, match="parts must lie between 1 and the number of nodes, 500"):
            bench_loader(500, 4000, parts, 1, 0, print)


def test_an_epoch_that_is_only_started_scales_all_but_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    for module in (loader, harness):
        monkeypatch.setattr(module, "perf_counter", lambda: clock[0])

    class Loader:
        def __len__(self) -> int:
            return 101

        def __iter__(self) -> Iterator[int]:
            clock[0] += 20  # what is paid once
            for i in range(len(self)):
                clock[0] += 1
                yield i

    assert loader.started_epoch(Loader(), count=6) == 121
    assert clock[0] == 26
    assert loader.whole_epoch(Loader()) == 121
