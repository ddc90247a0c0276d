from __future__ import annotations

import os

import pytest

from handful import Experiment, RandomNodes
from handful.errors import HandfulError
from handful.kernels.threads import get_threads
from scripts import script

pytest.importorskip("torch_geometric")
bench = script("memory")
WARM = bench.SMALL

SHAPE = Experiment(WARM, hidden=8, layers=2, norm="ln", dropout=0.3, sampler=RandomNodes(4), seeds=(0,))


@pytest.mark.slow
@pytest.mark.parametrize("way", bench.MEMORY_WAYS)
def test_the_memory_of_every_way_is_measured(way: str) -> None:
    found = bench.measure_memory(way, SHAPE, 1, get_threads())
    assert found is not None
    assert found["seconds"] > 0
    assert found["graph_rss_bytes"] > 0
    assert found["above_graph_bytes"] >= 0


@pytest.mark.slow
def test_a_part_of_an_epoch_of_pyg_counts_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "seconds_of", lambda work: 3.0)
    took = [bench.measure_memory(way, SHAPE, steps, get_threads()) for way, steps in (("pyg_rns", 1), ("pyg_rns", 0))]
    took.append(bench.measure_memory("pyg_full", SHAPE, 1, get_threads()))
    assert [found and found["seconds"] for found in took] == [12.0, 3.0, 3.0]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory")])
def test_memory_that_ran_out_is_no_failure(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(work: object) -> float:
        raise error

    monkeypatch.setattr(bench, "seconds_of", fail)
    assert bench.measure_memory("handful_rns", SHAPE, 0, get_threads()) is None


def test_each_way_has_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"handful_rns": {"seconds": 1.0, "graph_rss_bytes": 2**30, "above_graph_bytes": 2**31}, "pyg_full": None}
    monkeypatch.setattr(bench, "in_own_process", lambda work, way, *rest: answers[way])
    said: list[str] = []
    result = bench.bench_memory(SHAPE, list(answers), 0, said.append)
    assert result["ways"] == answers
    assert (result["shape"]["graph"], result["shape"]["parts"], result["shape"]["hidden"]) == (WARM, 4, 8)
    assert len(said) == 2
    first, second = bench.memory_table(result).rows
    assert [cell.text for cell in first[1:]] == ["1.00", "2.00", "1.00"]
    assert second[1].text == "does not fit"


def test_an_unknown_way_is_refused_before_anything_runs() -> None:
    with pytest.raises(HandfulError, match="there is no way 'handfull_rns'"):
        bench.bench_memory(SHAPE, ["handfull_rns"], 0, print)


def test_a_mistake_is_told_by_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--graph", WARM, "--ways", "handful"])
    assert "there is no way 'handful'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_of_its_own_answers_fails_or_is_ended() -> None:
    assert bench.in_own_process(abs, -3) == 3
    with pytest.raises(ZeroDivisionError):
        bench.in_own_process(divmod, 1, 0)
    assert bench.in_own_process(os._exit, 137) is None
