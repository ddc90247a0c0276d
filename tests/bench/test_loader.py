from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from handful.bench import loader
from handful.bench.loader import bench_loader, in_words, loader_table, neighbors_table, numpy_neighbors
from handful.errors import HandfulError
from handful.kernels.neighbors import sample

pytest.importorskip("torch_geometric")


@pytest.mark.slow
def test_both_loaders_are_given_the_same_graph_by_turns() -> None:
    said: list[str] = []
    result = bench_loader(500, 4000, [2], rounds=2, seed=1, say=said.append)
    assert (result["nodes"], result["edges"]) == (500, loader.synthetic_data(500, 4000, seed=1)[1].num_edges)
    rounds = [text for text in said if text.startswith("round")]
    assert [text.partition(": ")[2] for text in rounds] == ["handful_m2…", "handful_csr_m2…", "pyg_m2…"] * 2
    assert result["ratio"]["m2"] == result["seconds"]["pyg_m2"] / result["seconds"]["handful_m2"]
    assert result["pyg_extrapolated"] == []


@pytest.mark.slow
def test_the_table_marks_what_was_not_run_to_its_end() -> None:
    result = bench_loader(500, 4000, [3, 25], rounds=1, seed=1, say=lambda word: None)
    table = loader_table(result)
    assert [row[0].text for row in table.rows] == ["2", "3", "25"]
    assert [row[1].text.endswith("*") for row in table.rows] == [False, False, True]
    assert table.rows[0][1].text == ""  # PyG is not asked for the two parts that we are held against
    assert "taken to last as long" in in_words(result)


def test_parts_beyond_the_nodes_are_refused() -> None:
    for parts in ([0], [600]):
        with pytest.raises(HandfulError, match="parts must lie between 1 and the number of nodes, 500"):
            bench_loader(500, 4000, parts, 1, 0, print)


def test_an_epoch_that_is_only_started_scales_all_but_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(loader, "perf_counter", lambda: clock[0])

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


@pytest.mark.slow
def test_neighbour_loading_has_a_row_for_each_way() -> None:
    result = bench_loader(500, 4000, [2], rounds=1, seed=1, say=lambda word: None)
    found = result["neighbors"]
    assert list(found["seconds"]) == ["loader", "operator", "handful", "numpy"]
    assert found["loader_over_handful"] == found["seconds"]["loader"] / found["seconds"]["handful"]
    table = neighbors_table(result)
    assert len(table.rows) == 4
    assert "15,10,5" in table.title


def test_the_numpy_reference_samples_what_the_kernel_samples() -> None:
    graph, _ = loader.synthetic_data(300, 3000, seed=1)
    indptr, indices = graph.topology
    seeds = np.array([5, 2, 77])
    nodes, target, _ = numpy_neighbors(indptr, indices, seeds, (500, 500), np.random.default_rng(0))
    whole = sample(indptr, indices, seeds, (-1, -1), 0)
    assert set(nodes.tolist()) == set(whole.nodes.tolist())
    assert len(target) == len(whole.edges)
    few, rows, cols = numpy_neighbors(indptr, indices, seeds, (4, 2), np.random.default_rng(0))
    assert np.array_equal(few[:3], seeds)
    assert len(np.unique(few)) == len(few)
    degree = np.diff(indptr)[few]
    assert np.bincount(rows, minlength=len(few))[:3].tolist() == np.minimum(degree[:3], 4).tolist()
    for v, u in zip(few[rows].tolist(), few[cols].tolist(), strict=True):
        assert u in indices[indptr[v] : indptr[v + 1]]
