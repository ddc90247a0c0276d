from __future__ import annotations

import os
from multiprocessing.connection import Connection

import pytest

from handful import Experiment, RandomNodes
from handful.bench import memory
from handful.bench.memory import SMALL, bench_memory, in_own_process, memory_table, one_epoch
from handful.datasets import load
from handful.errors import HandfulError

SHAPE = Experiment(SMALL, hidden=8, layers=2, norm="ln", dropout=0.3, sampler=RandomNodes(4), seeds=(0,))


@pytest.mark.slow
def test_a_way_runs_in_a_process_of_its_own() -> None:
    said: list[str] = []
    result = bench_memory(SHAPE, ["handful_rns"], 0, said.append)
    assert result["shape"]["graph"] == SMALL
    assert (result["shape"]["parts"], result["shape"]["pyg_steps"]) == (4, 4)
    (way,) = result["ways"].values()
    assert way["seconds"] > 0
    assert way["peak_rss_bytes"] - way["graph_rss_bytes"] == way["above_graph_bytes"] >= 0
    assert said == ["handful, random parts…"]
    (row,) = memory_table(result).rows
    assert row[2].text == f"{way['above_graph_bytes'] / 2**30:.2f}"


@pytest.mark.slow
def test_an_error_comes_back() -> None:
    with pytest.raises(HandfulError, match="there is no"):
        in_own_process("handful_rns", SHAPE.with_(graph="no-such-graph"), 1, 1)


def _ended(way: str, experiment: Experiment, pyg_steps: int, threads: int, answer: Connection) -> None:
    os._exit(137)


def test_a_process_that_was_ended_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_child", _ended)
    result = bench_memory(SHAPE, ["handful_rns"], 0, print)
    assert result["ways"] == {"handful_rns": None}
    assert [cell.text for cell in memory_table(result).rows[0]] == ["handful, random parts", "does not fit", "", ""]


@pytest.mark.parametrize(
    ("ways", "changes", "message"),
    [
        (["handfull_rns"], {}, "there is no way 'handfull_rns'"),
        (["handful_rns"], {"model": "gcn"}, "there is no model 'gcn'"),
        (["handful_rns"], {"norm": "none"}, "there is no norm 'none'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(ways: list[str], changes: dict, message: str) -> None:
    with pytest.raises(HandfulError, match=message):
        bench_memory(SHAPE.with_(**changes), ways, 0, print)


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_pyg_can_be_cut_short(model: str) -> None:
    pytest.importorskip("torch_geometric")
    graph = load(SMALL)
    shape = SHAPE.with_(model=model, hidden=8, layers=2, norm="ln")
    assert one_epoch(graph, "pyg_rns", shape, 1)() == 0.25
    assert one_epoch(graph, "pyg_full", shape, 1)() == 1.0
    assert one_epoch(graph, "handful_full", shape, 1)() == 1.0
