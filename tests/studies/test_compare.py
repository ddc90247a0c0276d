from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from graphs import make_graph
from handful import Experiment
from handful.errors import HandfulError, SamplerError
from handful.samplers import Sampler
from handful.studies.compare import (
    chosen_samplers,
    compare_samplers,
    comparison,
    cost_chart,
    in_words,
    table_cells,
    table_json,
    trainable,
)
from handful.studies.jobs import Outcome
from handful.vocabulary import METHODS
from studies.smoke import GRAPH, check, trained_here

MADE = Experiment("ogbn-arxiv", seeds=(1,))


def made(method: str) -> Sampler:
    (sampler,) = chosen_samplers([method], {}, 1)
    return sampler


def outcome(sampler: str, test: float, seconds: float = 1.0, gpu: int | None = None) -> Outcome:
    summary = {
        "graph": "arxiv",
        "metric": "accuracy",
        "sampler": f"{sampler}()",
        "test": {"mean": test, "ci95": 0.01},
        "val": {"mean": test, "ci95": 0.01},
        "seconds": {"mean": seconds},
        "epoch_seconds": {"mean": seconds / 10},
        "peak_memory_bytes": {"ram": 2**30, "gpu": gpu},
    }
    return Outcome(sampler, MADE.with_(sampler=made(sampler)), Path("nowhere"), summary)


def failed(sampler: str) -> Outcome:
    return Outcome(sampler, MADE.with_(sampler=sampler), Path("nowhere"), None, "out of memory")


def test_samplers_by_name_with_batches_for_the_graph() -> None:
    graph = make_graph(200)
    size = -(-int(graph.train_mask.sum()) // 8)
    neighbor, ladies, rns = chosen_samplers(["neighbor", "ladies", "rns"], {"rns": {"parts": 3}}, 2, graph)
    assert neighbor.options()["batch_size"] == ladies.options()["batch_size"] == size
    assert sum(1 for _ in neighbor.epoch(graph, 0, 0)) in (7, 8)
    assert ladies.options()["budget"] == (8192, 8192)
    assert rns.options()["parts"] == 3
    own = {"neighbor": {"batch_size": 5}}
    assert chosen_samplers(["neighbor"], own, 2, graph)[0].options()["batch_size"] == 5
    with pytest.raises(HandfulError, match="did you mean rns"):
        chosen_samplers(["rsn"], {}, 2)


def test_hubs_have_a_row_beside_plain_rns() -> None:
    def rows(names: list[str], **options: dict[str, Any]) -> list[tuple[str, Any, Any]]:
        chosen = chosen_samplers(names, options, 2)
        return [(s.method, s.options().get("parts"), s.options().get("hubs")) for s in chosen]

    assert rows(["rns", "saint"], rns={"hubs": 0.05, "parts": 3}) == [
        ("rns", 3, None),
        ("rns-hubs", 3, 0.05),
        ("saint", None, None),
    ]
    assert rows(["rns-hubs", "rns"], rns={"parts": 3}) == [("rns-hubs", 3, "auto"), ("rns", 3, None)]
    assert rows(["rns", "rns-hubs"], rns={"hubs": 7}) == [("rns", 4, None), ("rns-hubs", 4, 7)]
    assert rows(["rns-hubs"], **{"rns-hubs": {"hubs": "degree>=9"}}) == [("rns-hubs", 4, "degree>=9")]
    with pytest.raises(HandfulError, match="hubs takes a share"):
        rows(["rns"], rns={"hubs": 0})


def test_best_and_second_best_are_marked_and_a_failure_says_why() -> None:
    result = table_json(
        [outcome("full", 0.70, 4.0), failed("saint"), outcome("rns", 0.72, 2.0), outcome("ladies", 0.6)]
    )
    assert result["rows"][1]["error"] == "out of memory"
    assert result["rows"][2]["paper"]["test"]["mean"] == 0.7251
    head, rows = table_cells(result)
    assert head == ["Method", "Test accuracy (%)", "Seconds", "Seconds per epoch", "RAM (GiB)"]
    assert [row[1].rank for row in rows] == [2, 0, 1, 0]
    assert [row[2].rank for row in rows] == [0, 0, 2, 1]  # the least time is the best
    assert rows[1][1].text == "failed: out of memory"
    assert rows[2][1].text == "72.00 ± 1.00"
    assert "GPU (GiB)" in table_cells(table_json([outcome("rns", 0.7, gpu=2**31)]))[0]


def test_the_paper_s_column_stands_beside_ours() -> None:
    outcomes = [outcome("full", 0.70), outcome("rns", 0.72)]
    found = comparison("samplers", {o.name: o.experiment for o in outcomes}, [failed("full"), failed("rns")])
    assert found.failed == ("full", "rns")
    assert found.tables[0].head[-1] == "Paper accuracy (%)"
    assert found.tables[0].rows[1][-1].text == "72.51 ± 0.19"
    assert found.charts == []


def test_the_paper_s_numbers_are_not_put_beside_another_metric() -> None:
    other = outcome("rns", 0.72)
    assert other.summary is not None
    other.summary["metric"] = "macro_f1"
    assert table_json([other])["rows"][0]["paper"] is None


def test_points_of_cost() -> None:
    time, memory = cost_chart(table_json([outcome("full", 0.7, 4.0), failed("saint"), outcome("rns", 0.72, 2.0)])).views
    assert [series.name for series in time.series] == ["Full graph", "RNS"]
    assert [(series.x, series.y) for series in time.series] == [([4.0], [70.0]), ([2.0], [72.0])]
    assert [series.x for series in memory.series] == [[1.0], [1.0]]
    gpu = cost_chart(table_json([outcome("rns", 0.7, gpu=2**31)])).views[1]
    assert (gpu.x.label, gpu.series[0].x) == ("peak GPU (GiB)", [2.0])


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (
            {"full": 0.70, "rns": 0.72, "saint": 0.71, "cluster": 0.60},
            "RNS is 2.00 points above full-graph training and 1.00 points above GraphSAINT",
        ),
        ({"rns": 0.72, "saint": 0.74}, "RNS is 2.00 points below GraphSAINT"),
        ({"full": 0.7, "rns": 0.7}, "RNS is 0.00 points above full-graph training."),
        (
            {"full": 0.70, "rns": 0.72, "rns-hubs": 0.73, "saint": 0.74},
            "RNS + hubs is 3.00 points above full-graph training, 1.00 points above RNS without them and 1.00 points "
            "below GraphSAINT, the best of the others.",
        ),
    ],
)
def test_words(tests: dict[str, Any], words: str) -> None:
    assert words in in_words(table_json([outcome(name, test) for name, test in tests.items()]))


