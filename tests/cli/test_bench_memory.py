from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest

from handful.cli import bench_memory
from handful.cli.bench_memory import SMALL, Shape, handful_epoch, in_own_process, pyg_epoch
from handful.datasets import load
from handful.errors import HandfulError

SHAPE = Shape(SMALL, 4, "sage", 8, 2, "ln", 0.3, 4, 1, 0)


def test_a_way_runs_in_a_process_of_its_own() -> None:
    result = in_own_process("handful_rns", SHAPE)
    assert result is not None
    assert result["seconds"] > 0
    assert result["peak_rss_bytes"] - result["graph_rss_bytes"] == result["above_graph_bytes"] >= 0


def test_an_error_comes_back() -> None:
    with pytest.raises(HandfulError, match="there is no"):
        in_own_process("handful_rns", replace(SHAPE, graph="no-such-graph"))


def _ended(way: str, shape: Shape, answer: Connection) -> None:
    os._exit(137)


def test_a_process_that_was_ended_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_memory, "_child", _ended)
    assert in_own_process("handful_rns", SHAPE) is None


@pytest.mark.parametrize("model", ["sage", "gat"])
def test_pyg_can_be_cut_short(model: str) -> None:
    pytest.importorskip("torch_geometric")
    graph = load(SMALL)
    assert pyg_epoch(graph, "pyg_rns", replace(SHAPE, model=model, pyg_steps=1))() == 0.25
    assert pyg_epoch(graph, "pyg_full", replace(SHAPE, model=model, pyg_steps=1))() == 1.0
    assert handful_epoch(graph, "handful_full", replace(SHAPE, model=model))() == 1.0