@pytest.mark.parametrize("tests", [{"full": 0.7, "saint": 0.7}, {"full": math.nan, "rns": 0.7, "saint": math.nan}])
def test_without_rns_and_another_there_is_nothing_to_say(tests: dict[str, float]) -> None:
    assert in_words(table_json([outcome(name, test) for name, test in tests.items()])) == ""


@pytest.mark.slow
def test_every_sampler_trains_the_same_experiment(tmp_path: Path) -> None:
    experiment = Experiment(GRAPH, hidden=4, layers=1, epochs=2, seeds=(1,))
    samplers = chosen_samplers(["full", "rns"], {"rns": {"parts": 2}}, 1)
    trained_here({"full": experiment.with_(sampler="full")}, tmp_path)
    found = compare_samplers(experiment, samplers, tmp_path)
    check(found, tmp_path)
    assert "is ahead: " in found.words
    assert "one seed is too few" in found.words
    assert [row["test"]["mean"] for row in found.payload["rows"]] == [
        experiment.with_(sampler=sampler).run().test for sampler in samplers
    ]
    assert [row[0].text for row in found.tables[0].rows] == [METHODS["full"], METHODS["rns"]]


def test_a_sampler_that_cannot_train_the_model_is_left_out_and_says_why() -> None:
    samplers = chosen_samplers(["full", "ladies"], {}, 2)
    able, why = trainable(Experiment("debian", model="gat", layers=2), samplers)
    assert [sampler.name for sampler in able] == ["full"]
    assert why[0].startswith("LADIES cannot train gat")
    with pytest.raises(SamplerError, match="cannot train gat"):
        trainable(Experiment("debian", model="gat", layers=2), samplers[1:])
